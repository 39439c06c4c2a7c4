"""Answers to the exercises of lesson 6 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

import numpy as np


def signed(log_probability: Any, x: Any, nudge: float = 1e-4) -> Any:
    steps = nudge * np.eye(len(x))
    return np.array([(log_probability(x + step) - log_probability(x - step)) / (2 * nudge) for step in steps])


def all_at_once(log_probability: Any, x: Any, nudge: float = 1e-4) -> Any:
    return np.full(len(x), abs(log_probability(x + nudge) - log_probability(x - nudge)) / (2 * nudge))


def half_a_nudge(log_probability: Any, x: Any, nudge: float = 1e-4) -> Any:
    return 2 * abs(signed(log_probability, x, nudge))


def by_steps(reached: Any, ball: Any) -> Any:
    half = 1.96 * reached.std(ddof=1) / np.sqrt(len(reached))
    return reached.mean(), reached.mean() - half, reached.mean() + half


def of_population(reached: Any, ball: Any) -> Any:
    means = np.array([reached[ball == one].mean() for one in np.unique(ball)])
    half = 1.96 * means.std() / np.sqrt(len(means))
    return means.mean(), means.mean() - half, means.mean() + half


def of_deviation(reached: Any, ball: Any) -> Any:
    means = np.array([reached[ball == one].mean() for one in np.unique(ball)])
    return means.mean(), means.mean() - 1.96 * means.std(ddof=1), means.mean() + 1.96 * means.std(ddof=1)


WRONG: dict[str, list[Any]] = {
    "saliency": [signed, all_at_once, half_a_nudge],
    "reading": ["a", "c", "d", "e"],
    "discounted_returns": [lambda rewards, discount: np.cumsum(rewards), lambda rewards, discount: rewards,
                           lambda rewards, discount: np.cumsum(rewards * discount ** np.arange(len(rewards)))[::-1],
                           lambda rewards, discount: float(rewards.sum())],
    "dot": [by_steps, of_population, of_deviation],
}

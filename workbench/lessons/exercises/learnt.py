"""Exercises of lesson 6: a saliency, a return, and a dot of a calibration with its interval."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# The solutions stand in a lesson as a student would write them.

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.lessons.answers import choice, compared, expect_close, expect_written
from workbench.lessons.exercise import Exercise


def gradient_saliency(log_probability, x, nudge=1e-4):
    """|∂ log_probability / ∂x_i| for every number of x, by central differences."""
    found = np.zeros(len(x))
    for i in range(len(x)):
        step = nudge * np.eye(len(x))[i]
        found[i] = abs(log_probability(x + step) - log_probability(x - step)) / (2 * nudge)
    return found


def _check_saliency(answer: Any) -> None:
    x = np.array([0.5, -1.0, 2.0])
    weights = np.array([3.0, -2.0, 0.0])
    for function, right, words in (
        (lambda x: float(weights @ x), abs(weights), "of 3 x₀ - 2 x₁ (a saliency has no sign)"),
        (lambda x: float((x**2).sum()), 2 * abs(x), "of x₀² + x₁² + x₂²"),
        (lambda x: float(-np.log1p(np.exp(-x[0]))), np.array([1 / (1 + np.exp(0.5)), 0, 0]),
         "of log π where π is a sigmoid of x₀"),
    ):
        expect_close(expect_written(answer(function, x)), right, words, {"x": x}, tolerance=1e-3)


saliency = Exercise(
    _check_saliency, gradient_saliency,
    why="Each number is nudged both ways, with all others as they are. A network needs one backward pass for all of "
        "them together.",
)


reading = choice(
    "b", {
        "a": "A map shows what the output is sensitive to. It shows no belief about what is in a place.",
        "c": "That would be an explanation of the choice. The gradient says only what a small change would do; it may "
             "be large where nothing happened at all.",
        "d": "A trained network has to notice a ball wherever it may be, so it is sensitive to empty places as well.",
    },
    why="The gradient is about changes near this frame: what would matter if it were different, not what did matter.",
)


def returns_of_steps(rewards, discount):
    """G_t of every step, from the back."""
    returns, after = np.zeros(len(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        returns[t] = after = rewards[t] + discount * after
    return returns


discounted_returns = compared(
    returns_of_steps,
    (np.array([0.0, 0.0, 1.0]), 0.5, "with one reward at the end"),
    (np.array([1.0, 2.0, 3.0]), 1.0, "without discount (γ = 1)"),
    (np.array([1.0, -1.0, 0.0, 3.0]), 0.9, "with rewards of both signs"),
    (np.array([5.0, 7.0]), 0.0, "with γ = 0, where only the next reward counts"),
    why="From the back each step needs one multiplication; forwards every step would need the whole rest.",
)


def mean_of_balls(reached, ball):
    """Mean, low and high end, from one mean for each ball."""
    means = np.array([reached[ball == one].mean() for one in np.unique(ball)])
    half = 1.96 * means.std(ddof=1) / np.sqrt(len(means))
    return means.mean(), means.mean() - half, means.mean() + half


dot = compared(
    mean_of_balls,
    (np.array([1.0, 3.0, 2.0, 4.0]), np.arange(4), "with one step of each ball"),
    (np.array([1.0, 1.0, 1.0, 3.0, 3.0, 3.0]), np.array([0, 0, 0, 1, 1, 1]),
     "with two balls of three equal steps (n is 2, not 6)"),
    (np.array([0.0, 2.0, 5.0, 4.0, 4.0]), np.array([7, 7, 7, 9, 8]),
     "where balls have different numbers of steps (each ball counts once) and are not numbered from 0"),
    why="Eight steps of one ball are nearly one observation. Taken for eight, they would make the interval √8 times "
        "too narrow.",
)

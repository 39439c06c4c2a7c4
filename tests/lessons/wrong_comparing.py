"""Answers to the exercises of lesson 12 that are wrong in ways that students are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.lessons.exercises.comparing import CLAIMS


def games_mixed(scores: Any, statistic: Any, resamples: int = 2000, confidence: float = 0.95) -> Any:
    """Draws from all scores together."""
    random = np.random.default_rng()
    values = [statistic(random.choice(scores.ravel(), scores.shape)) for _ in range(resamples)]
    return np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])


def whole_runs(scores: Any, statistic: Any, resamples: int = 2000, confidence: float = 0.95) -> Any:
    """Draws the same runs for all games."""
    random = np.random.default_rng()
    values = [statistic(scores[random.integers(len(scores), size=len(scores))]) for _ in range(resamples)]
    return np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])


def of_another_size(more: int) -> Any:
    """Draws fewer or more runs than there are."""

    def interval(scores: Any, statistic: Any, resamples: int = 2000, confidence: float = 0.95) -> Any:
        (runs, games), random = scores.shape, np.random.default_rng()
        values = [statistic(scores[random.integers(runs, size=(runs + more, games)), np.arange(games)])
                  for _ in range(resamples)]
        return np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])

    return interval


def cut_off(round_: Callable[[float], int]) -> Any:
    """The mean of what is left where a quarter of the scores, rounded in some way, is left out at each end."""

    def mean(scores: Any) -> Any:
        flat = np.sort(scores.ravel())
        cut = round_(len(flat) / 4)
        return flat[cut : len(flat) - cut].mean()

    return mean


def without_replacement(scores: Any, statistic: Any, resamples: int = 2000, confidence: float = 0.95) -> Any:
    random = np.random.default_rng()
    values = [statistic(random.permutation(scores)) for _ in range(resamples)]
    return np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])


def deviations(scores: Any, statistic: Any, resamples: int = 2000, confidence: float = 0.95) -> Any:
    """A standard deviation of the scores instead of the statistic."""
    return statistic(scores) - 2 * scores.std(0).mean(), statistic(scores) + 2 * scores.std(0).mean()


WRONG: dict[str, list[Any]] = {
    "two_episodes": [0.95, 0.7, 20],
    "iqm": [np.mean, np.median, lambda scores: np.sort(scores.ravel())[1:-1].mean(),
            lambda scores: scores.ravel()[len(scores.ravel()) // 4 : -(len(scores.ravel()) // 4)].mean(),
            cut_off(math.ceil), cut_off(round)],
    "bootstrap": [games_mixed, whole_runs, of_another_size(-1), of_another_size(1), without_replacement, deviations],
    "claims": [{**CLAIMS, "best seed": "supported"}, {**CLAIMS, "three seeds": ...},
               dict.fromkeys(CLAIMS, "supported")],
}

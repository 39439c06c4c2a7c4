"""Answers to the exercises of lesson 12 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.lessons.exercises.comparing import CLAIMS


def whole_runs(scores: Any, statistic: Any, resamples: int = 2000, confidence: float = 0.95) -> Any:
    """Draws from all scores together, so that games are mixed."""
    random = np.random.default_rng()
    values = [statistic(random.choice(scores.ravel(), scores.shape)) for _ in range(resamples)]
    return np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])


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
            lambda scores: scores.ravel()[len(scores.ravel()) // 4 : -(len(scores.ravel()) // 4)].mean()],
    "bootstrap": [whole_runs, without_replacement, deviations],
    "claims": [{**CLAIMS, "best seed": "supported"}, {**CLAIMS, "three seeds": ...},
               dict.fromkeys(CLAIMS, "supported")],
}

"""Statistics of scores: Student's interval of a mean, the interquartile mean, and stratified bootstrap intervals.

As rliable (Agarwal et al. 2021, "Deep RL at the edge of the statistical precipice", arXiv 2108.13264) has them. Scores
are float64 [runs, games]: one for each training run on each game.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from workbench.errors import OutOfBounds
from workbench.trajectory import Array

_NORMAL_FROM = 1000  # degrees of freedom beyond which Student's quantile is expanded around the normal quantile
_MOST_AT_ONCE = 2_000_000  # numbers in memory, of resamples


def mean(scores: Array) -> Array:
    """The mean over runs [..., R, G] and games."""
    return np.asarray(scores.mean((-2, -1)))


def median(scores: Array) -> Array:
    """The median over games of each game's mean over runs."""
    return np.asarray(np.median(scores.mean(-2), -1))


def iqm(scores: Array) -> Array:
    """The interquartile mean of all runs on all games together: without the lowest and the highest quarter.

    ⌊n/4⌋ scores are left out at each end.
    """
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), -1)
    cut = flat.shape[-1] // 4
    return np.asarray(flat[..., cut : flat.shape[-1] - cut].mean(-1))


def optimality_gap(scores: Array) -> Array:
    """The mean distance of scores below 1, where scores above 1 count as 1."""
    return np.asarray((1 - np.minimum(scores, 1)).mean((-2, -1)))


def share_above(scores: Array, thresholds: Array) -> Array:
    """The share of all runs on all games whose score is above each of `thresholds` [T]: [..., T]."""
    return np.stack([(scores > mark).mean((-2, -1)) for mark in thresholds], -1)


def superiority(ours: Array, theirs: Array) -> Array:
    """The probability that a run of ours [..., R, G] beats one of theirs [..., S, G], averaged over games.

    Ties count half. On one game this is Mann and Whitney's U over R S.
    """
    each = [((run > theirs) + (run == theirs) / 2).mean((-2, -1)) for run in np.split(ours, ours.shape[-2], -2)]
    return np.asarray(np.mean(each, 0))


STATISTICS: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {"iqm": iqm, "mean": mean, "median": median, "optimality_gap": optimality_gap}
)


def bootstrap_interval(
    scores: Array, of: Callable[[Array], Array], *, confidence: float, resamples: int, seed: int
) -> tuple[float, float]:
    """The percentile bootstrap interval of a statistic: runs are drawn anew with replacement, within each game.

    (-inf, inf) without a spread: for a single run, or where all runs of each game are equal. Raises OutOfBounds.
    """
    low, high = bootstrap_intervals([scores], of, confidence=confidence, resamples=resamples, seed=seed)
    return (float(low), float(high))


def bootstrap_intervals(
    scores: Sequence[Array], of: Callable[..., Array], *, confidence: float, resamples: int, seed: int
) -> tuple[Array, Array]:
    """The same for an array statistic of several sets of runs, which are resampled independently.

    Both ends have the shape that `of` returns, without its first dimension.
    """
    check_confidence(confidence)
    if isinstance(resamples, bool) or not isinstance(resamples, int) or not 100 <= resamples <= 10_000_000:
        raise OutOfBounds(f"resamples={resamples!r} must be a whole number in [100, 10000000].")
    if min(map(len, scores)) < 2 or all((runs == runs[0]).all() for runs in scores):
        shape = of(*(runs[None] for runs in scores)).shape[1:]
        return (np.full(shape, -math.inf), np.full(shape, math.inf))
    generator, values = np.random.default_rng(seed), []
    chunk = max(1, _MOST_AT_ONCE // sum(runs.size for runs in scores))
    for first in range(0, resamples, chunk):
        resampled = [_drawn(runs, min(chunk, resamples - first), generator) for runs in scores]
        values.append(of(*resampled))
    low, high = np.quantile(np.concatenate(values), [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return (low, high)


def _drawn(scores: Array, count: int, generator: np.random.Generator) -> Array:
    runs, games = scores.shape
    return scores[generator.integers(runs, size=(count, runs, games)), np.arange(games)]


def student_interval(values: Array, *, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of the mean of `values` [N] by Student's t; (-inf, inf) for one value."""
    check_confidence(confidence)
    count = len(values)
    if count < 2:
        return (-math.inf, math.inf)
    middle = float(np.mean(values))
    half = student_quantile((1 + confidence) / 2, count - 1) * float(np.std(values, ddof=1)) / math.sqrt(count)
    return (middle - half, middle + half)


def check_confidence(confidence: Any) -> None:
    """Raises OutOfBounds."""
    if not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
        raise OutOfBounds(f"confidence={confidence!r} must lie between 0 and 1, such as 0.95.")


def student_quantile(probability: float, degrees: int) -> float:
    """The quantile of Student's t with whole degrees of freedom, for a probability of 0.5 at least."""
    if degrees > _NORMAL_FROM:  # Abramowitz and Stegun 26.7.5; the remainder is below 1e-10
        x, n = statistics.NormalDist().inv_cdf(probability), float(degrees)
        return (x + (x**3 + x) / (4 * n) + (5 * x**5 + 16 * x**3 + 3 * x) / (96 * n**2)
                + (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / (384 * n**3))
    low, high = 0.0, 1.0
    while _within(high, degrees) < 2 * probability - 1:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < 2 * probability - 1 else (low, middle)
    return high


def _within(t: float, degrees: int) -> float:
    """P(|T| <= t): Abramowitz and Stegun 26.7.3 for odd degrees of freedom, 26.7.4 for even ones."""
    angle = math.atan(t / math.sqrt(degrees))
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 + odd, degrees - 1, 2):
        term *= math.cos(angle) ** 2 * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total

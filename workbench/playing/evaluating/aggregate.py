"""`aggregate`: what several training runs on several games come to, with intervals that say how sure that is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.environments.atari.scores import scores_of
from workbench.errors import InvalidInput
from workbench.playing.evaluating.evaluation import Evaluation
from workbench.playing.evaluating.statistics import (
    STATISTICS,
    bootstrap_interval,
    bootstrap_intervals,
    share_above,
    superiority,
)
from workbench.trajectory import Array

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Estimate:
    """A statistic with its bootstrap interval; (-inf, inf) where there is one run of each game."""

    value: float
    low: float
    high: float

    def __repr__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True, repr=False)
class Aggregate:
    """Scores of `runs` training runs on each of some environments.

    Attributes:
        environments: in the order of the columns of `scores`.
        scores: float64 [runs, environments].
        score: what they are: "human-normalized", "return", or "given".
        iqm: interquartile mean over all of them.
        mean: over all of them.
        median: over environments, of each one's mean.
        optimality_gap: how far they are below 1 in the mean, where more than 1 counts as 1; None for plain returns.
        confidence: of the intervals.
    """

    environments: tuple[str, ...]
    scores: Array
    score: str
    iqm: Estimate
    mean: Estimate
    median: Estimate
    optimality_gap: Estimate | None
    confidence: float

    @property
    def runs(self) -> int:
        """Training runs on each environment."""
        return len(self.scores)

    def profile(
        self, thresholds: Sequence[float] | None = None, *, resamples: int = 2000, seed: int = 0
    ) -> pd.DataFrame:
        """The performance profile: which share of all runs on all environments scored above each threshold.

        Of two that do not cross, the higher one is the better algorithm (Agarwal et al. 2021, section 4.3).

        Args:
            thresholds: None: 101 of them, from the lowest to the highest score.

        Returns:
            A row for each threshold: score, share, and low and high of the share's own interval.

        Raises InvalidInput, OutOfBounds.
        """
        import pandas as pd

        marks = np.linspace(self.scores.min(), self.scores.max(), 101) if thresholds is None else _marks(thresholds)

        def shares(scores: Array) -> Array:
            return share_above(scores, marks)

        low, high = bootstrap_intervals(
            [self.scores], shares, confidence=self.confidence, resamples=resamples, seed=seed)
        return pd.DataFrame({"score": marks, "share": shares(self.scores), "low": low, "high": high})

    def improvement_over(self, other: Aggregate, *, resamples: int = 2000, seed: int = 0) -> Estimate:
        """The probability that a run of these does better than one of `other`, in the mean over environments.

        Ties count half. An interval above 0.5 says that these are better (Agarwal et al. 2021, section 4.3).
        Raises InvalidInput where the two were not scored on the same environments in the same way, OutOfBounds.
        """
        if self.score != other.score or set(self.environments) != set(other.environments):
            raise InvalidInput(
                f"{self.score} of {', '.join(self.environments)} does not compare with {other.score} of "
                f"{', '.join(other.environments)}: give aggregates of the same environments and scores.")
        theirs = other.scores[:, [other.environments.index(name) for name in self.environments]]
        low, high = bootstrap_intervals(
            [self.scores, theirs], superiority, confidence=self.confidence, resamples=resamples, seed=seed)
        return Estimate(float(superiority(self.scores, theirs)), float(low), float(high))

    def __repr__(self) -> str:
        many = len(self.environments)
        of = self.environments[0] if many == 1 else f"{many} environments"
        gap = "" if self.optimality_gap is None else f", optimality gap {self.optimality_gap}"
        return (f"Aggregate({of}, {self.runs} runs each, {self.score}: IQM {self.iqm}, median {self.median}, "
                f"mean {self.mean}{gap}; {self.confidence:.4g} intervals)")


def aggregate(
    evaluations: Iterable[Evaluation],
    *,
    score: Callable[[Evaluation], float] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Aggregate:
    """IQM, median, mean and optimality gap of several training runs on one or several environments, as rliable.

    Each evaluation is one training run; the same number of them is wanted for each environment. Intervals are
    percentile bootstrap intervals, stratified by environment (Agarwal et al. 2021, arXiv 2108.13264).

    Args:
        score: what a run is worth, from its evaluation; None: the human-normalized score on Atari, else the mean
            return, which of several environments cannot be averaged.
        resamples: of the bootstrap.

    Raises InvalidInput where the evaluations do not go together, OutOfBounds.
    """
    given = list(evaluations)
    _check(given)
    what, worth = _worth(given, score)
    names = tuple(dict.fromkeys(one.environment for one in given))
    scores = np.array([[worth(one) for one in given if one.environment == name] for name in names], np.float64).T
    if not np.isfinite(scores).all():
        raise InvalidInput("a score is not finite. Look at the evaluations, or at what score= makes of them.")
    found = {}
    for name, of in STATISTICS.items():
        low, high = bootstrap_interval(scores, of, confidence=confidence, resamples=resamples, seed=seed)
        found[name] = Estimate(float(of(scores)), low, high)
    gap = found.pop("optimality_gap")
    return Aggregate(names, scores, what, optimality_gap=None if what == "return" else gap, confidence=confidence,
                     **found)


def _marks(thresholds: Sequence[float]) -> Array:
    try:
        found = np.asarray(thresholds, np.float64)
    except (TypeError, ValueError):
        found = np.array(math.nan)
    if found.ndim != 1 or not found.size or not np.isfinite(found).all():
        raise InvalidInput(f"thresholds={thresholds!r:.100} must be numbers, such as [0.5, 1, 2].")
    return found


def _check(given: Sequence[Evaluation]) -> None:
    if not given:
        raise InvalidInput("there is no evaluation to aggregate.")
    for one in given:
        if not isinstance(one, Evaluation):
            raise InvalidInput(f"{one!r:.100} is no evaluation. Give what wb.evaluate returned.")
    protocols = {one.protocol for one in given}
    if len(protocols) > 1:
        raise InvalidInput(f"these were evaluated in different ways, {_listed(map(str, protocols))}: their scores do "
                           "not compare. Evaluate all of them by one protocol.")
    twice = [path for path, number in Counter(one.checkpoint for one in given).items() if number > 1]
    if twice:
        raise InvalidInput(f"{twice[0]} was given {Counter(one.checkpoint for one in given)[twice[0]]} times. Give one "
                           "evaluation of each training run: an interval is about how other runs would come out.")
    numbers = Counter(one.environment for one in given)
    if len(set(numbers.values())) > 1:
        counted = _listed(f"{number} of {name}" for name, number in numbers.items())
        raise InvalidInput(f"each environment must have the same number of runs, and there are {counted}.")


def _worth(
    given: Sequence[Evaluation], score: Callable[[Evaluation], float] | None
) -> tuple[str, Callable[[Evaluation], float]]:
    """What scores are called, and how to get them. Raises InvalidInput."""
    if score is not None:
        return "given", score
    strangers = [one.environment for one in given if scores_of(one.environment) is None]
    if not strangers:
        return "human-normalized", _human_normalized
    if len({one.environment for one in given}) > 1:
        raise InvalidInput(f"nobody has published human scores of {strangers[0]}, and returns of several environments "
                           "cannot be averaged. Say what a run is worth: score=lambda one: one.mean / 500.")
    return "return", lambda one: one.mean


def _human_normalized(one: Evaluation) -> float:
    found = one.human_normalized
    return math.nan if found is None else found


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))

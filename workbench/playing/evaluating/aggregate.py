"""`aggregate`: statistics of several training runs on several games, with their confidence intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workbench import checkpoints
from workbench.environments.atari.scores import published
from workbench.errors import InvalidInput, WorkbenchError
from workbench.playing.evaluating.evaluation import Evaluation
from workbench.playing.evaluating.statistics import (
    STATISTICS,
    bootstrap_interval,
    bootstrap_intervals,
    share_above,
    superiority,
)
from workbench.rundir import around
from workbench.tables import counted
from workbench.trajectory import Array

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Estimate:
    """A statistic with its bootstrap interval, (-inf, inf) where the runs of each game are equal, or there is one."""

    value: float
    low: float
    high: float

    def __repr__(self) -> str:
        interval = f"[{self.low:.4g}, {self.high:.4g}]" if math.isfinite(self.low) else "(no interval: no spread)"
        return f"{self.value:.4g} {interval}"


@dataclass(frozen=True, repr=False)
class Aggregate:
    """Scores of `runs` training runs on each of several environments.

    Attributes:
        environments: in the order of the columns of `scores`.
        scores: float64 [runs, environments].
        score: their kind: "human-normalized", "return", or "given".
        iqm: interquartile mean over all scores.
        mean: mean over all scores.
        median: median over environments of each environment's mean.
        optimality_gap: mean distance below 1, where scores above 1 count as 1; None for plain returns.
        confidence: of the intervals.
        played: how the episodes were: by which of Atari's protocols, if by one, and greedily or sampling.
        frames: for which the runs were trained, the fewest and the most.
        algorithms: that trained them, as far as their checkpoints are there to tell.
    """

    environments: tuple[str, ...]
    scores: Array
    score: str
    iqm: Estimate
    mean: Estimate
    median: Estimate
    optimality_gap: Estimate | None
    confidence: float
    played: str
    frames: tuple[int, int]
    algorithms: tuple[str, ...]

    @property
    def runs(self) -> int:
        """Training runs on each environment."""
        return len(self.scores)

    def profile(
        self, thresholds: Sequence[float] | None = None, *, resamples: int = 2000, seed: int = 0
    ) -> pd.DataFrame:
        """The performance profile: the share of all runs on all environments that scored above each threshold.

        Of two profiles that do not cross, the higher one is the better algorithm (Agarwal et al. 2021, section 4.3).

        Args:
            thresholds: None: 101 thresholds from the lowest to the highest score.

        Returns:
            A row for each threshold: score, share, and low and high of the share's interval.

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
        """The probability that a run of this aggregate beats one of `other`, averaged over environments.

        Ties count half. This aggregate is better if the interval is above 0.5 (Agarwal et al. 2021, section 4.3).
        Raises InvalidInput unless both have the same environments and kind of score, and were played alike;
        OutOfBounds.
        """
        if self.score != other.score or set(self.environments) != set(other.environments):
            raise InvalidInput(
                f"{self.score} of {', '.join(self.environments)} does not compare with {other.score} of "
                f"{', '.join(other.environments)}: give aggregates of the same environments and scores.")
        if self.played != other.played:
            raise InvalidInput(f"one was played {self.played}, the other {other.played}: their scores do not compare. "
                               "Evaluate both alike.")
        theirs = other.scores[:, [other.environments.index(name) for name in self.environments]]
        low, high = bootstrap_intervals(
            [self.scores, theirs], superiority, confidence=self.confidence, resamples=resamples, seed=seed)
        return Estimate(float(superiority(self.scores, theirs)), float(low), float(high))

    def __repr__(self) -> str:
        many = len(self.environments)
        of = self.environments[0] if many == 1 else f"{many} environments"
        gap = "" if self.optimality_gap is None else f", optimality gap {self.optimality_gap}"
        fewest, most = self.frames
        trained = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
        by = f" by {' and '.join(self.algorithms)}" if self.algorithms else ""
        return (f"Aggregate({of}, {counted(self.runs, 'runs')} each, trained{by} for {trained} frames, {self.score}: "
                f"IQM {self.iqm}, median {self.median}, mean {self.mean}{gap}; {self.confidence:.4g} intervals)")


def aggregate(
    evaluations: Iterable[Evaluation],
    *,
    score: Callable[[Evaluation], float] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Aggregate:
    """IQM, median, mean and optimality gap of several training runs on one or more environments, as in rliable.

    Each evaluation is one training run; each environment needs the same number of them. Intervals are percentile
    bootstrap intervals, stratified by environment (Agarwal et al. 2021, arXiv 2108.13264).

    Args:
        score: the score of a run, from its evaluation; None: the human-normalized score on Atari, else the mean
            return, which cannot be averaged over several environments.
        resamples: of the bootstrap.

    Raises InvalidInput for evaluations that do not compare, OutOfBounds.
    """
    if not isinstance(evaluations, Iterable):
        raise InvalidInput(f"{evaluations!r:.100} is no evaluation. Give a list of what wb.evaluate returned.")
    runs = list(evaluations)
    _check(runs)
    kind, worth = _scoring(runs, score)
    names = tuple(dict.fromkeys(run.environment for run in runs))
    scores = np.array([[worth(run) for run in runs if run.environment == name] for name in names], np.float64).T
    if not np.isfinite(scores).all():
        raise InvalidInput("a score is not finite. Look at the evaluations, or at what score= makes of them.")
    estimates = {}
    for name, statistic in STATISTICS.items():
        low, high = bootstrap_interval(scores, statistic, confidence=confidence, resamples=resamples, seed=seed)
        estimates[name] = Estimate(float(statistic(scores)), low, high)
    gap, frames = estimates.pop("optimality_gap"), [run.checkpoint_frames for run in runs]
    return Aggregate(names, scores, kind, optimality_gap=None if kind == "return" else gap, confidence=confidence,
                     played=_played(runs[0]), frames=(min(frames), max(frames)),
                     algorithms=tuple(dict.fromkeys(filter(None, map(_algorithm, runs)))), **estimates)


def _marks(thresholds: Sequence[float]) -> Array:
    try:
        marks = np.asarray(thresholds, np.float64)
    except (TypeError, ValueError):
        marks = np.array(math.nan)
    if marks.ndim != 1 or not marks.size or not np.isfinite(marks).all():
        raise InvalidInput(f"thresholds={thresholds!r:.100} must be numbers, such as [0.5, 1, 2].")
    return marks


def _check(runs: Sequence[Evaluation]) -> None:
    if not runs:
        raise InvalidInput("there is no evaluation to aggregate.")
    for run in runs:
        if not isinstance(run, Evaluation):
            raise InvalidInput(f"{run!r:.100} is no evaluation. Give what wb.evaluate returned.")
    ways = {_played(run) for run in runs}
    if len(ways) > 1:
        raise InvalidInput(f"these were played in different ways, {_listed(ways)}: their scores do not compare. "
                           "Evaluate all of them in one.")
    for trained, number in Counter(map(_trained, runs)).items():
        if number > 1:
            raise InvalidInput(f"{trained} was given {number} times. Give one evaluation of each training run: an "
                               "interval is about how other runs would come out.")
    numbers = Counter(run.environment for run in runs)
    if len(set(numbers.values())) > 1:
        counted = _listed(f"{number} of {name}" for name, number in numbers.items())
        raise InvalidInput(f"each environment must have the same number of runs, and there are {counted}.")


def _played(run: Evaluation) -> str:
    return f"{'greedily' if run.greedy else 'sampling'}{f' by {run.protocol}' * bool(run.protocol)}"


def _algorithm(run: Evaluation) -> str:
    """The name of the algorithm that trained the policy; "" where its checkpoint is gone."""
    try:
        return checkpoints.at(run.checkpoint).config.algorithm
    except WorkbenchError:
        return ""


def _trained(run: Evaluation) -> Path:
    """The folder of the training run, or of an exported policy."""
    folder = around(run.checkpoint)
    return folder.path if folder.record.exists() else run.checkpoint


def _scoring(
    runs: Sequence[Evaluation], score: Callable[[Evaluation], float] | None
) -> tuple[str, Callable[[Evaluation], float]]:
    """The kind of score, and the function that computes it. Raises InvalidInput."""
    if score is not None:
        return "given", score
    strangers = [run.environment for run in runs if published(run.environment) is None]
    if not strangers:
        return "human-normalized", _human_normalized
    if len({run.environment for run in runs}) > 1:
        raise InvalidInput(f"nobody has published human scores of {strangers[0]}, and returns of several environments "
                           "cannot be averaged. Give a score: score=lambda evaluation: evaluation.mean / 500.")
    return "return", lambda run: run.mean


def _human_normalized(run: Evaluation) -> float:
    score = run.human_normalized
    return math.nan if score is None else score


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))

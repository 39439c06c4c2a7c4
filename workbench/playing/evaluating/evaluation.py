"""`Evaluation`: returns of whole episodes that a checkpoint's policy played."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workbench.environments.atari.protocols import starts_of
from workbench.environments.atari.scores import human_normalized, published
from workbench.errors import UnknownName
from workbench.playing.evaluating import statistics as evaluation_statistics
from workbench.tables import counted, plain
from workbench.trajectory import Array

LONGEST_EPISODE = 1_000_000  # steps, by default: a longer one may never end
_FEWEST = 5  # episodes for which a confidence interval is given


def _median_episode(returns: Array) -> Array:
    """The median of returns [..., N, 1] over episodes."""
    return np.asarray(np.median(returns[..., 0], -1))


_NO_INTERVAL = (-math.inf, math.inf)
_OVER_EPISODES = {"iqm": evaluation_statistics.iqm, "mean": evaluation_statistics.mean, "median": _median_episode}


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Returns of whole episodes played by one checkpoint's policy.

    Attributes:
        returns: sums of unclipped rewards, by episode.
        lengths: steps, by episode.
        scores: by episode, sums of the environment's own score if it has one beside the reward; else ().
        games: by episode, the number of its game, where several agents of a game have one each; else (). Intervals are
            of games, since what one agent of a game gets says much about the others.
        checkpoint_frames: frames for which the policy was trained.
        protocol: which of Atari's standard ways to evaluate; None: the run's own environment.
        differs: deviations from the protocol, in words; "" without any.
    """

    environment: str
    checkpoint: Path
    checkpoint_frames: int
    seed: int
    greedy: bool
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    protocol: str | None = None
    differs: str = ""
    scores: tuple[float, ...] = ()
    games: tuple[int, ...] = ()

    @property
    def mean(self) -> float:
        """Mean return."""
        return statistics.fmean(self.returns)

    @property
    def mean_score(self) -> float | None:
        """Mean score; None if the environment has no score beside the reward."""
        return statistics.fmean(self.scores) if self.scores else None

    @property
    def confidence_interval(self) -> tuple[float, float]:
        """95 % confidence interval of the mean return (Student's t); (-inf, inf) if there is `no_interval`."""
        return _NO_INTERVAL if self.no_interval else evaluation_statistics.student_interval(self._of_games())

    @property
    def no_interval(self) -> str:
        """Why these episodes have no interval, in words; "" if they have one. Equal returns have no spread."""
        returns = self._of_games()
        if len(returns) < _FEWEST:
            return f"fewer than {_FEWEST} {'games' if self.games else 'episodes'}"
        return "all returns are equal" if len(set(returns.tolist())) == 1 else ""

    def _of_games(self) -> Array:
        """The returns; of several agents in a game their mean."""
        if not self.games:
            return np.array(self.returns)
        games = np.array(self.games)
        return np.array([np.array(self.returns)[games == game].mean() for game in np.unique(games)])

    @property
    def uncertainty(self) -> str:
        """The confidence interval of the mean return as text: "[1.2, 3.4]", or why there is none."""
        low, high = self.confidence_interval
        return f"(no interval: {self.no_interval})" if self.no_interval else f"[{low:.4g}, {high:.4g}]"

    @property
    def iqm(self) -> float:
        """Interquartile mean: without the lowest and the highest quarter of returns."""
        return float(evaluation_statistics.iqm(np.array(self.returns)[:, None]))

    def interval(
        self, statistic: str = "iqm", *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
    ) -> tuple[float, float]:
        """Percentile bootstrap interval over episodes of a statistic of the return: "iqm", "mean" or "median".

        It covers other episodes of this policy; `wb.aggregate` covers other training runs. (-inf, inf) if there is
        `no_interval`. Raises UnknownName, OutOfBounds.
        """
        estimator = _OVER_EPISODES.get(statistic)
        if estimator is None:
            raise UnknownName.among("statistic", str(statistic), _OVER_EPISODES)
        interval = evaluation_statistics.bootstrap_interval(
            self._of_games()[:, None], estimator, confidence=confidence, resamples=resamples, seed=seed)
        return _NO_INTERVAL if self.no_interval else interval

    @property
    def human_normalized(self) -> float | None:
        """The mean return on a scale where random play is 0 and a professional tester 1.

        See `environments.atari.scores`. None for all but 57 games of Atari, which have published scores.
        """
        if (scores := published(self.environment)) is None:
            return None
        return human_normalized(scores.game, self.mean, starts=starts_of(self.protocol))

    def __repr__(self) -> str:
        normalized = self.human_normalized
        human = "" if normalized is None else f", {100 * normalized:.3g} % human-normalized"
        score = "" if self.mean_score is None else f", mean score {self.mean_score:.4g}"
        how = "" if self.protocol is None else f", {self.protocol}{f' with {self.differs}' if self.differs else ''}"
        return plain(
            f"Evaluation({self.environment} at {self.checkpoint_frames:,} frames: mean return {self.mean:.4g} "
            f"{self.uncertainty}, {counted(len(self.returns), 'episodes')}{score}{human}{how})"
        )

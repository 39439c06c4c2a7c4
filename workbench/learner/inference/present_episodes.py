"""Return, score and length so far of the episode that each environment is in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.metrics.writer import Episode
from workbench.replay.assembler import grown
from workbench.trajectory import ENDS, Array, StepBatch


class PresentEpisodes:
    """The present episodes of `num_envs` environments. Not thread-safe.

    Args:
        scored: whether the environment tells a score.
        on_end: takes an episode that has ended.

    Attributes:
        returns: float64 [environments], sums of rewards.
        lengths: int64 [environments], steps.
    """

    def __init__(self, num_envs: int, *, scored: bool, on_end: Callable[[Episode], None]) -> None:
        self.returns, self.lengths = np.zeros(num_envs, np.float64), np.zeros(num_envs, np.int64)
        self._scores = np.zeros(num_envs, np.float64)  # all 0 if the environment has no score
        self._scored, self._on_end = scored, on_end

    def count(self, env_ids: Array, batch: StepBatch, evaluating: Array) -> None:
        """Add the steps in `batch`.

        Args:
            evaluating: bool [N], whether the environment evaluates.
        """
        ended, played = batch.has(ENDS), batch.played
        self.returns[env_ids] += np.where(played, batch.reward, 0.0)
        if batch.score is not None:
            self._scores[env_ids] += np.where(played, batch.score, 0.0)
        self.lengths[env_ids] += played
        for env_id, evaluates in zip(env_ids[ended].tolist(), evaluating[ended].tolist(), strict=True):
            self._on_end(Episode(
                "evaluation" if evaluates else "training", env_id, float(self.returns[env_id]),
                int(self.lengths[env_id]), float(self._scores[env_id]) if self._scored else None))
        self.forget(env_ids[ended])

    def forget(self, env_ids: Array) -> None:
        """Begin anew with these environments, which begin an episode."""
        self.returns[env_ids] = 0
        self._scores[env_ids] = 0
        self.lengths[env_ids] = 0

    def resize(self, num_envs: int) -> None:
        """Make room for `num_envs` environments; existing rows stay the same."""
        more = num_envs - len(self.lengths)
        self.returns, self._scores, self.lengths = (
            grown(each, more) for each in (self.returns, self._scores, self.lengths))

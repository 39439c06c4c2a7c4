"""The discounted return of each environment so far, by which an algorithm may normalise rewards."""

from __future__ import annotations

import numpy as np

from workbench.replay.assembler import grown
from workbench.trajectory import ENDS, Array, Flags, StepBatch


class DiscountedReturns:
    """R_t = r_t + γ R_{t-1} of the environment's own rewards, since an episode or a life began. Not thread-safe."""

    def __init__(self, num_envs: int) -> None:
        self._sums = np.zeros(num_envs, np.float64)

    def add(self, env_ids: Array, batch: StepBatch, *, discount: float) -> Array:
        """R_t of environments, float32 [N], with the rewards of their steps in `batch`; 0 after an episode's last."""
        sums = discount * self._sums[env_ids] + np.where(batch.played, batch.reward, 0.0)
        self._sums[env_ids] = np.where(batch.has(ENDS | Flags.LIFE_LOST), 0.0, sums)
        return sums.astype(np.float32)

    def forget(self, env_ids: Array) -> None:
        """Begin anew with `env_ids`, whose environments begin a new life."""
        self._sums[env_ids] = 0

    def resize(self, num_envs: int) -> None:
        """Make room for `num_envs` environments; existing rows stay the same."""
        self._sums = grown(self._sums, num_envs - len(self._sums))

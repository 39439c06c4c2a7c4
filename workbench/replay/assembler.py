"""From single steps to unrolls: per-environment tables of partial unrolls, NumPy only.

`append` writes one step of some environments at each one's own index, and returns the unrolls that it completed.
An unroll holds `length` = overlap + T + 1 steps; the last overlap + 1 of them begin the next unroll (overlap 0 for
V-trace, burn-in for R2D2). What belongs to an unroll's first step, the frames and the recurrent state before it,
is kept when that step is written, so state and frames always fit each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.replay.unroll_fields import UnrollLayout
from workbench.trajectory import Array, Steps, Unroll

_GOLDEN_RATIO = (5**0.5 - 1) / 2


class UnrollAssembler:
    """Tables of partial unrolls of `num_envs` environments.

    Args:
        stagger: each environment leaves out up to an unroll of steps at the begin of a life, each another number of
            them. Unrolls are then complete a few at a time. Otherwise those of all environments are at once, and
            with many environments acting waits for training and training for acting.
    """

    def __init__(self, layout: UnrollLayout, *, num_envs: int, stagger: bool = False) -> None:
        self.layout, self._stagger = layout, stagger
        self.length = layout.length
        self._steps = {
            name: np.zeros((num_envs, self.length, *shape), dtype) for name, (shape, dtype) in layout.per_step.items()
        }
        # What precedes the first step of the unroll being filled [:, 0] and of those that begin inside it [:, 1:].
        starts = (num_envs, 1 + (self.length - 1) // layout.unroll_length)
        self._before = {name: np.zeros((*starts, *shape), dtype) for name, (shape, dtype) in layout.per_unroll.items()}
        self._index = np.zeros(num_envs, np.int64)  # of the next step in the unroll; below 0: steps to leave out
        self._run_ids = np.zeros(num_envs, np.int64)

    def reset(self, env_ids: Array, run_id: int) -> None:
        """Forget the partial unrolls of `env_ids`: they begin a new life."""
        self._index[env_ids] = -self._left_out(env_ids) if self._stagger else 0
        self._run_ids[env_ids] = run_id

    def _left_out(self, env_ids: Array) -> Array:
        """Steps in [0, unroll_length) that are spread evenly, however many environments there are (Weyl's sequence)."""
        return (env_ids * _GOLDEN_RATIO % 1 * self.layout.unroll_length).astype(np.int64)

    def begins(self, rows: Array) -> Array:
        """bool [N]: whether the next step of each of the environments `rows` is the first of some unroll."""
        first: Array = self._index[rows] % self.layout.unroll_length == 0
        return first

    def append(self, env_ids: Array, steps: Steps[Array], before: Sequence[Array]) -> list[Unroll]:
        """Record one step of some environments; the unrolls that are complete with it.

        Args:
            env_ids: int [N], rows of the table, each at most once.
            steps: [N, ...].
            before: `UnrollLayout.per_unroll` of the K environments whose step begins an unroll, [K, ...] in their
                order; see `begins`.
        """
        rows, index = env_ids, self._index[env_ids]
        self._index[rows] += 1
        if index.min(initial=0) < 0:
            kept = index >= 0
            rows, index, steps = rows[kept], index[kept], steps.map(lambda array: array[kept])
        arrays = steps.arrays()
        for name, table in self._steps.items():
            table[rows, index] = arrays[name]
        begins = index % self.layout.unroll_length == 0
        first, number = rows[begins], index[begins] // self.layout.unroll_length
        for table, values in zip(self._before.values(), before, strict=True):
            table[first, number] = values
        return [self._complete(row) for row in rows[index == self.length - 1].tolist()]

    def _complete(self, row: int) -> Unroll:
        """A copy of the row's unroll; the row then begins with the steps that the next one shares."""
        steps = {name: table[row].copy() for name, table in self._steps.items()}
        before = {name: table[row, 0].copy() for name, table in self._before.items()}
        shared = self.length - self.layout.unroll_length
        for table in self._steps.values():
            table[row, :shared] = table[row, self.layout.unroll_length :].copy()
        for table in self._before.values():
            table[row, :-1] = table[row, 1:].copy()
        self._index[row] = shared
        return Unroll.of({**steps, **before}, env_id=row, run_id=int(self._run_ids[row]))

    def resize(self, num_envs: int) -> None:
        """Make room for `num_envs` environments; rows that exist stay as they are."""
        more = num_envs - len(self._index)
        if more <= 0:
            return
        self._steps = {name: grown(table, more) for name, table in self._steps.items()}
        self._before = {name: grown(table, more) for name, table in self._before.items()}
        self._index, self._run_ids = grown(self._index, more), grown(self._run_ids, more)


def grown(table: Array, more: int) -> Array:
    """`table` with `more` rows of zeros at its end."""
    return np.concatenate([table, np.zeros((more, *table.shape[1:]), table.dtype)])

"""From single steps to unrolls: per-environment tables of partial unrolls, NumPy only.

`append` writes one step of some environments at each one's own index, and returns the unrolls that it completed.
An unroll holds `length` = overlap + T + 1 steps; the last overlap + 1 of them begin the next unroll (overlap 0 for
V-trace, burn-in for R2D2). What belongs to an unroll's first step, the frames and the recurrent state before it,
is kept when that step is written, so state and frames always fit each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from workbench.replay.layout import UnrollLayout
from workbench.trajectory import Array, Unroll


@dataclass
class StepRecord:
    """One step of N environments, as in the table of trajectory.py with a leading [N].

    Attributes:
        env_ids: int [N], rows of the table, each at most once.
        stack_prefix: [N, frame_stack-1, *frame], frames before this step.
        states: recurrent state before this step of the K environments whose step begins an unroll, in their order,
            each [K, ...]; see `UnrollAssembler.begins`.
    """

    env_ids: Array
    observation: Array
    stack_prefix: Array
    reward: Array
    flags: Array
    previous_action: Array
    action: Array
    bootstrap_value: Array
    behaviour: Mapping[str, Array]
    states: tuple[Array, ...]
    policy_version: int


class UnrollAssembler:
    """Tables of partial unrolls of `num_envs` environments."""

    def __init__(self, layout: UnrollLayout, *, num_envs: int) -> None:
        self.layout = layout
        self.length = layout.length
        self._steps = {
            name: np.zeros((num_envs, self.length, *shape), dtype) for name, (shape, dtype) in layout.per_step.items()
        }
        # What precedes the first step of the unroll being filled [:, 0] and of those that begin inside it [:, 1:].
        starts = (num_envs, 1 + (self.length - 1) // layout.unroll_length)
        self._prefix, *self._states = [
            np.zeros((*starts, *shape), dtype) for shape, dtype in layout.per_unroll.values()
        ]
        self._index = np.zeros(num_envs, np.int64)
        self._run_ids = np.zeros(num_envs, np.int64)

    def reset(self, env_ids: Array, run_id: int) -> None:
        """Forget the partial unrolls of `env_ids`: they begin a new life."""
        self._index[env_ids] = 0
        self._run_ids[env_ids] = run_id

    def begins(self, rows: Array) -> Array:
        """bool [N]: whether the next step of each of the environments `rows` is the first of some unroll."""
        first: Array = self._index[rows] % self.layout.unroll_length == 0
        return first

    def append(self, step: StepRecord) -> list[Unroll]:
        """Record one step of some environments; the unrolls that are complete with it."""
        rows, index = step.env_ids, self._index[step.env_ids]
        for name, table in self._steps.items():
            kept = name.partition("behaviour.")[2]
            table[rows, index] = step.behaviour[kept] if kept else getattr(step, name)
        self._keep_starts(index, step)
        self._index[rows] += 1
        return [self._complete(row) for row in rows[index == self.length - 1].tolist()]

    def _keep_starts(self, index: Array, step: StepRecord) -> None:
        begins = self.begins(step.env_ids)
        rows, number = step.env_ids[begins], index[begins] // self.layout.unroll_length
        self._prefix[rows, number] = step.stack_prefix[begins]
        for table, state in zip(self._states, step.states, strict=True):
            table[rows, number] = state

    def _complete(self, row: int) -> Unroll:
        """A copy of the row's unroll; the row then begins with the steps that the next one shares."""
        arrays = {name: table[row].copy() for name, table in self._steps.items()}
        unroll = Unroll(
            env_id=row,
            run_id=int(self._run_ids[row]),
            stack_prefix=self._prefix[row, 0].copy(),
            behaviour={name: arrays.pop(f"behaviour.{name}") for name in self.layout.behaviour},
            initial_state=tuple(table[row, 0].copy() for table in self._states),
            **arrays,
        )
        shared = self.length - self.layout.unroll_length
        for table in self._steps.values():
            table[row, :shared] = table[row, self.layout.unroll_length :].copy()
        for table in (self._prefix, *self._states):
            table[row, :-1] = table[row, 1:].copy()
        self._index[row] = shared
        return unroll

    def resize(self, num_envs: int) -> None:
        """Make room for `num_envs` environments; rows that exist stay as they are."""
        more = num_envs - len(self._index)
        if more <= 0:
            return
        self._steps = {name: grown(table, more) for name, table in self._steps.items()}
        self._prefix = grown(self._prefix, more)
        self._states = [grown(table, more) for table in self._states]
        self._index, self._run_ids = grown(self._index, more), grown(self._run_ids, more)


def grown(table: Array, more: int) -> Array:
    """`table` with `more` rows of zeros at its end."""
    return np.concatenate([table, np.zeros((more, *table.shape[1:]), table.dtype)])

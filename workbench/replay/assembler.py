"""From single steps to unrolls: per-environment tables of partial unrolls, NumPy only.

`append` writes one step of some environments at each one's own index, and returns the unrolls that it completed.
An unroll holds `length` = overlap + T + 1 steps; the last overlap + 1 of them begin the next unroll (overlap 0 for
V-trace, burn-in for R2D2). What belongs to an unroll's first step, the frames and the recurrent state before it,
is kept when that step is written, so state and frames always fit each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from workbench.replay.unroll_fields import UnrollLayout
from workbench.trajectory import Array, Unroll

_GOLDEN_RATIO = (5**0.5 - 1) / 2


@dataclass
class StepRecord:
    """One step of N environments, as in the table of trajectory.py with a leading [N].

    Attributes:
        env_ids: int [N], rows of the table, each at most once.
        stack_prefix: frames before this step of the K environments whose step begins an unroll, in their order,
            [K, frame_stack-1, *frame]; see `UnrollAssembler.begins`.
        states: recurrent states before it of the same, each [K, ...].
    """

    env_ids: Array
    observation: Array
    reward: Array
    flags: Array
    previous_action: Array
    action: Array
    bootstrap_value: Array
    behaviour: Mapping[str, Array]
    stack_prefix: Array
    states: tuple[Array, ...]
    policy_version: int

    def only(self, rows: Array) -> StepRecord:
        """The rows where the mask `rows` is set; those that begin an unroll are among them."""
        names = ("env_ids", "observation", "reward", "flags", "previous_action", "action", "bootstrap_value")
        behaviour = {name: value[rows] for name, value in self.behaviour.items()}
        return replace(self, behaviour=behaviour, **{name: getattr(self, name)[rows] for name in names})


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
        self._prefix, *self._states = [
            np.zeros((*starts, *shape), dtype) for shape, dtype in layout.per_unroll.values()
        ]
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

    def append(self, step: StepRecord) -> list[Unroll]:
        """Record one step of some environments; the unrolls that are complete with it."""
        rows, index = step.env_ids, self._index[step.env_ids]
        self._index[rows] += 1
        if index.min(initial=0) < 0:
            step, rows, index = step.only(index >= 0), rows[index >= 0], index[index >= 0]
        for name, table in self._steps.items():
            kept = name.partition("behaviour.")[2]
            table[rows, index] = step.behaviour[kept] if kept else getattr(step, name)
        self._keep_starts(index, step)
        return [self._complete(row) for row in rows[index == self.length - 1].tolist()]

    def _keep_starts(self, index: Array, step: StepRecord) -> None:
        begins = index % self.layout.unroll_length == 0
        rows, number = step.env_ids[begins], index[begins] // self.layout.unroll_length
        self._prefix[rows, number] = step.stack_prefix
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

"""Assembles unrolls from single steps, in the memory from which training reads them. NumPy only.

Each environment fills a slot of an arena. `append` writes a step of some environments, each at its own index, and
returns the unrolls that are complete: views of their slots, which nobody copies. Their environments go on in other
slots, and a slot is free again once nobody holds its unroll. An unroll has `length` = overlap + T + 1 steps; its last
overlap + 1 steps begin the next unroll (overlap: 0 for V-trace, burn-in for R2D2). The frames and the recurrent state
before an unroll's first step are stored together with that step, so they always fit each other.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from workbench.replay.unroll_fields import UnrollLayout
from workbench.trajectory import Array, Steps, Unroll

_MANY, _LIGHT = 8, 2**15  # slots, and bytes of each: to copy from so many at once is faster than from one by one
_GOLDEN_RATIO = (5**0.5 - 1) / 2


class Frames(Protocol):
    """Where frames are kept instead, in the same slots; see `learner.inference.frame_table`."""

    def places(self, slots: Array, index: Array) -> Array: ...
    def hand_on(self, full: Array, following: Array, shared: int) -> None: ...
    def unroll(self, slot: int) -> Any: ...
    def grow(self, more: int) -> None: ...


class _Held(weakref.ref[Unroll]):
    """An unroll that somebody may hold, and its slot; several times cheaper than weakref.finalize."""

    __slots__ = ("slot",)
    slot: int


class UnrollAssembler:
    """An arena for the unrolls of `num_envs` environments. It grows when more of them are held than it has room for.

    Args:
        held: unrolls that others are expected to hold at once.
        stagger: whether each environment leaves out a different number of steps, up to an unroll, at the beginning of
            a life. Then a few unrolls complete at a time. Otherwise those of all environments complete at once, and
            with many environments acting and training wait for each other.
        frames: where the observations are, with `num_envs + held` slots, if not here; whoever acts writes them to
            `places`.

    Attributes:
        size: slots.
    """

    def __init__(
        self, layout: UnrollLayout, *, num_envs: int, held: int = 0, stagger: bool = False,
        frames: Frames | None = None,
    ) -> None:
        self.layout, self._stagger, self._frames = layout, stagger, frames
        self.length, self.size = layout.length, num_envs + held
        self._steps = {
            name: np.zeros((self.size, self.length, *shape), dtype) for name, (shape, dtype) in layout.per_step.items()
            if frames is None or name != "observation"
        }
        # Frames and state before a slot's unroll [:, 0], and before the unrolls that begin inside it [:, 1:].
        starts = (self.size, 1 + (self.length - 1) // layout.unroll_length)
        self._before = {name: np.zeros((*starts, *shape), dtype) for name, (shape, dtype) in layout.per_unroll.items()}
        self._finals = {name: np.zeros((self.size, *shape), dtype) for name, (shape, dtype) in layout.finals.items()}
        self._bytes_handed_on = sum(
            table[0, skipped:].nbytes for tables, skipped in ((self._steps, layout.unroll_length), (self._before, 1))
            for table in tables.values())
        self._views: dict[int, dict[str, Any]] = {}  # of a slot's unroll
        self._held: dict[int, _Held] = {}  # the last unroll of each slot
        # Free slots; the one that was used last is taken first, since it is in the cache.
        self._free = [*reversed(range(num_envs, self.size))]
        self._slots = np.arange(num_envs)  # that the environments fill
        self._index = np.zeros(num_envs, np.int64)  # of the next step in the unroll; below 0: as many are left out
        self._run_ids = np.zeros(num_envs, np.int64)

    def reset(self, env_ids: Array, run_id: Array | int) -> None:
        """Drop the partial unrolls of `env_ids`, which begin a new life, each or all with that run id."""
        self._index[env_ids] = -self._left_out(env_ids) if self._stagger else 0
        self._run_ids[env_ids] = run_id
        self._forget_finals(self._slots[env_ids])

    def _left_out(self, env_ids: Array) -> Array:
        """Steps in [0, unroll_length), evenly spread for any number of environments (Weyl's sequence)."""
        return (env_ids * _GOLDEN_RATIO % 1 * self.layout.unroll_length).astype(np.int64)

    def begins(self, env_ids: Array) -> Array:
        """bool [N]: whether the next step of each environment is the first of an unroll."""
        first: Array = self._index[env_ids] % self.layout.unroll_length == 0
        return first

    def places(self, env_ids: Array) -> Array:
        """int64 [N]: where `frames` keeps the next frame of each environment; zeros if they are kept here."""
        if self._frames is None:
            return np.zeros(len(env_ids), np.int64)
        return self._frames.places(self._slots[env_ids], self._index[env_ids])

    def fills(self, env_ids: Array) -> Array:
        """bool [N]: whether the last step of each environment is in an unroll, and was not left out."""
        filled: Array = self._index[env_ids] > 0
        return filled

    def append(
        self, env_ids: Array, steps: Steps[Array], before: Sequence[Array], finals: tuple[Array, Array] | None = None
    ) -> list[Unroll]:
        """Write one step of some environments, and return the unrolls that it completes.

        Args:
            env_ids: int [N], each at most once.
            steps: [N, ...].
            before: `UnrollLayout.per_unroll` of the K environments whose step begins an unroll, [K, ...], in their
                order; see `begins`.
            finals: which of the N were truncated, int [M], and their true final observations, [M, *frame].
        """
        if self._finals and finals is not None:
            self._keep_finals(env_ids[finals[0]], finals[1])
        index = self._index[env_ids]
        self._index[env_ids] += 1
        if index.min(initial=0) < 0:
            used = index >= 0
            env_ids, index, steps = env_ids[used], index[used], steps.map(lambda array: array[used])
        arrays, slots = steps.arrays(), self._slots[env_ids]
        places = slots * self.length + index
        for name, table in self._steps.items():
            table.reshape(len(table) * self.length, *table.shape[2:])[places] = arrays[name]
        begins = index % self.layout.unroll_length == 0
        first, number = slots[begins], index[begins] // self.layout.unroll_length
        for table, values in zip(self._before.values(), before, strict=True):
            table[first, number] = values
        full = env_ids[index == self.length - 1]
        return self._completed(full) if len(full) else []

    def _keep_finals(self, env_ids: Array, observation: Array) -> None:
        """Write the final observations of transitions into the next step of `env_ids`, where that is trained on and its
        unroll has a place left. Unrolls share no such step."""
        slots, index, steps = self._slots[env_ids], self._index[env_ids], self._finals["final_step"]
        place = np.count_nonzero(steps[slots], axis=1)
        kept = (index > self.layout.overlap) & (place < steps.shape[1])
        where = slots[kept], place[kept]
        steps[where], self._finals["final_observation"][where] = index[kept], observation[kept]

    def _forget_finals(self, slots: Array | int) -> None:
        if self._finals:
            self._finals["final_step"][slots] = 0

    def _completed(self, env_ids: Array) -> list[Unroll]:
        """The unrolls of `env_ids`, which go on in other slots; those begin with the steps that both unrolls share."""
        full = self._slots[env_ids]
        # Of the tables before these grow: a device may not have copied frames into a larger one when they are read.
        views = [self._attributes(slot) for slot in full.tolist()]
        following = np.array([self._take_slot() for _ in range(len(env_ids))])
        shared = self.length - self.layout.unroll_length
        if len(env_ids) < _MANY or self._bytes_handed_on > _LIGHT:
            for one, other in zip(full.tolist(), following.tolist(), strict=True):
                self._hand_on(one, other, shared)
        else:
            self._hand_on(full, following, shared)
        if self._frames is not None:
            self._frames.hand_on(full, following, shared)
        self._slots[env_ids], self._index[env_ids] = following, shared
        return [self._unroll(*one) for one in zip(env_ids.tolist(), full.tolist(), views, strict=True)]

    def _hand_on(self, full: Array | int, following: Array | int, shared: int) -> None:
        """Copy the last `shared` steps of a slot to the beginning of another; or of several, to as many others."""
        for table in self._steps.values():
            table[following, :shared] = table[full, -shared:]
        for table in self._before.values():
            table[following, :-1] = table[full, 1:]
        self._forget_finals(following)

    def _unroll(self, env_id: int, slot: int, views: dict[str, Any]) -> Unroll:
        """That of a full slot, which is free again once nobody holds it."""
        unroll = Unroll(**views, env_id=env_id, run_id=int(self._run_ids[env_id]))
        held = self._held[slot] = _Held(unroll, self._release)
        held.slot = slot
        return unroll

    def _release(self, held: _Held) -> None:
        """Nobody holds the unroll of a slot any more. Called by whichever thread was the last."""
        self._free.append(held.slot)

    def _attributes(self, slot: int) -> dict[str, Any]:
        """Those of the slot's unroll: views, made once."""
        if (attributes := self._views.get(slot)) is None:
            arrays: dict[str, Any] = {name: table[slot] for name, table in self._steps.items()}
            arrays |= {name: table[slot, 0] for name, table in self._before.items()}
            arrays |= {name: table[slot] for name, table in self._finals.items()}
            if self._frames is not None:
                arrays["observation"] = self._frames.unroll(slot)
            self._views[slot] = attributes = Unroll.attributes_of(arrays)
        return attributes

    def _take_slot(self) -> int:
        if not self._free:
            self._grow(max(8, self.size // 2))
        return self._free.pop()

    def _grow(self, more: int) -> None:
        """Add free slots. Unrolls that are held remain where they are, in the tables before."""
        self._steps = {name: grown(table, more) for name, table in self._steps.items()}
        self._before = {name: grown(table, more) for name, table in self._before.items()}
        self._finals = {name: grown(table, more) for name, table in self._finals.items()}
        if self._frames is not None:
            self._frames.grow(more)
        self._views.clear()
        self._free += reversed(range(self.size, self.size + more))
        self.size += more

    def resize(self, num_envs: int) -> None:
        """Make room for `num_envs` environments; existing rows stay the same."""
        more = num_envs - len(self._index)
        if more <= 0:
            return
        self._grow(more)
        self._slots = np.concatenate([self._slots, [self._free.pop() for _ in range(more)]])
        self._index, self._run_ids = grown(self._index, more), grown(self._run_ids, more)


def grown(table: Array, more: int) -> Array:
    """`table` with `more` rows of zeros at its end, to which the system gives memory when they are written."""
    larger = np.zeros((len(table) + more, *table.shape[1:]), table.dtype)
    larger[: len(table)] = table
    return larger

"""What a policy remembers of each environment from one step to the next: frames, previous action, recurrent state.

Tables with a row per environment. Frames and states lie on the device, so that only new frames travel there. Where the
device pads batches, the tables have one more row at their end, which those rows read and write that nobody sent.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from workbench.algorithms.frame_stacking import frames_of_words, join_frames, push_frames, push_words
from workbench.algorithms.interface import State
from workbench.learner.devices.device import Device
from workbench.replay.assembler import grown
from workbench.trajectory import Array, EnvironmentSpec, StepBatch

# Of a network: observation, previous action, reward, start, state.
Inputs = tuple[Tensor, Tensor, Tensor, Tensor, State]


class Seen(NamedTuple):
    """Steps on the device, as many as it wants [P, ...]; `rows` are those of the tables, int64 [P]."""

    rows: Tensor
    observation: Tensor
    previous_action: Tensor
    reward: Tensor
    start: Tensor


class Memory:
    """The tables that `network` needs for `num_envs` environments."""

    def __init__(self, network: nn.Module, spec: EnvironmentSpec, *, device: Device, num_envs: int) -> None:
        self._device, self._spec = device, spec
        rows = num_envs + device.pads
        shape, self._words = spec.observation_shape, _fit_in_words(spec) and device.kind != "xla"
        if self._words:
            frames = torch.zeros((rows, *shape[1:]), dtype=torch.int32)
        else:
            kept = spec.frame_stack if spec.frame_stack > 1 else 0
            frames = torch.zeros((rows, kept, *shape), dtype=getattr(torch, spec.observation_dtype))
        self._frames = device.place(frames)
        states: State = network.initial_state(rows)  # type: ignore[operator]
        self._states = tuple(device.place(state) for state in states)
        self._previous_action = np.zeros((num_envs, *spec.actions.shape), spec.actions.dtype)

    @property
    def size(self) -> int:
        """Environments; the row of that number is the one that fills batches up, where the device wants one."""
        return len(self._previous_action)

    def forget(self, rows: Array) -> None:
        """The environments `rows` begin a new life."""
        self._previous_action[rows] = 0
        at = self._at(rows)
        with self._device.tracing():
            for table in (self._frames, *self._states):
                table.index_fill_(0, at, 0)

    def previous_action(self, rows: Array, batch: StepBatch) -> Array:
        """[N, *action]: what was done last in `rows`, 0 where an episode begins."""
        previous: Array = self._previous_action[rows]
        previous[batch.start] = 0
        return previous

    def bring(self, rows: Array, batch: StepBatch, previous_action: Array) -> Seen:
        """The steps of `rows` on the device."""
        place = self._device.place_rows
        return Seen(self._at(rows), place(batch.observation), place(previous_action), place(batch.reward),
                    place(batch.start))

    def bring_last(self, rows: Array, batch: StepBatch) -> Seen:
        """The true final observations of `rows`, which follow what the tables hold; there are some."""
        assert batch.final_observation is not None
        rows, place = rows[batch.final_index], self._device.place_rows
        return Seen(self._at(rows), place(batch.final_observation), place(self._previous_action[rows]),
                    place(batch.reward[batch.final_index]), place(np.zeros(len(rows), bool)))

    def look(self, seen: Seen) -> Inputs:
        """What the network is given for `seen`, [1, P, ...]; the frames are remembered."""
        frames = self._pushed(seen)
        if self._spec.frame_stack > 1:
            self._frames.index_copy_(0, seen.rows, frames)
        return self._inputs(frames, seen)

    def peek(self, seen: Seen) -> Inputs:
        """What `look` gives; nothing is remembered."""
        return self._inputs(self._pushed(seen), seen)

    def before(self, rows: Array, start: Array) -> tuple[Tensor, ...]:
        """Copies of the frames [P, S-1, *frame] and states [P, ...] before the next step of `rows`.

        Frames are zero where that step begins an episode (`start`); states are not, the network zeroes them.
        """
        at = self._at(rows)
        frames = self._stacks(self._frames.index_select(0, at))[:, 1:]
        same_episode = self._device.place_rows(~start).to(frames.dtype)
        return (frames * same_episode.reshape(-1, *[1] * (frames.ndim - 1)),
                *(table.index_select(0, at) for table in self._states))

    def remember(self, rows: Tensor, states: State) -> None:
        """The network's states [P, ...] after a step of `rows`."""
        for table, new in zip(self._states, states, strict=True):
            table.index_copy_(0, rows, new.to(table.dtype))

    def did(self, rows: Array, actions: Array) -> None:
        """What was done in `rows`: [N, *action]."""
        self._previous_action[rows] = actions

    def resize(self, num_envs: int) -> None:
        """Make room for `num_envs` environments; rows that exist stay as they are."""
        more = num_envs - self.size
        if more <= 0:
            return
        self._previous_action = grown(self._previous_action, more)
        with self._device.tracing():
            self._frames, *states = [torch.cat([table, table.new_zeros(more, *table.shape[1:])])
                                     for table in (self._frames, *self._states)]
        self._states = tuple(states)

    def _at(self, rows: Array) -> Tensor:
        return self._device.place_rows(rows, fill=self.size)

    def _inputs(self, frames: Tensor, seen: Seen) -> Inputs:
        states = tuple(table.index_select(0, seen.rows) for table in self._states)
        observation = join_frames(self._stacks(frames))
        return observation[None], seen.previous_action[None], seen.reward[None], seen.start[None], states

    def _pushed(self, seen: Seen) -> Tensor:
        """The tables' rows with new frames, as the table keeps them."""
        if self._spec.frame_stack == 1:
            return seen.observation[:, None]
        push = push_words if self._words else push_frames
        return push(self._frames.index_select(0, seen.rows), observation=seen.observation, start=seen.start)

    def _stacks(self, frames: Tensor) -> Tensor:
        """[N, S, *frame] of what the table keeps."""
        return frames_of_words(frames)[:, :, None] if self._words else frames


def _fit_in_words(spec: EnvironmentSpec) -> bool:
    """Whether the frames of a stack fit into one int32 a pixel, see `push_words`."""
    image = len(spec.observation_shape) == 3 and spec.observation_shape[0] == 1
    return spec.frame_stack == 4 and spec.observation_dtype == "uint8" and image and sys.byteorder == "little"

"""What a policy remembers of each environment from one step to the next: frames, previous action, recurrent state.

Tables with a row per environment. Frames and states lie on the device, so that only new frames travel there.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import Tensor, nn

from workbench.algorithms.base import State
from workbench.algorithms.frames import frames_of_words, join_frames, push_frames, push_words
from workbench.learner.device import Device
from workbench.learner.gathered import Gathered
from workbench.replay.unrolls import grown
from workbench.trajectory import Array, EnvironmentSpec, Flags

# Of a network: observation, previous action, reward, start, state.
Inputs = tuple[Tensor, Tensor, Tensor, Tensor, State]


class Memory:
    """The tables that `network` needs for `num_envs` environments."""

    def __init__(self, network: nn.Module, spec: EnvironmentSpec, *, device: Device, num_envs: int) -> None:
        self._device, self._spec = device, spec
        shape, self._words = spec.observation_shape, _fit_in_words(spec)
        if self._words:
            frames = torch.zeros((num_envs, *shape[1:]), dtype=torch.int32)
        else:
            kept = spec.frame_stack if spec.frame_stack > 1 else 0
            frames = torch.zeros((num_envs, kept, *shape), dtype=getattr(torch, spec.observation_dtype))
        self._frames = device.place(frames)
        states: State = network.initial_state(num_envs)  # type: ignore[operator]
        self._states = tuple(device.place(state) for state in states)
        self._previous_action = np.zeros((num_envs, *spec.actions.shape), spec.actions.dtype)

    def forget(self, rows: Array) -> None:
        """The environments `rows` begin a new life."""
        self._previous_action[rows] = 0
        for table in (self._frames, *self._states):
            table[rows] = 0

    def see(self, batch: Gathered) -> tuple[Inputs, Array]:
        """What the network is given, and the previous actions [N, *action] among it; the frames are remembered.

        Inputs are [1, N+K, ...]: the N rows of `batch`, then the K true final observations that it has.
        """
        place, rows, finals = self._device.place_array, batch.env_ids, batch.final_rows
        start = (batch.flags & Flags.START) != 0
        previous = self._previous_action[rows]
        previous[start] = 0
        at, reward, action = place(rows), batch.reward, previous
        if not len(finals):
            frames = self._look(at, batch.observation, start)
        else:
            ended = place(rows[finals])
            last = self._pushed(ended, batch.final_observation, np.zeros(len(finals), bool))
            frames, at = torch.cat([self._look(at, batch.observation, start), last]), torch.cat([at, ended])
            action = np.concatenate([previous, self._previous_action[rows[finals]]])
            reward = np.concatenate([reward, reward[finals]])
            start = np.concatenate([start, np.zeros(len(finals), bool)])
        states = tuple(table.index_select(0, at) for table in self._states)
        seen = join_frames(self._stacks(frames))
        return (seen[None], place(action)[None], place(reward)[None], place(start)[None], states), previous

    def before(self, rows: Array) -> tuple[Tensor, State]:
        """Copies of the frames [N, S-1, *frame] and states [N, ...] before the step that was seen last, of `rows`."""
        at = self._device.place_array(rows)
        frames = self._stacks(self._frames.index_select(0, at))[:, :-1]
        return frames, tuple(table.index_select(0, at) for table in self._states)

    def remember(self, rows: Array, actions: Array, states: State) -> None:
        """What was done in `rows`: actions [N, *action] and the network's states after it, of N rows or more."""
        self._previous_action[rows] = actions
        at = self._device.place_array(rows)
        for table, new in zip(self._states, states, strict=True):
            table.index_copy_(0, at, new[: len(rows)].to(table.dtype))

    def resize(self, num_envs: int) -> None:
        """Make room for `num_envs` environments; rows that exist stay as they are."""
        more = num_envs - len(self._previous_action)
        if more <= 0:
            return
        self._previous_action = grown(self._previous_action, more)
        self._frames, *states = [torch.cat([table, table.new_zeros(more, *table.shape[1:])])
                                 for table in (self._frames, *self._states)]
        self._states = tuple(states)

    def _look(self, rows: Tensor, observation: Array, start: Array) -> Tensor:
        """What `_pushed` gives; the table keeps it."""
        frames = self._pushed(rows, observation, start)
        if self._spec.frame_stack > 1:
            self._frames.index_copy_(0, rows, frames)
        return frames

    def _pushed(self, rows: Tensor, observation: Array, start: Array) -> Tensor:
        """The tables' rows with new frames, as the table keeps them."""
        place = self._device.place_array
        if self._spec.frame_stack == 1:
            return place(observation)[:, None]
        push = push_words if self._words else push_frames
        return push(self._frames.index_select(0, rows), observation=place(observation), start=place(start))

    def _stacks(self, frames: Tensor) -> Tensor:
        """[N, S, *frame] of what the table keeps."""
        return frames_of_words(frames)[:, :, None] if self._words else frames


def _fit_in_words(spec: EnvironmentSpec) -> bool:
    """Whether the frames of a stack fit into one int32 a pixel, see `push_words`."""
    image = len(spec.observation_shape) == 3 and spec.observation_shape[0] == 1
    return spec.frame_stack == 4 and spec.observation_dtype == "uint8" and image and sys.byteorder == "little"

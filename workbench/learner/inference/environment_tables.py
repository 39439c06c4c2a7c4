"""The tables of a policy, with a row per environment: frames, previous action and recurrent state.

Frames and states are on the device, so that only new frames travel there. If the device pads batches, its tables have
a first row that is no environment's, which the padding rows read and write.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from workbench.algorithms.frame_stacking import (
    frames_of_words,
    join_frames,
    push_frames,
    push_words,
    push_words_in_place,
)
from workbench.algorithms.interface import State
from workbench.environment_spec import EnvironmentSpec
from workbench.learner.devices.device import Device
from workbench.learner.inference.frame_table import FrameTable
from workbench.networks import initial_state
from workbench.replay.assembler import grown
from workbench.trajectory import Array, StepBatch

# A network's observation, previous action, reward, start and state.
Inputs = tuple[Tensor, Tensor, Tensor, Tensor, State]


class PlacedSteps(NamedTuple):
    """Steps on the device, padded to P rows [P, ...].

    Attributes:
        rows: theirs of the tables, int64 [P].
        places: those of the frames that are kept, int64 [P].
    """

    rows: Tensor
    observation: Tensor
    previous_action: Tensor
    reward: Tensor
    start: Tensor
    places: Tensor


class EnvironmentTables:
    """The tables of `network` for `num_envs` environments; `kept` gets each new frame as well.

    Methods take environments, `env_ids`, or `rows` of the tables on the device, which `rows` makes of them.
    """

    def __init__(
        self, network: nn.Module, spec: EnvironmentSpec, *, device: Device, num_envs: int,
        kept: FrameTable | None = None,
    ) -> None:
        self._device, self._spec, self._kept = device, spec, kept
        rows = num_envs + device.pads
        shape, self._words = spec.observation_shape, _fit_in_words(spec) and not device.compiles
        if self._words:
            frames = torch.zeros((rows, *shape[1:]), dtype=torch.int32)
        else:
            stack = spec.frame_stack if spec.frame_stack > 1 else 0
            frames = torch.zeros((rows, stack, *shape), dtype=getattr(torch, spec.observation_dtype))
        self._frames = device.place(frames)
        self._states = tuple(map(device.place, initial_state(network, rows)))
        self._previous_action = np.zeros((num_envs, *spec.actions.shape), spec.actions.dtype)

    @property
    def size(self) -> int:
        """Number of environments."""
        return len(self._previous_action)

    def forget(self, env_ids: Array) -> None:
        """Reset `env_ids`, whose environments begin a new life."""
        self._previous_action[env_ids] = 0
        (placed_rows,) = self._device.place_rows(self.rows(env_ids))
        with self._device.tracing():
            for table in (self._frames, *self._states):
                table.index_fill_(0, placed_rows, 0)

    def previous_action(self, env_ids: Array, batch: StepBatch) -> Array:
        """[N, *action]: the last actions of `env_ids`, 0 at the start of an episode."""
        previous: Array = self._previous_action[env_ids]
        previous[batch.start] = 0
        return previous

    def rows(self, env_ids: Array) -> Array:
        """The rows of environments in the device's tables, int64 [N]."""
        return env_ids + int(self._device.pads)

    def place(
        self, env_ids: Array, batch: StepBatch, previous_action: Array, *others: Array, places: Array | None = None
    ) -> tuple[PlacedSteps, list[Tensor]]:
        """The steps of `env_ids` and other arrays [M, ...] on the device, with one copy where that is faster."""
        places = np.zeros(len(env_ids), np.int64) if places is None else places
        handed_on = [] if self._kept is None else self._kept.handed_on()
        placed = self._device.place_rows(
            *handed_on, self.rows(env_ids), batch.observation, previous_action, batch.reward, batch.start, places,
            *others)
        if self._kept is not None and handed_on:
            self._kept.copy(placed.pop(0), placed.pop(0))
        return PlacedSteps(*placed[:6]), placed[6:]

    def place_final(self, env_ids: Array, batch: StepBatch) -> PlacedSteps:
        """The batch's true final observations (at least one) as steps on the device, after those in the tables."""
        assert batch.final_observation is not None
        env_ids = env_ids[batch.final_index]
        return PlacedSteps(*self._device.place_rows(
            self.rows(env_ids), batch.final_observation, self._previous_action[env_ids],
            batch.reward[batch.final_index], np.zeros(len(env_ids), bool), np.zeros(len(env_ids), np.int64)))

    def push(self, steps: PlacedSteps) -> Inputs:
        """The network's inputs for `steps`, [1, P, ...]; stores the new frames."""
        if self._kept is not None:
            self._kept.write(steps.places, steps.observation)
        if self._words and self._device.kind == "cpu":
            frames = push_words_in_place(self._frames, rows=steps.rows, observation=steps.observation,
                                         start=steps.start)
        else:
            frames = self._pushed(steps)
            if self._spec.frame_stack > 1 and self._device.kind == "cpu":  # where index_copy_ takes each byte alone
                self._frames.numpy()[steps.rows.numpy()] = frames.numpy()
            elif self._spec.frame_stack > 1:
                self._frames.index_copy_(0, steps.rows, frames)
        return self._inputs(frames, steps)

    def peek(self, steps: PlacedSteps) -> Inputs:
        """As `push`, but stores nothing."""
        return self._inputs(self._pushed(steps), steps)

    def before(self, rows: Tensor, start: Tensor) -> tuple[Tensor, ...]:
        """Copies of the frames [P, S-1, *frame] and states [P, ...] before the next step of the tables' `rows`.

        Frames are zero if that step begins an episode (`start`); the network zeroes the states itself.
        """
        frames = self._frames.index_select(0, rows)
        if frames.numel():  # there is a stack
            frames = frames.masked_fill(start.reshape(-1, *[1] * (frames.ndim - 1)), 0)  # words of four bytes, or bytes
        return (self._stacks(frames)[:, 1:], *(table.index_select(0, rows) for table in self._states))

    def store_states(self, rows: Tensor, states: State) -> None:
        """Store the network's states [P, ...] after a step of `rows`."""
        for table, new in zip(self._states, states, strict=True):
            table.index_copy_(0, rows, new.to(table.dtype))

    def store_actions(self, env_ids: Array, actions: Array) -> None:
        """Store the actions [N, *action] of `env_ids`."""
        self._previous_action[env_ids] = actions

    def resize(self, num_envs: int) -> None:
        """Make room for `num_envs` environments; existing rows stay the same."""
        more = num_envs - self.size
        if more <= 0:
            return
        self._previous_action = grown(self._previous_action, more)
        with self._device.tracing():
            self._frames, *states = [torch.cat([table, table.new_zeros(more, *table.shape[1:])])
                                     for table in (self._frames, *self._states)]
        self._states = tuple(states)

    def _inputs(self, frames: Tensor, steps: PlacedSteps) -> Inputs:
        states = tuple(table.index_select(0, steps.rows) for table in self._states)
        observation = join_frames(self._stacks(frames))
        return observation[None], steps.previous_action[None], steps.reward[None], steps.start[None], states

    def _pushed(self, steps: PlacedSteps) -> Tensor:
        """The table's rows of frames with the new frames pushed, in the table's format."""
        if self._spec.frame_stack == 1:
            return steps.observation[:, None]
        push = push_words if self._words else push_frames
        return push(self._frames.index_select(0, steps.rows), observation=steps.observation, start=steps.start)

    def _stacks(self, frames: Tensor) -> Tensor:
        """[N, S, *frame], from rows in the table's format."""
        return frames_of_words(frames)[:, :, None] if self._words else frames


def _fit_in_words(spec: EnvironmentSpec) -> bool:
    """Whether the frames of a stack fit into one int32 per pixel; see `push_words`."""
    image = len(spec.observation_shape) == 3 and spec.observation_shape[0] == 1
    return spec.frame_stack == 4 and spec.observation_dtype == "uint8" and image and sys.byteorder == "little"

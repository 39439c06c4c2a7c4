"""A frozen policy that plays against the one that learns: it acts for some rows of the learner's tables.

Its weights never change, its actions are sampled, and what it lives through is kept nowhere: no unrolls, no episodes.
It has tables of its own (frames, previous action, recurrent state), since its network may be another one.
"""

from __future__ import annotations

import numpy as np
import torch

from workbench.algorithms.base import Roles
from workbench.algorithms.distributions import distribution_of
from workbench.algorithms.frames import join_frames, push_frames
from workbench.learner.device import Device
from workbench.learner.gathered import Gathered
from workbench.learner.player import Policy
from workbench.replay.unrolls import grown
from workbench.trajectory import Array, Flags


class Opponent:
    """The tables of a frozen `policy`, one row per environment; rows of others stay empty."""

    def __init__(self, policy: Policy, *, device: Device, num_envs: int, seed: int) -> None:
        self._policy, self._device = policy, device
        self._network = policy.network.to(device.torch)
        self._generator = device.generator(seed)
        self._actions = distribution_of(policy.spec.actions)
        spec = policy.spec
        self._previous_action = np.zeros((num_envs, *spec.actions.shape), spec.actions.dtype)
        self._stack = np.zeros((num_envs, spec.frame_stack, *spec.observation_shape), spec.observation_dtype)
        states: tuple[torch.Tensor, ...] = policy.network.initial_state(num_envs)  # type: ignore[operator]
        self._states = tuple(device.place(state) for state in states)

    def begin_life(self, rows: Array) -> None:
        """Forget what `rows` have seen: their actor begins a new life."""
        self._previous_action[rows] = 0
        self._stack[rows] = 0
        for state in self._states:
            state[rows] = 0

    @torch.inference_mode()
    def act(self, batch: Gathered) -> Array:
        """Actions [N, *action] as the environments take them, for all rows of `batch`."""
        rows, place = batch.env_ids, self._device.place_array
        if not len(rows):
            return self._previous_action[rows]
        start = (batch.flags & Flags.START) != 0
        observation = torch.from_numpy(np.ascontiguousarray(batch.observation))
        stack = push_frames(torch.from_numpy(self._stack[rows]), observation=observation, start=torch.from_numpy(start))
        self._stack[rows] = stack.numpy()
        previous = self._previous_action[rows]
        previous[start] = 0
        state = tuple(table[rows] for table in self._states)
        seen = self._device.place(join_frames(stack))[None]
        with self._device.autocast():
            output, new_state = self._network(
                seen, place(previous)[None], place(batch.reward)[None], place(start)[None], state)
        for table, new in zip(self._states, new_state, strict=True):
            table[rows] = new.to(table.dtype)
        evaluating = Roles(*(part.to(self._device.torch) for part in Roles.evaluating(len(rows))))
        actions, _ = self._policy.algorithm.act(
            output, roles=evaluating, greedy=False, generator=self._generator, config=self._policy.config)
        self._previous_action[rows] = actions.cpu().numpy()
        found: Array = self._actions.to_environment(actions).cpu().numpy()
        return found

    def resize(self, num_envs: int) -> None:
        """Make room for `num_envs` environments; rows that exist stay as they are."""
        more = num_envs - len(self._stack)
        if more <= 0:
            return
        self._previous_action, self._stack = grown(self._previous_action, more), grown(self._stack, more)
        self._states = tuple(torch.cat([state, state.new_zeros(more, *state.shape[1:])]) for state in self._states)

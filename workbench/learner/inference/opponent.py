"""A frozen policy that plays against the one that learns: it acts for some of the learner's environments.

Its weights never change, and its actions are sampled. Its steps make no unrolls and no episodes. It has tables of its
own (frames, previous action, recurrent state), since its network may differ.
"""

from __future__ import annotations

import numpy as np

from workbench.algorithms.distributions import distribution_of
from workbench.algorithms.interface import Roles
from workbench.algorithms.own_code import act
from workbench.learner.devices.device import Device
from workbench.learner.inference.environment_tables import EnvironmentTables
from workbench.policies.player import LoadedPolicy
from workbench.trajectory import Array, StepBatch


class Opponent:
    """The tables of a frozen `policy`, one row per environment; the rows that it does not play stay empty."""

    def __init__(self, policy: LoadedPolicy, *, device: Device, num_envs: int, seed: int) -> None:
        self._policy, self._device = policy, device
        self._network = policy.network.to(device.torch)
        policy.algorithm.to(device.torch)
        self._generator = device.generator(seed)
        self._actions = distribution_of(policy.spec.actions)
        self._tables = EnvironmentTables(self._network, policy.spec, device=device, num_envs=num_envs)

    def begin_life(self, env_ids: Array) -> None:
        """Reset `env_ids`, whose actor begins a new life."""
        self._tables.forget(env_ids)

    def act(self, env_ids: Array, batch: StepBatch) -> Array:
        """Actions [N, *action] for the environments `env_ids`, in their format; called in `Device.acting`."""
        number = len(env_ids)
        if not number:
            return np.zeros((0, *self._policy.spec.actions.shape), self._policy.spec.actions.dtype)
        steps, _ = self._tables.place(env_ids, batch, self._tables.previous_action(env_ids, batch))
        evaluating = Roles(*(self._device.place(part) for part in Roles.evaluating(len(steps.rows))))
        with self._device.tracing():
            with self._device.autocast():
                output, state = self._network(*self._tables.push(steps))
            actions, _ = act(self._policy.algorithm, output, roles=evaluating, greedy=False,
                             generator=self._device.drawing(self._generator), config=self._policy.config)
            self._tables.store_states(steps.rows, state)
            environment_actions = self._actions.to_environment(actions)
        policy_array, environment_array = self._device.fetch([actions, environment_actions])
        self._tables.store_actions(env_ids, policy_array[:number])
        return environment_array[:number]

    def resize(self, num_envs: int) -> None:
        """Make room for `num_envs` environments; existing rows stay the same."""
        self._tables.resize(num_envs)

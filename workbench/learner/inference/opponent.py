"""A frozen policy that plays against the one that learns: it acts for some rows of the learner's tables.

Its weights never change, its actions are sampled, and what it lives through is kept nowhere: no unrolls, no episodes.
It has tables of its own (frames, previous action, recurrent state), since its network may be another one.
"""

from __future__ import annotations

import numpy as np

from workbench.algorithms.distributions import distribution_of
from workbench.algorithms.interface import Roles
from workbench.learner.devices.device import Device
from workbench.learner.inference.environment_tables import Memory
from workbench.policies.player import Policy
from workbench.trajectory import Array, StepBatch


class Opponent:
    """The tables of a frozen `policy`, one row per environment; rows of others stay empty."""

    def __init__(self, policy: Policy, *, device: Device, num_envs: int, seed: int) -> None:
        self._policy, self._device = policy, device
        self._network = policy.network.to(device.torch)
        self._generator = device.generator(seed)
        self._actions = distribution_of(policy.spec.actions)
        self._memory = Memory(self._network, policy.spec, device=device, num_envs=num_envs)

    def begin_life(self, rows: Array) -> None:
        """Forget what `rows` have seen: their actor begins a new life."""
        self._memory.forget(rows)

    def act(self, rows: Array, batch: StepBatch) -> Array:
        """Actions [N, *action] as the environments `rows` take them; called in `Device.acting`."""
        number = len(rows)
        if not number:
            return np.zeros((0, *self._policy.spec.actions.shape), self._policy.spec.actions.dtype)
        seen = self._memory.bring(rows, batch, self._memory.previous_action(rows, batch))
        evaluating = Roles(*(self._device.place(part) for part in Roles.evaluating(len(seen.rows))))
        with self._device.tracing():
            with self._device.autocast():
                output, state = self._network(*self._memory.look(seen))
            actions, _ = self._policy.algorithm.act(
                output, roles=evaluating, greedy=False, generator=self._device.drawing(self._generator),
                config=self._policy.config)
            self._memory.remember(seen.rows, state)
            as_taken = self._actions.to_environment(actions)
        chosen, sent = self._device.fetch([actions, as_taken])
        self._memory.did(rows, chosen[:number])
        return sent[:number]

    def resize(self, num_envs: int) -> None:
        """Make room for `num_envs` environments; rows that exist stay as they are."""
        self._memory.resize(num_envs)

"""A task whose rewards have any scale: do what the observation says. An algorithm learns it in this process."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from workbench import algorithms, networks
from workbench.algorithms import Roles
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.learner.devices.device import Device
from workbench.learner.inference.discounted_returns import DiscountedReturns
from workbench.learner.training.trainer import Trainer
from workbench.trajectory import Array, Flags, StepBatch, Unroll

SPEC = EnvironmentSpec("signs", (2,), "float32", 2)
ENVS, LENGTH, EPISODE = 8, 10, 5


class Learnt(NamedTuple):
    """Attributes:
    right: share of right actions in the last updates.
    value_error: root mean square error of the values against the last returns, by the root mean square of these.
    """

    right: float
    value_error: float


def learn(scale: float, *, updates: int, seed: int = 0, **fields: Any) -> Learnt:
    """Train for some updates on rewards of 0 and `scale`; episodes have 5 steps."""
    config = RunConfig.build("signs", unroll_length=LENGTH, batch_size=ENVS, discount=0.9, max_abs_reward=0.0,
                             **{"warmup_updates": 0, "learning_rate": 3e-3, **fields})
    algorithm = algorithms.build(config, spec=SPEC)
    network = networks.build("mlp", spec=SPEC, heads=algorithm.heads, seed=seed)
    trainer = Trainer(network, algorithm, Device("cpu", precision="fp32"), config.hyperparameters)
    world, right = _World(scale, algorithm, network, config, seed), []
    for _ in range(updates):
        unrolls, share = world.unrolls()
        loss = trainer.update(algorithms.collate(unrolls), config=config.hyperparameters, on_bad=print,
                              learning_rate=config.hyperparameters.learning_rate)
        assert loss is not None
        right.append(share)
    return Learnt(float(np.mean(right[-updates // 5:])), world.value_error(unrolls))


class _World:
    def __init__(self, scale: float, algorithm: Any, network: Any, config: RunConfig, seed: int) -> None:
        self._scale, self._algorithm, self._network, self._config = scale, algorithm, network, config
        self._random = np.random.default_rng(seed)
        self._generator = torch.Generator().manual_seed(seed)
        self._discounted = DiscountedReturns(ENVS)
        self._step = 0
        self._last = self._see(np.zeros(ENVS, np.float32), np.zeros(ENVS, np.int64))

    def _see(self, reward: Array, previous_action: Array) -> dict[str, Array]:
        """The next step of all environments, and their actions."""
        flags = np.full(ENVS, (Flags.START | Flags.TERMINATED) if self._step % EPISODE == 0 else 0, np.uint8)
        if self._step == 0:
            flags[:] = Flags.START
        signs = self._random.integers(0, 2, ENVS)
        observation = np.stack([2.0 * signs - 1, np.full(ENVS, self._step % EPISODE)], 1).astype(np.float32)
        start = (flags & Flags.START) != 0
        with torch.no_grad():
            output, _ = self._network(torch.from_numpy(observation)[None], torch.from_numpy(previous_action)[None],
                                      torch.from_numpy(reward)[None], torch.from_numpy(start)[None], ())
            action, behaviour = self._algorithm.act(
                output, roles=Roles.evaluating(ENVS), greedy=False, generator=self._generator,
                config=self._config.hyperparameters)
        arrays = {f"behaviour.{name}": value.numpy() for name, value in behaviour.items()}
        if "discounted_return" in self._algorithm.behaviour_fields():
            batch = StepBatch(observation, reward, flags)
            arrays["behaviour.discounted_return"] = self._discounted.add(np.arange(ENVS), batch, discount=0.9)
        self._step += 1
        self._right = action.numpy() == signs
        return {"observation": observation, "reward": reward, "flags": flags, "previous_action": previous_action,
                "action": action.numpy(), "policy_version": np.zeros(ENVS, np.int64),
                "bootstrap_value": np.zeros(ENVS, np.float32), **arrays}

    def unrolls(self) -> tuple[list[Unroll], float]:
        """One unroll of each environment, and the share of right actions in them."""
        steps, shares = [self._last], []
        for _ in range(LENGTH):
            shares.append(self._right.mean())
            reward = (self._scale * self._right).astype(np.float32)
            steps.append(self._see(reward, steps[-1]["action"]))
        self._last = steps[-1]
        columns = {name: np.stack([step[name] for step in steps]) for name in steps[0]}
        made = [Unroll.of({**{name: column[:, env] for name, column in columns.items()},
                           "stack_prefix": np.zeros((0, 2), np.float32)}, env_id=env, run_id=1) for env in range(ENVS)]
        return made, float(np.mean(shares))

    def value_error(self, unrolls: list[Unroll]) -> float:
        """Root mean square of V - R over the first episode of each unroll, by that of its returns R."""
        batch, config = algorithms.collate(unrolls), self._config.hyperparameters
        with torch.no_grad():
            values = self._algorithm.outputs(self._network, batch).value
        rewards = self._algorithm.rewards(batch, config)
        last = EPISODE - (self._step - 1 - LENGTH) % EPISODE
        sums, returns = torch.zeros(ENVS), []
        for t in reversed(range(last)):
            sums = rewards[t] + 0.9 * sums
            returns.append(sums)
        expected = torch.stack(returns[::-1])
        return float((values[:last] - expected).square().mean().sqrt() / expected.square().mean().sqrt())

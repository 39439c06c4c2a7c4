"""Plays whole episodes with a checkpoint's policy, in a process of its own on the CPU; prints one line of JSON.

Every environment plays its own fixed share of the episodes: whoever counted the first to finish would favour short
ones. Same checkpoint, seed and number of episodes: same returns.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from workbench import algorithms, checkpoints, environments, networks
from workbench.algorithms.frames import join_frames, push_frames
from workbench.checkpoints import Checkpoint
from workbench.config import LearningConfig, RunConfig
from workbench.environments.by_value import load_factory
from workbench.environments.contract import VectorEnvironment
from workbench.errors import WorkbenchError
from workbench.rundir import RunDirectory
from workbench.trajectory import ENDS, Array, EnvironmentSpec, Flags, StepBatch

_LARGEST_GROUP = 8  # environments stepped together


class Player:
    """A policy that plays N environments: the per-environment memory (frames, state, action) and the network."""

    def __init__(
        self, network: nn.Module, algorithm: algorithms.Algorithm, spec: EnvironmentSpec, *, config: LearningConfig,
        num_envs: int, seed: int,
    ) -> None:
        self._network, self._algorithm, self._config = network.eval(), algorithm, config
        self._roles = algorithms.Roles.evaluating(num_envs)
        self._generator = torch.Generator().manual_seed(seed)
        self._state: tuple[torch.Tensor, ...] = network.initial_state(num_envs)  # type: ignore[operator]
        dtype = getattr(torch, spec.observation_dtype)
        self._stack = torch.zeros((num_envs, spec.frame_stack, *spec.observation_shape), dtype=dtype)
        self._action = torch.zeros(num_envs, dtype=torch.int64)

    @torch.inference_mode()
    def act(self, step: StepBatch, *, greedy: bool) -> Array:
        """Actions int64 [N] for the observations of `step`; not `greedy`: as in an environment that evaluates."""
        start = torch.from_numpy((step.flags & Flags.START) != 0)
        observation = torch.from_numpy(np.ascontiguousarray(step.observation))
        self._stack = push_frames(self._stack, observation=observation, start=start)
        reward = torch.from_numpy(step.reward.astype(np.float32))
        output, self._state = self._network(
            join_frames(self._stack)[None], self._action[None], reward[None], start[None], self._state
        )
        self._action, _ = self._algorithm.act(output, roles=self._roles, greedy=greedy, generator=self._generator,
                                               config=self._config)
        return self._action.numpy()


def load_player(checkpoint: Checkpoint, *, num_envs: int, seed: int) -> Player:
    """The player of a checkpoint. Raises CheckpointCorrupt or NetworkFailed."""
    config = RunConfig.from_json(checkpoint.meta["config"])
    spec = EnvironmentSpec.from_json(checkpoint.meta["environment"])
    factory = load_factory(_run(checkpoint).code / "network.pkl")
    algorithm = algorithms.build(config, spec=spec)
    network = networks.build(config.network, spec=spec, heads=algorithm.heads, factory=factory, seed=0)
    weights = {name: torch.from_numpy(array) for name, array in checkpoint.load("model").items()}
    network.load_state_dict(weights)
    return Player(network, algorithm, spec, config=config.hyperparameters, num_envs=num_envs, seed=seed)


def make_environment(checkpoint: Checkpoint, *, num_envs: int, seed: int) -> VectorEnvironment:
    """The environment that a checkpoint was trained in, with the same options."""
    config = RunConfig.from_json(checkpoint.meta["config"])
    factory = load_factory(_run(checkpoint).code / "environment.pkl")
    return environments.make_configured(config, num_envs=num_envs, seed=seed, factory=factory)


def _run(checkpoint: Checkpoint) -> RunDirectory:
    return RunDirectory(checkpoint.path.parent.parent)


def play_episodes(
    player: Player, environment: VectorEnvironment, *, episodes: int, seed: int, greedy: bool
) -> tuple[list[float], list[int]]:
    """Returns (not clipped) and lengths in steps of `episodes` episodes, by environment and then by time."""
    count = environment.num_envs
    shares = [len(part) for part in np.array_split(np.arange(episodes), count)]
    returns: list[list[float]] = [[] for _ in range(count)]
    lengths: list[list[int]] = [[] for _ in range(count)]
    total, length = np.zeros(count), np.zeros(count, int)
    step = environment.reset(seed=seed)
    while any(len(done) < share for done, share in zip(returns, shares, strict=True)):
        step = environment.step(player.act(step, greedy=greedy))
        total += step.reward
        length += 1
        for row in np.flatnonzero(step.flags & ENDS).tolist():
            if len(returns[row]) < shares[row]:
                returns[row].append(float(total[row]))
                lengths[row].append(int(length[row]))
            total[row], length[row] = 0.0, 0
    return sum(returns, []), sum(lengths, [])


def main(request: str) -> int:
    """Evaluate as `request` (JSON: checkpoint, episodes, seed, greedy) says, and print the result. The exit code."""
    try:
        print(json.dumps(_evaluated(**json.loads(request))), flush=True)
        return 0
    except WorkbenchError as error:
        print(json.dumps({"error": {"type": type(error).__name__, "message": str(error)}}), flush=True)
        return 2


def _evaluated(checkpoint: str, episodes: int, seed: int, greedy: bool) -> dict[str, Any]:
    torch.set_num_threads(1)
    found = checkpoints.at(Path(checkpoint))
    num_envs = min(episodes, _LARGEST_GROUP)
    environment = make_environment(found, num_envs=num_envs, seed=seed)
    try:
        player = load_player(found, num_envs=num_envs, seed=seed)
        returns, lengths = play_episodes(player, environment, episodes=episodes, seed=seed, greedy=greedy)
    finally:
        environment.close()
    return {"returns": returns, "lengths": lengths, "environment": environment.spec.name}

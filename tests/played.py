"""Checkpoints of networks that nobody trained, and rollouts of them in this process: what the learner would do in its
own."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
from torch import nn

from workbench import algorithms, checkpoints, environments, networks
from workbench.checkpoints import Checkpoint
from workbench.config import RunConfig
from workbench.environments.adapters import code_by_value
from workbench.playing import branching, worker_process
from workbench.playing import rollout as rollouts
from workbench.playing.branching import MAX_STEPS
from workbench.playing.rollout import Rollout
from workbench.playing.worker import branch, evaluate
from workbench.playing.worker import played_episode as playing
from workbench.policies import player
from workbench.rundir import RunDirectory, sealed, write_atomically


def checkpoint_in(
    folder: Path, environment: str | Callable[..., gymnasium.Env] = "CartPole-v1", *, network: Any = None,
    seed: int = 3, agents: int = 1, **fields: Any,
) -> Checkpoint:
    """A checkpoint of a run in `folder`, with the first weights of a network (a name or a factory).

    `agents`: that play a game of the environment.
    """
    run = RunDirectory(folder / "run")
    run.code.mkdir(parents=True)
    name = environment if isinstance(environment, str) else "mine"
    made = {"environment": environment, "network": network}
    for file, data in code_of(**{kind: one for kind, one in made.items() if callable(one)}).items():
        write_atomically(run.code / file, data)
    config = RunConfig.build(name, network=network if isinstance(network, str) else None, **fields)
    factory = None if name == environment else environment
    env = environments.make_configured(config, num_envs=agents, seed=0, factory=factory)
    spec = env.spec
    env.close()
    heads = algorithms.build(config, spec=spec).heads
    built: nn.Module = networks.build(
        config.network, spec=spec, heads=heads, factory=network if callable(network) else None, seed=seed,
        normalise=config.hyperparameters.normalize_observations)
    run.write(config=config.to_json(), state="finished", created=0.0)
    return checkpoints.write(
        run.checkpoints, frames=1200, requested=True,
        groups={"model": {name: np.asarray(value) for name, value in built.state_dict().items()}},
        meta={"steps": 1, "updates": 1, "time_s": 1.0, "config": config.to_json(), "environment": spec.to_json()})


class Starts(gymnasium.Env[Any, Any]):
    """Starts a program and forks a process, which do not end by themselves, and leaves them; see `started_in`."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, steps: int = 3) -> None:
        self.left, self.steps = steps, steps
        if "STARTED" in os.environ:
            forked = multiprocessing.get_context("fork").Process(target=time.sleep, args=[600])
            forked.start()
            pids = subprocess.Popen(["sleep", "600"]).pid, forked.pid
            Path(os.environ["STARTED"]).write_text(" ".join(map(str, pids)))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.left = self.steps
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        return np.zeros(2, np.float32), 1.0, self.left == 0, False, {}


def started_in(file: Path) -> list[psutil.Process]:
    """Those that a `Starts` has started, to which the variable STARTED names this file."""
    return [psutil.Process(int(pid)) for pid in file.read_text().split()]


def code_of(**factories: Any) -> dict[str, bytes]:
    """What `rundir.create` writes down of factories: environment=..., network=..."""
    return {f"{kind}.pkl": sealed.sealed(f"{kind}.pkl", code_by_value.dumps(one)) for kind, one in factories.items()}


def rolled_out(
    checkpoint: Checkpoint, folder: Path, *, seed: int = 0, greedy: bool = True, max_steps: int = MAX_STEPS,
    saliency: str | None = None, render: bool = True,
) -> Rollout:
    """As wb.rollout, in this process and into `folder`."""
    folder.mkdir()
    request = {"checkpoint": str(checkpoint.path), "trust_code": False, "folder": str(folder), "seed": seed,
               "greedy": greedy, "max_steps": max_steps, "saliency": saliency, "render": render}
    playing._play_rollout(**json.loads(json.dumps(request)))
    return rollouts.load(folder)


@contextmanager
def branching_here() -> Iterator[None]:
    """`rollout.branch` plays in this process, which is quicker than one of its own."""

    def answer_of(entry: str, request: dict[str, Any], **_: Any) -> dict[str, Any]:
        assert entry == "_branch"
        return branch._play_branch(**json.loads(json.dumps(request)))

    before = worker_process.answer_of
    branching.worker_process.answer_of = answer_of
    try:
        yield
    finally:
        branching.worker_process.answer_of = before


def evaluated(checkpoint: Checkpoint, *, seed: int = 0, greedy: bool = True) -> tuple[float, int]:
    """Return and length of the one episode that wb.evaluate plays with these arguments."""
    environment = player.make_environment(checkpoint, num_envs=1, seed=seed)
    try:
        one = player.load_player(checkpoint, num_envs=1, seed=seed)
        returns, lengths, *_ = evaluate.play_episodes(one, environment, episodes=1, seed=seed, greedy=greedy)
    finally:
        environment.close()
    return returns[0], lengths[0]

"""Runs on disk as a learner leaves them, one of each algorithm, written by the writer that a learner uses."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from workbench import rundir
from workbench.config import RunConfig
from workbench.metrics import MetricsWriter, Progress
from workbench.playing.store import RolloutWriter
from workbench.rundir import RunDirectory

UPDATES = 120
STATUS: dict[str, Any] = {
    "state": "training", "frames": UPDATES * 2560, "steps": UPDATES * 640, "updates": UPDATES,
    "frames_per_second": 5000.0, "steps_per_second": 1250.0, "episodes": UPDATES, "episode_return": -20.0,
    "policy_lag": 1.4, "device": "cpu", "precision": "fp32", "device_memory_gb": 1.2,
    "device_memory_total_gb": 16.0, "time_s": 60.0, "eta_s": 1940.0,
    "hint": "training 80% of the time",
    "bottleneck": {"environments": 0.3, "inference": 0.2, "training": 0.8},
}
R2D2_STATUS = STATUS | {
    "evaluation_return": 18.25, "evaluation_episodes": 40, "replay_unrolls": 1234, "replay_capacity": 5000,
    "policy_lag": 1523.4,
}


def at(update: int) -> Progress:
    return Progress(frames=update * 2560, steps=update * 640, updates=update, time_s=update * 0.5)


def new(name: str, algorithm: str = "vtrace", **fields: Any) -> RunDirectory:
    """A run's directory without any metrics, in the home of the test."""
    config = RunConfig.build("ALE/Pong-v5", algorithm=algorithm, total_frames=10_000_000, **fields).to_json()
    return rundir.create(name, {"created": time.time(), "config": config, "state": "training", "error": None,
                                "supervisor_pid": None, "parent": None})


def vtrace(name: str) -> RunDirectory:
    """A V-trace run of 120 updates."""
    directory = new(name)
    writer = MetricsWriter(directory.metrics)
    for update in range(1, UPDATES + 1):
        writer.scalars(at(update), {
            "frames_per_second": 5000.0, "steps_per_second": 1250.0, "loss": 1 / update, "policy_loss": 0.1,
            "baseline_loss": 0.2, "entropy_loss": -0.01, "entropy": 1.7, "learning_rate": 6e-4,
            "episode_return_mean": -20.0,
        })
        writer.episode(at(update), env_id=0, episode_return=-20.0, length_steps=900)
    writer.distribution("policy_lag", at(UPDATES), [0, 1, 2, 3], [10, 20, 5])
    writer.event("tune", "learning_rate 0.0006 → 0.0003", progress=at(60))
    writer.status(STATUS)
    writer.close()
    return directory


def tell(directory: RunDirectory, **fields: Any) -> None:
    """Make these fields those of the run's last status."""
    writer = MetricsWriter(directory.metrics)
    writer.status(STATUS | fields)
    writer.close()


def r2d2(name: str, *, filling: bool = False) -> RunDirectory:
    """An R2D2 run of 120 updates; `filling`: it has none yet, because its replay fills first."""
    directory = new(name, "r2d2")
    writer = MetricsWriter(directory.metrics)
    for update in range(1, UPDATES + 1):
        scalars = {"frames_per_second": 5000.0, "steps_per_second": 1250.0, "replay_fill": update / 500,
                   "replay_unrolls": update * 10, "episode_return_mean": -20.0, "evaluation_return_mean": -18.0}
        if not filling:
            scalars |= {"loss": 2 / update, "td_error": 0.1 / update, "q_value": 1.5, "learning_rate": 1e-4,
                        "replay_ratio": 0.74}
        writer.scalars(at(update), scalars)
        writer.episode(at(update), env_id=0, episode_return=-20.0, length_steps=900)
        if update % 4 == 0:
            writer.episode(at(update), env_id=15, episode_return=-18.0, length_steps=950, kind="evaluation")
    if not filling:
        factors = list(np.geomspace(1e-4, 1e2, 31))
        for distribution in ("td_error", "priority"):
            writer.distribution(distribution, at(UPDATES), factors, [0] * 5 + [3] * 20 + [0] * 5)
        writer.distribution("sample_age", at(UPDATES), [0.0, *factors], [1] * 31)
        writer.distribution("policy_lag", at(UPDATES), [0, 1, 2, 3], [10, 20, 5])
    writer.status(R2D2_STATUS | ({"updates": 0, "policy_lag": None} if filling else {}))
    writer.close()
    return directory


def rollout(
    directory: RunDirectory, *, steps: int = 40, seed: int = 0, reward: float = 1.0, size: int = 0, text: str = ""
) -> None:
    """A rollout of the run with a reward at every tenth step; its frames are a grey that moves down, or noise.

    `size`: height and width of frames of noise. `text`: the name of its environment and of its actions, and its note.
    """
    folder, random = directory.rollouts / f"{UPDATES * 2560:012d}-seed{seed}", np.random.default_rng(seed)
    folder.mkdir(parents=True)
    with RolloutWriter(folder) as writer:
        for step in range(steps + 1):
            writer.append(observations=np.full((1, 8, 8), step % 256, np.uint8))
            if step < steps:
                writer.append(actions=np.int64(step % 3), rewards=np.float32(reward if step % 10 == 9 else 0),
                              values=np.float32(step / steps), policy=np.array([0.2, 0.5, 0.3], np.float32))
            grey = np.broadcast_to(((np.arange(210) + 6 * step) % 256).astype(np.uint8)[:, None, None], (210, 160, 3))
            writer.show(random.integers(0, 256, (size, size, 3), np.uint8) if size else grey)
        writer.finish({
            "environment": text or "ALE/Pong-v5", "algorithm": "vtrace", "checkpoint": text or "/runs/x/checkpoints/1",
            "checkpoint_frames": UPDATES * 2560, "seed": seed, "greedy": True, "terminated": True, "truncated": False,
            "fps": 15.0, "note": text, "action_names": [text or "NOOP", "UP", "DOWN"], "parts": [],
            "actions": {"kind": "categorical", "sizes": [3]}})

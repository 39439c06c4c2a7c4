"""Runs that are slow, each for one reason, to find from their shares of time (lesson 13).

    run = slow_run(3)         # launches it
    run = mended(3)           # the same run with its remedy
    shares(run)               # where its threads spend their time now
    cores_used(run, "actor-0")   # what a process of it computes

What each run is slow by is a matter of proportions, so that its shares are alike on fast and slow machines.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

import workbench as wb
from workbench.errors import OutOfBounds
from workbench.lessons import harm

PARTS = ("environments", "wire", "batch_wait", "inference", "queue_blocked", "training", "training_wait")
_SAME = {"learner_threads": 1, "warmup_updates": 0, "total_frames": 20_000_000}


class Sleepy(gymnasium.Wrapper):  # type: ignore[misc]  # gymnasium is not typed here
    """Each step waits 2 ms, as for a simulator on another machine."""

    def step(self, action: Any) -> Any:
        time.sleep(0.002)
        return self.env.step(action)


class Loading(gymnasium.Wrapper):  # type: ignore[misc]  # gymnasium is not typed here
    """One step in a hundred takes 0.3 s, as where a level is loaded."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._draws = np.random.default_rng(id(self))

    def step(self, action: Any) -> Any:
        if self._draws.random() < 0.01:
            time.sleep(0.3)
        return self.env.step(action)


class Laborious(gymnasium.Wrapper):  # type: ignore[misc]  # gymnasium is not typed here
    """Each step computes for one or two milliseconds."""

    _numbers = np.linspace(-3, 3, 4096)

    def step(self, action: Any) -> Any:
        for _ in range(400):
            np.tanh(self._numbers)
        return self.env.step(action)


@dataclass(frozen=True)
class Slow:
    """A run with one bottleneck.

    Attributes:
        bottleneck: what limits it, in words.
        limit: the same as `metrics.limiting_part.limit` names it.
        fields: of the launch.
        remedy: fields in which the mended run differs.
    """

    bottleneck: str
    limit: str
    environment: str
    fields: Mapping[str, Any]
    remedy: Mapping[str, Any]
    wrappers: list[type[gymnasium.Wrapper]] = field(default_factory=list)


SLOW = {
    1: Slow("waiting environments", "environments", "CartPole-v1", {"actors": 1, "envs_per_actor": 16, "batch_size": 8},
            {"actors": 4}, [Sleepy]),
    2: Slow("small batches", "inference", "CartPole-v1",
            {"actors": 4, "envs_per_actor": 2, "batch_size": 8, "max_batch": 1},
            {"actors": 1, "envs_per_actor": 32, "max_batch": 0}),
    3: Slow("waiting batches", "batch_wait", "CartPole-v1",
            {"actors": 4, "envs_per_actor": 8, "batch_size": 8, "max_batch": 32, "batch_timeout_ms": 1000.0},
            {"max_batch": 8, "batch_timeout_ms": 5.0}, [Loading]),
    4: Slow("training", "training", "testing/catch-v0",
            {"actors": 1, "envs_per_actor": 32, "batch_size": 8, "network": "impala-deep"},
            {"network": "small-cnn"}),
    5: Slow("computing environments", "environments", "CartPole-v1",
            {"actors": 1, "envs_per_actor": 16, "batch_size": 8}, {"actors": 2}, [Laborious]),
}


def slow_run(number: int) -> wb.Run:
    """Launches slow run 1 to 5. Raises OutOfBounds for another number."""
    return _launched(number, {})


def mended(number: int) -> wb.Run:
    """Launches the same run with its remedy. Raises OutOfBounds for another number."""
    return _launched(number, _slow(number).remedy)


def shares(run: wb.Run, *, seconds: float = 5.0) -> dict[str, float]:
    """Means of `time_…` over the last `seconds` of training, by part; NaN for one without a row."""
    found = {}
    for part in PARTS:
        rows = run.metrics(f"time_{part}")
        found[part] = float(rows[rows.time_s > rows.time_s.max() - seconds].value.mean())
    return found


def cores_used(run: wb.Run, who: str, *, seconds: float = 5.0) -> float:
    """Cores that a process of the run ("actor-0", "learner") keeps busy in the next `seconds`: 1.0 is one whole core.

    Raises RunNotAlive where there is no such process on this machine.
    """
    process = harm.process(run, who)
    before, started = process.cpu_times(), time.monotonic()
    time.sleep(seconds)
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / (time.monotonic() - started)


def _launched(number: int, changes: Mapping[str, Any]) -> wb.Run:
    slow = _slow(number)
    return wb.launch(slow.environment, wrappers=slow.wrappers, **{**_SAME, **slow.fields, **changes})


def _slow(number: int) -> Slow:
    if number not in SLOW:
        raise OutOfBounds(f"there is no slow run {number!r}: choose one of 1 to {len(SLOW)}.")
    return SLOW[number]

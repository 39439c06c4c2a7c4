"""Environments that go wrong after many good steps: each is named, its actor starts anew, and the run trains on."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

import gymnasium
import numpy as np
import psutil
import pytest

import workbench as wb
from tests.conftest import eventually
from tests.faults.harm import COUNTING, complete, messages
from workbench.errors import RunFailed
from workbench.testing import CountingEnv

GOOD_STEPS = 120  # to the middle of an episode; then the actor's next life does the next wrong thing
WRONG = {
    "raises": "raised ZeroDivisionError in step: float division by zero",
    "shape": "observation of shape (3,); the observation space has shape (4,)",
    "nan": "observation has the value nan, which is not finite",
    "reward": "reward nan is not a finite float32",
    "tuple": "it must return (observation, reward, terminated, truncated, info)",
}


def turning_bad(lives: Path) -> type[gymnasium.Env]:
    """A class of environments that count, until the first of an actor does the next thing of WRONG; then they are good.

    Args:
        lives: a file with one byte for each actor that has begun.
    """

    class TurningBad(CountingEnv):
        made = 0

        def __init__(self) -> None:
            super().__init__(episode_length=50, step_ms=15.0)
            self._left, self._wrong = GOOD_STEPS, None
            if TurningBad.made == 0:
                with open(lives, "ab", buffering=0) as file:
                    file.write(b".")
                    number = file.tell() - 1  # of the own byte, whoever else writes now
                self._wrong = list(WRONG)[number] if number < len(WRONG) else None
            TurningBad.made += 1

        def step(self, action):
            told = super().step(action)
            self._left -= 1
            if self._wrong is None or self._left:
                return told
            match self._wrong:
                case "raises":
                    return 1.0 / 0.0
                case "shape":
                    return told[0][:3], *told[1:]
                case "nan":
                    return np.where(told[0] == told[0][2], np.float32("nan"), told[0]), *told[1:]
                case "reward":
                    return told[0], float("nan"), *told[2:]
                case _:
                    return told[:4]

    return TurningBad


def test_what_an_environment_does_wrong_late_is_named_and_training_goes_on(home: Path) -> None:
    run = wb.launch(turning_bad(home / "lives"), **COUNTING)
    learner = run.status.learner_pid
    for number in range(1, len(WRONG) + 1):
        eventually(lambda number=number: len(messages(run, "error")) >= number, what=f"{run.status!r}")
    said = messages(run, "error")
    errors = run.events[run.events["kind"] == "error"]
    for rule in WRONG.values():
        (at,) = [number for number, one in enumerate(errors["data"]) if rule in one["traceback"]]
        assert "(index 0)" in said[at] and "EnvironmentFailed" in said[at]
    after = complete(run)
    assert (after.learner_pid, sum(actor.restarts for actor in after.actors)) == (learner, len(WRONG))
    assert run.wait(updates=after.updates + 10, timeout_s=240).reason == ""


class Hanging(CountingEnv):
    """Hangs in its first life, `after` a few hundred steps, until its process is ended."""

    def __init__(self, first: str, after: int = 300) -> None:
        super().__init__()
        self._left = -1
        try:
            Path(first).touch(exist_ok=False)
            self._left = after
        except FileExistsError:
            pass

    def step(self, action):
        self._left -= 1
        while self._left == 0:
            time.sleep(1)
        return super().step(action)


@pytest.mark.full
def test_an_environment_that_hangs_is_named_and_its_actor_started_anew(home: Path) -> None:
    first = str(home / "hung")
    run = wb.launch(lambda: Hanging(first), **COUNTING)
    eventually(lambda: "has made no step for" in run.status.reason)
    hung = run.status
    assert run.wait(updates=hung.updates + 10, timeout_s=240).learner_pid == hung.learner_pid, "others go on"
    run.tune(step_timeout_s=11.0)
    after = eventually(lambda: (s := run.status).reason == "" and sum(one.restarts for one in s.actors) and s)
    assert after.state == "training" and sum(actor.restarts for actor in after.actors) == 1
    assert any("an environment hangs. It is ended and started anew" in one for one in messages(run, "error"))
    complete(run)


def test_an_environment_that_hangs_before_the_first_update_is_named_and_its_actor_started_anew(home: Path) -> None:
    first = str(home / "hung")
    run = wb.launch(lambda: Hanging(first, after=2), **{**COUNTING, "actors": 1}, step_timeout_s=10.0)
    assert any("an environment hangs. It is ended and started anew" in one for one in messages(run, "error"))
    run.stop()


class Crashing(CountingEnv):
    """Ends its process in its third step, as native code with a fault does."""

    _steps = 0

    def step(self, action):
        self._steps += 1
        return super().step(action) if self._steps < 3 else ctypes.string_at(0)


@pytest.mark.full
def test_an_environment_that_always_ends_its_process_ends_the_run_with_the_line(home: Path) -> None:
    with pytest.raises(RunFailed, match=r"actor-\d ended with signal 11 \(SIGSEGV\) again and again") as raised:
        wb.launch(Crashing, **COUNTING)
    assert "Fatal Python error: Segmentation fault" in str(raised.value) and "in step" in str(raised.value)


class Leaking(CountingEnv):
    """Keeps 500 kB of every step."""

    def __init__(self) -> None:
        super().__init__(step_ms=5.0)
        self._kept: list[bytes] = []

    def step(self, action):
        if len(self._kept) < 1_200:
            self._kept.append(b"x" * 500_000)
        return super().step(action)


def test_an_actor_whose_environments_leak_is_ended_at_its_limit(home: Path) -> None:
    run = wb.launch(Leaking, **COUNTING, actor_memory_limit_gb=0.6)
    before = run.status
    said = eventually(lambda: messages(run, "error"), what="the leak is told")
    assert "EnvironmentFailed: the environments of actor" in said[0] and "actor_memory_limit_gb is 0.6" in said[0]
    run.tune(actor_memory_limit_gb=50.0)
    after = complete(run)
    assert after.learner_pid == before.learner_pid
    assert run.wait(updates=after.updates + 5, timeout_s=240).state == "training"


@pytest.mark.full
def test_where_memory_runs_out_actors_go_first(home: Path) -> None:
    if not Path("/proc/self/oom_score_adj").exists():
        pytest.skip("only Linux says which process goes first")
    run = wb.launch("testing/counting-v0", **COUNTING)
    status = complete(run)

    def rank(pid: int | None) -> int:
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())

    ours = int(Path("/proc/self/oom_score_adj").read_text())
    assert {rank(actor.pid) for actor in status.actors} == {500}
    assert (rank(status.learner_pid), rank(status.supervisor_pid)) == (ours, ours)
    assert psutil.pid_exists(status.learner_pid)

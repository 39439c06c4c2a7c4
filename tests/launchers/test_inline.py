"""A run inside this process: it is one, nothing of the process is changed by it, and it ends with it."""

from __future__ import annotations

import subprocess
import sys
import threading
import traceback
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import workbench as wb
from tests.conftest import SMALL, eventually
from workbench.errors import EnvironmentFailed, OutOfBounds, RunNotAlive
from workbench.launchers import inline
from workbench.launchers.inline import threads

STUCK, HANGS, LET_GO = threading.Event(), threading.Event(), threading.Event()


class Sticky(gymnasium.Env):
    """An environment whose step hangs (`HANGS`) while `STUCK` is set; its class is not copied into the same process."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        if STUCK.is_set():
            HANGS.set()
            LET_GO.wait()
        return np.ones(2, np.float32), 1.0, False, False, {}


class Failing(Sticky):
    def step(self, action):
        clue = "the clue"
        raise ValueError(clue)


def launch(environment="CartPole-v1", **fields) -> wb.Run:
    return wb.launch(environment, launcher="inline", **{**SMALL, "actors": 1, **fields})


def test_a_run_learns_in_this_process_and_leaves_it_as_it_was(home: Path, capsys) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    before, number = set(threading.enumerate()), torch.get_num_threads()
    run = launch(actors=2, warmup_updates=0)
    assert "which loads torch" in capsys.readouterr().out
    run.wait(updates=5, timeout_s=240)
    assert run.status.supervisor_pid == run.status.learner_pid
    assert torch.equal(torch.rand(3), expected) and torch.get_num_threads() == number
    assert run.tune(learning_rate=1e-3)["new"] == {"learning_rate": 1e-3}
    run.scale(actors=1)
    eventually(lambda: len(run.status.actors) == 1)
    assert run.stop().state == "stopped" and run.checkpoints
    left = {one.name for one in set(threading.enumerate()) - before}
    assert not {name for name in left if name.startswith(("actor", "learner", "supervisor", "inference", "recorder"))}
    again = wb.resume(run.name)
    assert again.config.launcher == "inline" and again.wait(frames=run.status.frames + 200, timeout_s=240)
    again.stop()


def test_an_actor_that_is_killed_comes_back(home: Path) -> None:
    run = launch()
    run.restart_actor(0, kill=True)
    eventually(lambda: run.status.actors[0].alive and run.status.actors[0].restarts == 1)
    frames = run.status.frames
    run.wait(frames=frames + 200, timeout_s=240)
    run.stop()


def test_a_thread_that_cannot_be_killed_is_given_up_and_named(home: Path, monkeypatch) -> None:
    monkeypatch.setattr(threads, "GIVEN_UP_AFTER_S", 0.3)
    LET_GO.clear()
    run = launch(Sticky)
    try:
        STUCK.set()
        assert HANGS.wait(240)
        run.restart_actor(0, kill=True)
        eventually(lambda: not run.status.actors[0].alive)
        log = (run.directory.logs / "actor-0.log").read_text()
        assert "cannot be killed" in log and "LET_GO.wait()" in log
        assert run.status.actors[0].restarts == 0  # not two of one index
    finally:
        STUCK.clear()
        LET_GO.set()
    eventually(lambda: run.status.actors[0].restarts == 1)
    run.wait(frames=run.status.frames + 100, timeout_s=240)
    run.stop()


def test_what_an_environment_raised_can_be_looked_into(home: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="the clue"):
        launch(Failing, name="failing")
    raised = inline.exceptions("failing")["actor-0"]
    cause = raised.__cause__ or raised.__context__ or raised
    frames = [frame for frame, _ in traceback.walk_tb(cause.__traceback__)]
    assert frames[-1].f_locals["clue"] == "the clue"
    with pytest.raises(RunNotAlive, match="no inline run 'other'"):
        inline.exceptions("other")


@pytest.mark.parametrize(("fields", "said"), [({"learners": 2}, "learners=2"), ({"device": "tpu"}, "device='tpu'")])
def test_what_only_processes_can_do_is_refused_before_anything_is_made(home: Path, fields, said: str) -> None:
    with pytest.raises(OutOfBounds, match=said):
        launch(**fields)
    assert not list((home / "runs").glob("*"))


LEAVES = """
import workbench as wb
run = wb.launch("CartPole-v1", launcher="inline", name="left", actors=1, envs_per_actor=4, batch_size=4,
                unroll_length=10, learner_threads=1)
run.wait(updates=5, timeout_s=240)
"""


@pytest.mark.full
def test_a_process_that_ends_stops_its_run_with_a_last_checkpoint(home: Path) -> None:
    subprocess.run([sys.executable, "-c", LEAVES], check=True, timeout=240)
    run = wb.attach("left")
    assert run.status.state == "stopped" and run.status.reason == "stopped by its process"
    assert len(run.checkpoints) == 1


@pytest.mark.full
def test_a_process_that_is_killed_leaves_a_dead_run_that_can_be_resumed(home: Path) -> None:
    killed = LEAVES + "run.checkpoint()\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert subprocess.run([sys.executable, "-c", killed], timeout=240).returncode == -9
    assert wb.attach("left").status.state == "dead"
    run = wb.resume("left", launcher="local")
    assert run.status.frames > 0 and run.config.launcher == "local"
    run.stop()

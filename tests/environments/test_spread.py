"""Environments spread over processes: the same steps as in one, errors with their line, and no process that stays."""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import signal
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import psutil
import pytest

import workbench as wb
from tests.conftest import SMALL, eventually, gone
from tests.environments.test_contract import Pixels
from workbench import environments, rundir
from workbench.environments import make
from workbench.environments.contract import random_actions
from workbench.errors import EnvironmentFailed, OutOfBounds
from workbench.testing import CountingEnv, check_environment

FIELDS = ("observation", "reward", "flags", "final_index", "final_observation")


@pytest.mark.full
@pytest.mark.parametrize(("environment", "happened"), [
    (functools.partial(CountingEnv, ends="alternate", life=1), "truncated"), (Pixels, "frames"),
], ids=["counting", "pixels"])
def test_processes_keep_the_contract(environment, happened):
    def spread(num_envs, seed, show):
        return make("mine", num_envs=num_envs, seed=seed, factory=environment, processes=2, show=show)

    seen = check_environment(spread, steps=40)
    assert seen.episodes > 3 and getattr(seen, happened) > 0


@pytest.mark.parametrize("environment", ["CartPole-v1", Pixels], ids=["by name", "typed"])
def test_processes_change_no_step(environment):
    named = isinstance(environment, str)
    options = {"max_episode_steps": 12} if named else {}
    made = functools.partial(make, environment if named else "mine", num_envs=5, seed=3, options=options,
                             factory=None if named else environment, show="endings")
    with contextlib.closing(made()) as plain, contextlib.closing(made(processes=2)) as spread:
        for name in ("spec", "action_names", "fps", "keeps_endings"):
            assert getattr(spread, name) == getattr(plain, name)
        one, other, random, cut_off = plain.reset(), spread.reset(), np.random.default_rng(0), 0
        for _ in range(40):
            for name in FIELDS:
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
            cut_off += len(one.final_index)
            actions = random_actions(plain.spec, 5, random)
            one, other = plain.step(actions), spread.step(actions)
        assert cut_off > 5


CELL = """
import gymnasium
from workbench.testing import CountingEnv

class Typed(CountingEnv):
    def step(self, action):
        told = super().step(action)
        return told if self._step < 3 else 1 / 0  # here it breaks
"""


def test_an_error_comes_with_its_line_also_of_code_typed_in_a_cell(monkeypatch):
    name, module = "<ipython-input-3-spread>", {"__name__": "__main__"}
    monkeypatch.setitem(linecache.cache, name, (len(CELL), None, CELL.splitlines(keepends=True), name))
    exec(compile(CELL, name, "exec"), module)
    with contextlib.closing(make("mine", num_envs=4, seed=0, factory=module["Typed"], processes=2)) as env:
        env.reset()
        with pytest.raises(EnvironmentFailed, match="index 0.*ZeroDivisionError in step") as caught:
            for _ in range(3):
                env.step(np.zeros(4, int))
    assert "# here it breaks" in str(caught.value) and "spread/worker.py" not in str(caught.value)


class BreaksAlone(CountingEnv):
    """The environment that is made in the process of the last rows breaks."""

    def reset(self, *, seed=None, options=None):
        if seed == 0:
            raise RuntimeError("on purpose")
        return super().reset(seed=seed)


def test_an_environment_keeps_its_number_wherever_it_is_stepped():
    with contextlib.closing(make("mine", num_envs=4, seed=0, factory=BreaksAlone, processes=4)) as env:
        env._workers[3].send(b"\1" + np.zeros(1, np.int64).tobytes())  # a reset by seed 0
        with pytest.raises(EnvironmentFailed, match=r"\(index 3\) raised RuntimeError in reset: on purpose"):
            env._workers[3].answer()


@pytest.mark.parametrize(("name", "factory"), [
    ("ALE/Pong-v5", None), ("mine", lambda num_envs: gymnasium.make_vec("CartPole-v1", num_envs=num_envs)),
])
def test_what_steps_several_at_once_is_refused(name, factory):
    with pytest.raises(OutOfBounds, match="actor_processes is for environments that are stepped one by one"):
        make(name, num_envs=4, seed=0, factory=factory, processes=2)


def test_a_launch_that_could_not_spread_them_starts_nothing(home: Path) -> None:
    environments.check_processes("testing/catch-v0", {})
    with pytest.raises(OutOfBounds, match="actor_processes.*ALE/Pong-v5 steps several at once"):
        wb.launch("ALE/Pong-v5", actor_processes=2)
    assert rundir.every() == []


# --- processes that end ----------------------------------------------------------------------------------------------

HANGS = r"""
import os, sys, threading
import numpy as np
from workbench import environments, rundir
from workbench.environments import make
from workbench.testing import CountingEnv

class Hangs(CountingEnv):
    def step(self, action):
        os.write(1, b"hangs\n")  # whole lines, also where two processes write
        threading.Event().wait()

if __name__ == "__main__":
    env = make("mine", num_envs=2, seed=0, factory=Hangs, processes=2)
    env.reset()
    print(*(one.process.pid for one in env._workers), flush=True)
    env.step(np.zeros(2, int))
"""


def test_a_parent_that_is_killed_leaves_no_process_even_in_the_middle_of_a_step(tmp_path: Path):
    script = tmp_path / "hangs.py"
    script.write_text(HANGS)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            workers = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
            children = psutil.Process(parent.pid).children(recursive=True)
            assert [parent.stdout.readline() for _ in workers] == ["hangs\n"] * 2
        finally:
            parent.send_signal(signal.SIGKILL)
        assert {one.pid for one in workers} <= {one.pid for one in children}
        eventually(lambda: all(map(gone, children)), what=f"{children} have ended")


@pytest.mark.parametrize(("number", "words"), [(signal.SIGKILL, r"signal 9 \(SIGKILL\)"), (40, "signal 40")],
                         ids=["SIGKILL", "a real-time signal, which has no name"])
def test_a_process_that_is_killed_is_told_with_its_rows(number, words):
    with contextlib.closing(make("mine", num_envs=4, seed=0, factory=CountingEnv, processes=2)) as env:
        env.reset()
        os.kill(env._workers[1].process.pid, number)
        with pytest.raises(EnvironmentFailed, match=rf"environments 2 to 3 of 'mine' ended by itself: {words}\. Its"):
            for _ in range(2):
                env.step(np.zeros(4, int))


@pytest.mark.full
def test_a_run_trains_with_them_and_goes_on_when_its_actor_is_killed(home: Path) -> None:
    run = wb.launch(CountingEnv, **{**SMALL, "actors": 1, "actor_processes": 2})
    run.wait(updates=2, timeout_s=300)
    actor = psutil.Process(run.status.actors[0].pid)
    workers = actor.children(recursive=True)
    assert len(workers) >= 4, "two for each of two groups"
    actor.kill()
    eventually(lambda: all(map(gone, workers)), what="its processes end with it")
    run.wait(updates=run.status.updates + 5, timeout_s=300)
    assert run.status.actors[0].restarts == 1
    run.stop(timeout_s=0)

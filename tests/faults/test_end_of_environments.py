"""An environment is closed when its actor ends as asked, and never in the middle of a step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import workbench as wb
from tests.conftest import SMALL, eventually, gone
from tests.rewarding import Rewarding
from workbench.actor import ending
from workbench.errors import EnvironmentFailed, RunFailed, WorkbenchError

FEW = {**SMALL, "actors": 1, "envs_per_actor": 2, "progress": False}


class Simulator(Rewarding):
    """Its step is one at the end, too, of a program in a session of its own, which nothing but `close` ends."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = Path(folder)
        self._program = subprocess.Popen(["sleep", "600"], start_new_session=True)
        self._is_in_step = False
        (self._folder / f"{self._program.pid}.began").touch()

    def step(self, action: int) -> Any:
        self._is_in_step = True
        result = super().step(action)
        self._is_in_step = False
        return result

    def reward(self) -> float:
        return 1.0

    def close(self) -> None:
        self._program.kill()
        self._program.wait()
        (self._folder / f"{self._program.pid}.{'broken' if self._is_in_step else 'closed'}").touch()


class Stumbles(Simulator):
    """One of them fails in a step, and one leaves the interpreter as it is closed."""

    def step(self, action: int) -> Any:
        if self.steps == 60:
            raise ArithmeticError("the sixtieth step")
        return super().step(action)

    def close(self) -> None:
        super().close()
        sys.exit(0)


def test_environments_are_closed_when_one_of_them_fails(home: Path, tmp_path: Path) -> None:
    try:
        with pytest.raises((EnvironmentFailed, RunFailed)):
            wb.launch(Stumbles, environment_options={"folder": str(tmp_path)}, **FEW).wait(timeout_s=240)
        began, closed = ends_in(tmp_path)
        assert began and closed == began
    finally:
        end_all(tmp_path)


class Endless(Simulator):
    length = 0

    def step(self, action: int) -> Any:
        (self._folder / "stepped").touch()
        return super().step(action)


def test_environments_are_closed_when_an_evaluation_is_given_up(home: Path, tmp_path: Path) -> None:
    run = wb.launch(Endless, environment_options={"folder": str(tmp_path)}, **FEW)
    try:
        run.wait(updates=1, timeout_s=240, progress=False)
        run.stop()
        for timeout_s in (8, 30, 120):  # the first one that lasts until all environments are there
            before, _ = ends_in(tmp_path)
            (tmp_path / "stepped").unlink(missing_ok=True)
            with pytest.raises(WorkbenchError, match=f"did not end within {timeout_s} s"):
                wb.evaluate(run, episodes=1, timeout_s=timeout_s)
            if (tmp_path / "stepped").exists():
                break
        began, closed = ends_in(tmp_path)
        closed |= {path.stem for path in tmp_path.glob("*.broken")}  # its signal ends a step, too
        assert began > before and closed >= began - before
    finally:
        run.stop()
        end_all(tmp_path)


class NeverCloses(Rewarding):
    def reward(self) -> float:
        return 1.0

    def close(self) -> None:
        time.sleep(600)


def ends_in(folder: Path) -> tuple[set[str], set[str]]:
    """Programs that began, and those that were closed."""
    began, closed = ({path.stem for path in folder.glob(f"*.{what}")} for what in ("began", "closed"))
    return began, closed


def end_all(folder: Path) -> None:
    """End the programs that were left; none, unless a test fails."""
    began, closed = ends_in(folder)
    for pid in began - closed:
        with suppress(ProcessLookupError):  # closed in the middle of its step
            os.kill(int(pid), signal.SIGKILL)


class Forks(Simulator):
    """It forks a worker in its constructor, too, as multiprocessing does, and ends it by SIGTERM; and a program writes
    its video for a little longer than it takes to close it."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._worker = os.fork()
        if not self._worker:
            time.sleep(600)
            os._exit(0)

    def close(self) -> None:
        os.kill(self._worker, signal.SIGTERM)
        _, status = os.waitpid(self._worker, 0)
        (self._folder / f"{self._program.pid}.worker").write_text(str(os.WTERMSIG(status)))
        subprocess.Popen(["sh", "-c", f"sleep 0.2; touch '{self._folder}/{self._program.pid}.video'"])
        super().close()


def test_environments_are_closed_when_their_actor_their_run_or_a_rollout_ends(home: Path, tmp_path: Path) -> None:
    run = wb.launch(Forks, environment_options={"folder": str(tmp_path)}, **{**FEW, "actors": 2})
    try:
        run.scale(actors=1)
        eventually(lambda: len(ends_in(tmp_path)[1]) >= 2, what="the end of an actor's environments")
        run.wait(updates=1, timeout_s=240, progress=False)
        run.stop()
        wb.rollout(run, max_steps=5)
    finally:
        run.stop()
        began, closed = ends_in(tmp_path)
        end_all(tmp_path)
    assert len(began) >= 5 and closed == began and not list(tmp_path.glob("*.broken"))
    signals = [path.read_text() for path in tmp_path.glob("*.worker")]
    assert signals == ["15"] * len(closed), "a worker ends by the signal itself"
    assert {path.stem for path in tmp_path.glob("*.video")} == closed


def test_an_environment_that_never_closes_is_killed(home: Path) -> None:
    run = wb.launch(NeverCloses, **FEW)
    (actor,) = (psutil.Process(one.pid) for one in run.status.actors if one.pid is not None)
    run.stop()
    assert run.state == "stopped" and gone(actor)


def test_a_step_is_not_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Group:
        def step(self, actions: Any) -> str:
            end._ask()
            end._ask()
            done.append("stepped")
            return "result"

        def close(self) -> None:
            done.append("closed")

    monkeypatch.setattr(ending, "at_sigterm", lambda act: None)
    monkeypatch.setattr(ending.os, "_exit", lambda code: done.append(f"exit {code}"))
    end = ending.Ending()
    (group,) = end.made(lambda: [Group()])  # type: ignore[list-item]
    assert group.step(None) == "result" and done == ["stepped", "closed", "exit 0"]  # type: ignore[arg-type,comparison-overlap]


PRINTS = """
import os, sys
from workbench.policies.player import answer

def play():
    print("an environment")
    os.system("echo its program")
    return {"mean": 1.0}

sys.exit(answer("{}", play))
"""


def test_what_an_environment_prints_is_no_part_of_the_answer() -> None:
    done = subprocess.run([sys.executable, "-c", PRINTS], capture_output=True, text=True, check=True)
    assert done.stdout == '{"mean": 1.0}\n' and "its program" in done.stderr

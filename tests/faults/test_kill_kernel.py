"""The kernel, killed during every call that it may make: the run is as before it or as after, never between.

A call to a run's supervisor is one message, so kernels are killed at any time around it. What a call makes in files is
watched: the kernel is stopped (SIGSTOP) while there is half of it, and killed if there still is.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import workbench as wb
from tests.conftest import CALM, eventually, private_home, processes_of
from tests.faults.kernels import Kernels, kernels
from tests.faults.killing import whole_checkpoints
from workbench import rundir
from workbench.rundir import RunDirectory, lock
from workbench.sweeping import sweep_folder

KilledAround = Callable[[str, Callable[[], bool]], None]
FIELDS = {**CALM, "actors": 1, "warmup_updates": 0}


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    yield from private_home()


@pytest.fixture(scope="module")
def kernel(home: Path) -> Iterator[Kernels]:
    with kernels(home / "kernels.log") as made:
        yield made


@pytest.fixture(scope="module")
def made(home: Path) -> wb.Run:
    return wb.launch("testing/counting-v0", name="steered", **FIELDS)


@pytest.fixture
def run(made: wb.Run) -> wb.Run:
    """The run, alive and training, whatever the test before did to it."""
    if not made.status.alive:
        return wb.resume(made.name)
    if made.state == "paused":
        made.resume()
    return made


@pytest.fixture(scope="module")
def call_s(made: wb.Run, kernel: Kernels) -> float:
    """How long a kernel that is not killed takes for a call."""
    began = time.monotonic()
    wait_for(kernel.start(f"wb.attach({made.name!r}).status"))
    return time.monotonic() - began


@pytest.fixture
def killed_around(kernel: Kernels, run: wb.Run, call_s: float) -> KilledAround:
    """Kill kernels in a call, now before it, now after it; the check must hold soon after each.

    Every other one is killed while the supervisor stands still, so that nobody has answered it yet.
    """
    supervisor = psutil.Process(run.status.supervisor_pid)

    def kill_around(call: str, check: Callable[[], bool]) -> None:
        for held in (False, True):
            if held:
                supervisor.suspend()
            try:
                pid = kernel.start(f"wb.attach({run.name!r}).{call}")
                time.sleep(random.uniform(0.2, 1.5) * call_s)
                kernel.end(pid)
            finally:
                supervisor.resume()
            eventually(check, what=f"the run is between before and after {call}")

    return kill_around


def wait_for(pid: int) -> None:
    """Wait until that kernel has ended, and its threads too, which share its files and locks."""
    eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
               and len(os.listdir(f"/proc/{pid}/task")) == 1)


def events_of(run: wb.Run, kind: str) -> int:
    return int((run.events["kind"] == kind).sum())


# --- calls to a run that lives ----------------------------------------------------------------------------------------


def test_tune_and_undo(run: wb.Run, killed_around: KilledAround) -> None:
    old = run.config.value("learning_rate")
    before = events_of(run, "tune")

    def agree() -> bool:
        """What run.json, the learner and the events say."""
        rate, tuned = run.config.value("learning_rate"), events_of(run, "tune") > before
        return tuned == (rate != old) and rate == run.metrics("learning_rate")["value"].iloc[-1]

    killed_around("tune(learning_rate=2e-3)", agree)
    run.tune(learning_rate=3e-3)
    changes = events_of(run, "tune")

    def taken_back() -> bool:
        undone, rate = events_of(run, "tune") - changes, run.config.value("learning_rate")
        return rate == run.metrics("learning_rate")["value"].iloc[-1] and (undone > 0) == (rate != 3e-3)

    killed_around("undo('learning_rate')", taken_back)


@pytest.mark.full
def test_pause_and_resume(run: wb.Run, killed_around: KilledAround) -> None:
    def agree() -> bool:
        told, paused = run.status, run.directory.read()["paused"]
        return told.state == ("training" if paused is None else "paused")

    killed_around("pause()", agree)
    killed_around("resume()", agree)
    run.resume()
    run.wait(updates=run.status.updates + 5, timeout_s=240)


@pytest.mark.full
def test_scale(run: wb.Run, killed_around: KilledAround) -> None:
    def agree() -> bool:
        told = run.status.actors
        return len(told) == run.config.actors and all(one.pid is not None and one.steps > 0 for one in told)

    killed_around("scale(actors=2)", agree)
    killed_around("scale(actors=1)", agree)


@pytest.mark.full
def test_checkpoint(run: wb.Run, killed_around: KilledAround) -> None:
    before = run.status.updates

    def all_are_whole() -> bool:
        return len(whole_checkpoints(run)) == events_of(run, "checkpoint")

    killed_around("checkpoint()", all_are_whole)
    run.wait(updates=before + 5, timeout_s=240)


@pytest.mark.full
def test_evaluate_and_rollout_leave_no_process_and_nothing_half(run: wb.Run, kernel: Kernels) -> None:
    made = run.checkpoint()
    for entry in ("evaluate", "rollout"):
        pid = kernel.start(f"wb.{entry}({str(made.path)!r})")
        player = eventually(lambda entry=entry: players(run, entry))[0]
        kernel.end(pid)
        eventually(lambda player=player: not player.is_running(), what=f"{entry} plays on")
    assert run.rollouts == []
    wb.rollout(made, max_steps=20)
    assert len(run.rollouts) == 1
    assert len(os.listdir(run.directory.rollouts)) == 1, "what the killed one left is still there"


def players(run: wb.Run, entry: str) -> list[psutil.Process]:
    """Processes that play with a checkpoint of the run."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        if f"_{entry}" in command and str(run.path) in command[-1] and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


@pytest.mark.full
def test_stop(run: wb.Run, kernel: Kernels) -> None:
    pid = kernel.start("wb.attach('steered').stop()")
    time.sleep(0.05)
    kernel.end(pid)
    time.sleep(0.5)
    if run.status.state == "training":  # it never came to the call, or it will be heard during the next test
        run.stop()
    eventually(lambda: run.status.state == "stopped")
    eventually(lambda: not processes_of(run.path))
    assert run.checkpoints[-1].frames == run.status.frames


# --- calls that make or move a directory ------------------------------------------------------------------------------


HALF_MADE = """
import os, signal
from workbench import rundir
rundir.making._renamed = lambda *_: os.kill(os.getpid(), signal.SIGSTOP)  # all is written, and has no name yet
"""

MAKING = {
    "launch": ("runs", f"wb.launch('testing/counting-v0', name='new', **{FIELDS!r})"),
    "fork": ("runs", "wb.attach('steered').fork(name='new')"),
    "sweep": ("sweeps", f"wb.sweep('testing/counting-v0', name='new', space={{'learning_rate': (1e-4, 1e-2)}}, "
                        f"trials=1, parallel=1, total_frames=2000, **{FIELDS!r})"),
}


@pytest.mark.full
@pytest.mark.parametrize("call", MAKING)
def test_what_is_half_made_leaves_no_name_taken(home: Path, run: wb.Run, kernel: Kernels, call: str) -> None:
    if call == "sweep":
        pytest.importorskip("optuna")
    folder, code = MAKING[call]
    checked = whole_checkpoints(run)
    pid = kernel.start(HALF_MADE + code)
    eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    assert any(one.startswith(".") for one in os.listdir(home / folder))
    kernel.end(pid)
    wait_for(pid)
    assert not (home / folder / "new").exists(), f"{call} left a name that is taken by nothing"
    assert "new" not in [one.name for one in (*rundir.every(), *sweep_folder.listed()[0])]
    with rundir.made_at_once(home / folder / "next", "run") as hidden:  # as the next call that makes one
        assert os.listdir(home / folder).count(hidden.name) == 1
    assert {one for one in os.listdir(home / folder) if one.startswith(".")} == set(), "what was half made stays"
    (home / folder / "next").rmdir()
    assert len(whole_checkpoints(run)) >= len(checked)


@pytest.mark.full
@pytest.mark.parametrize("starts", [False, True])
def test_a_run_that_was_made_goes_on_or_is_one_resume_away(home: Path, kernel: Kernels, starts: bool) -> None:
    name = "begun" if starts else "made"
    directory = RunDirectory(home / "runs" / name)
    pid = kernel.start(f"wb.launch('testing/counting-v0', name={name!r}, **{FIELDS!r})")
    if starts:
        eventually(lambda: processes_of(directory.path))
    else:
        eventually(directory.record.exists)
    kernel.end(pid)
    shown: list[str] = []

    def has_settled() -> bool:
        """Whether it has a supervisor, or is shown to have none."""
        now = wb.attach(name).status
        shown.append(now.state)
        return now.state == "dead" or now.supervisor_pid is not None

    eventually(has_settled)
    assert not starts or "dead" not in shown, "it was started, and is shown as dead meanwhile"
    again = wb.resume(name)  # leaves one that lives as it is
    assert again.wait(updates=5, timeout_s=240).state == "training"
    again.stop()


@pytest.mark.full
def test_delete(home: Path, kernel: Kernels) -> None:
    for number in range(10):
        name = f"old-{number}"
        rundir.create(name, {"created": 1.0, "config": {}, "state": "stopped", "supervisor_pid": None, "error": None})
        pid = kernel.start(f"wb.attach({name!r}).delete()")
        time.sleep(number * 0.004)
        kernel.end(pid)
        wait_for(pid)
        here = home / "runs" / name
        there = list(rundir.trash().glob(f"{name}-*"))
        (whole,) = [*there, *([here] if here.exists() else [])]
        assert RunDirectory(whole).read()["state"] == "stopped" and len(RunDirectory(whole).token()) == 64
        assert not lock.is_held(lock.of_start(RunDirectory(whole)))

"""Several kernels steer one run, or start one, at the same time: each change is made whole, and the run agrees."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import eventually, processes_of
from tests.faults.harm import COUNTING, complete, messages

KERNELS = 3
ROUNDS = 15

STEER = f"""
import sys, workbench as wb
run, number = wb.attach("shared"), int(sys.argv[1])
print("ready", flush=True); sys.stdin.readline()
for step in range({ROUNDS}):
    run.tune(entropy_cost=(1 + number * {ROUNDS} + step) / 1000)
    if step % 5 == number:
        run.pause(); run.resume()
    if step == 7:
        run.checkpoint()
    if step == 10:
        run.scale(actors=1 + number % 2)
"""

LAUNCH = f"""
import sys, workbench as wb
from workbench.errors import RunExists
print("ready", flush=True); sys.stdin.readline()
try:
    wb.launch("testing/counting-v0", name="wanted", **{COUNTING!r})
    print("launched")
except RunExists as error:
    print(f"refused: {{error}}")
"""

RESUME = """
import sys, workbench as wb
from workbench.errors import RunExists
print("ready", flush=True); sys.stdin.readline()
try:
    print("resumed", wb.resume("shared").status.supervisor_pid)
except RunExists as error:
    print(f"refused: {error}")
"""


STOP = """
import sys, workbench as wb
run = wb.attach("shared")
print("ready", flush=True); sys.stdin.readline()
print(run.stop().state)
"""


@pytest.fixture(scope="module")
def run(module_home: Path) -> wb.Run:
    return wb.launch("testing/counting-v0", name="shared", **COUNTING)


def at_once(code: str, kernels: int = KERNELS) -> list[str]:
    """What so many kernels print that run `code` and go past its "ready" together."""
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
        for number in range(kernels)
    ]
    try:
        return list(_told(started))
    finally:
        for kernel in started:
            kernel.kill()
            kernel.wait()


def _told(kernels: list[subprocess.Popen[str]]) -> Iterator[str]:
    for kernel in kernels:
        assert kernel.stdout is not None and kernel.stdout.readline() == "ready\n"
    for kernel in kernels:
        assert kernel.stdin is not None
        kernel.stdin.write("go\n")
        kernel.stdin.flush()
    for kernel in kernels:
        out, wrong = kernel.communicate(timeout=240)
        assert kernel.returncode == 0, wrong
        yield out.strip()


@pytest.mark.full
def test_changes_of_several_kernels_follow_each_other(run: wb.Run) -> None:
    complete(run)
    first = run.config.value("entropy_cost")
    at_once(STEER)
    events = run.events
    tunes = [one for one in events[events["kind"] == "tune"]["data"]]
    assert len(tunes) == KERNELS * ROUNDS
    chain = [first, *(one["new"]["entropy_cost"] for one in tunes)]
    assert [one["old"]["entropy_cost"] for one in tunes] == chain[:-1], "each change begins where the one before ended"
    assert run.config.value("entropy_cost") == chain[-1] == run.hyperparameters["entropy_cost"].value
    scales = [one for one in events[events["kind"] == "scale"]["data"]]
    assert [one["old"]["actors"] for one in scales] == [2, *(one["new"]["actors"] for one in scales)][:-1]
    status = run.wait(updates=run.status.updates + 5, timeout_s=240)
    assert len(status.actors) == scales[-1]["new"]["actors"] == run.config.actors
    asked = [one for one in messages(run, "checkpoint") if "requested" in one]
    assert 1 <= len(asked) <= KERNELS, "two requests at one update are one checkpoint"
    run.undo("entropy_cost")
    assert run.config.value("entropy_cost") == chain[-2]


def test_of_two_launches_with_one_name_one_is_refused(module_home: Path) -> None:
    told = at_once(LAUNCH, 2)
    assert sorted(one.split(":")[0] for one in told) == ["launched", "refused"]
    assert "there is a run 'wanted' already" in " ".join(told)
    wanted = wb.attach("wanted")
    assert wanted.wait(updates=5, timeout_s=240).state == "training"
    assert messages(wanted, "launch") == ["launched with 2 actors"]
    wanted.stop()


@pytest.mark.full
def test_a_run_that_several_kernels_resume_lives_once(run: wb.Run) -> None:
    run.stop()
    lives = len(messages(run, "resume"))
    told = [lines.splitlines()[-1] for lines in at_once(RESUME)]  # one may say before that the run starts already
    status = run.wait(updates=run.status.updates + 5, timeout_s=240)
    for one in told:
        assert one == f"resumed {status.supervisor_pid}" or "is being started by another process" in one
    assert any(one.startswith("resumed") for one in told)
    assert len(messages(run, "resume")) - lives == 1


@pytest.mark.full
def test_a_run_that_several_kernels_stop_is_stopped_once(run: wb.Run) -> None:
    if not run.status.alive:
        wb.resume(run.name)
    complete(run)
    stops = len(messages(run, "stop"))
    assert at_once(STOP) == ["stopped"] * KERNELS
    eventually(lambda: not processes_of(run.path))
    assert len(messages(run, "stop")) - stops == 1

"""A child that leads a group, and programs that it starts: none of them outlives it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.conftest import eventually, gone
from workbench.wire import child_group

STARTS = """
import subprocess, sys, time
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
time.sleep(float(sys.argv[1]))
sys.exit(7)
"""


def begun(for_s: float) -> tuple[subprocess.Popen[bytes], psutil.Process]:
    """A child that lives for as long, and what it has started."""
    child = subprocess.Popen([sys.executable, "-c", STARTS, str(for_s)], stdout=subprocess.PIPE, process_group=0)
    assert child.stdout is not None
    with child.stdout as out:
        return child, psutil.Process(int(out.readline()))


def ends(started: psutil.Process) -> None:
    eventually(lambda: gone(started), what="the end of what the child started")


def test_what_a_child_started_ends_when_it_has_ended() -> None:
    child, started = begun(0.0)
    assert child_group.code_of(child) == 7
    ends(started)


def test_what_a_child_left_gets_time_to_finish_unless_the_child_failed(tmp_path: Path) -> None:
    leaves = "import subprocess, sys; subprocess.Popen(['sh', '-c', sys.argv[1]])"
    for seconds, finishes in ((0.5, True), (600, False)):
        made = tmp_path / f"after {seconds}"
        with subprocess.Popen([sys.executable, "-c", leaves, f"sleep {seconds}; touch '{made}'"],
                              process_group=0) as child:
            assert child_group.code_of(child, grace_s=240.0 if finishes else 0.5) == 0
        assert made.exists() is finishes
    child, started = begun(0.0)
    assert child_group.code_of(child, grace_s=600.0) == 7
    ends(started)


def test_a_child_without_an_end_is_killed_in_time_with_what_it_started() -> None:
    child, started = begun(600.0)
    with pytest.raises(subprocess.TimeoutExpired):
        child_group.code_of(child, timeout_s=0.1)
    assert child.returncode == -9
    ends(started)


def test_an_interrupt_of_the_waiting_one_ends_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    child, started = begun(600.0)
    monkeypatch.setattr(child_group.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        child_group.code_of(child)
    monkeypatch.undo()
    assert child.returncode == -9
    ends(started)


def test_a_child_that_the_users_code_has_reaped_has_ended() -> None:
    child, started = begun(0.0)
    os.waitpid(child.pid, 0)
    assert child_group.code_of(child) == 0  # as subprocess has it where the code is lost
    ends(started)

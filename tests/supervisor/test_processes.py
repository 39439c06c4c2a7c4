"""A child process: its log, its end, its back-off, and what it started itself. The child is the real command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import eventually
from workbench.supervisor.hosts import host, life
from workbench.supervisor.hosts.life import BackOff, ProcessEnding
from workbench.supervisor.hosts.local import Child
from workbench.supervisor.process_group import wait_for_all


@pytest.fixture
def lock_file(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def child(tmp_path: Path, lock_file: int) -> Iterator[Child]:
    """An actor of a run that is not there: it ends with an error of its own."""
    made = Child("actor-0", ["_actor", str(tmp_path / "no-run"), "0"], logs=tmp_path,
                 environment=os.environ, keep_open=lock_file)  # fmt: skip
    yield made
    made.kill()
    wait_for_all([made])


def test_an_ending_is_told_once_and_counted(child: Child) -> None:
    child.start()
    assert child.alive
    ending: ProcessEnding = eventually(child.poll)
    assert ending.code != 0
    assert ending.first
    assert ending.recent == 1
    assert child.poll() is None
    assert not child.alive
    assert "no-run" in child.log_tail()


def test_a_child_that_ended_starts_again_after_its_back_off(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "_FIRST_DELAY_S", 1.0)
    child.start()
    eventually(child.poll)
    assert not child.start_if_due()
    assert eventually(child.start_if_due)
    assert child.restarts == 1
    assert eventually(child.poll).first is False


@pytest.mark.parametrize(("number", "words"), [
    (signal.SIGKILL, "signal 9 (SIGKILL)"), (40, "signal 40"),
], ids=["SIGKILL", "a real-time signal, which has no name"])
def test_a_child_that_was_killed_says_by_which_signal(child: Child, number: int, words: str) -> None:
    child.log.write_text("of a life before\n")
    child.start()
    assert child.pid is not None
    os.kill(child.pid, number)
    assert str(eventually(child.poll)) == words and not child.log_tail()


def test_a_child_that_was_asked_to_end_has_not_failed(child: Child) -> None:
    child.start()
    child.end(grace_s=5.0)
    assert eventually(child.poll).recent == 0


def test_a_child_whose_end_somebody_wants_has_not_failed_and_starts_again_at_once(child: Child) -> None:
    child.start()
    child.expect_end(grace_s=0.0)
    assert eventually(child.poll).recent == 0
    assert child.start_if_due()


def test_the_error_that_a_child_left_is_told_even_if_it_hangs(child: Child, tmp_path: Path) -> None:
    child.start()
    (tmp_path / "actor-0.error.json").write_text('{"type": "EnvironmentFailed", "message": "boom\\nTraceback"}')
    ending = eventually(child.poll)
    assert ending.error == {"type": "EnvironmentFailed", "message": "boom\nTraceback"}
    assert str(ending) == "EnvironmentFailed: boom"


def test_back_off_doubles_to_ten_seconds() -> None:
    back_off = BackOff()
    waits = []
    for _ in range(10):
        back_off.failed()
        waits.append(back_off.waiting_s())
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10], abs=0.05)


_FILLS = """
block = bytearray(b"x") * 2**26
print(*(line.split()[1] for line in open("/proc/self/smaps_rollup") if line.startswith("AnonHugePages")))
"""


def test_the_memory_of_a_runs_processes_has_large_pages_unless_the_user_says_otherwise(monkeypatch):
    pages = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if host._OLD or not pages.is_file() or "[never]" in pages.read_text():
        pytest.skip("neither this C library nor this Linux gives large pages on request")

    def large_kb() -> int:
        environment = {**os.environ, **host.variables(1)}
        return int(subprocess.run([sys.executable, "-c", _FILLS], env=environment, text=True, check=True,
                                  stdout=subprocess.PIPE).stdout)

    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert large_kb() > 2**15
    if "[madvise]" in pages.read_text():  # not those that everybody gets
        monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0")
        assert large_kb() < 2**13

"""A run's lock says whether somebody supervises it, however that somebody ends."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import workbench as wb
from tests.conftest import SMALL, eventually, gone, open_files, write_files
from workbench import rundir
from workbench.config import RunConfig
from workbench.errors import RunNotFound, StorageFailed
from workbench.rundir import RunDirectory, lock
from workbench.running import deletion
from workbench.supervisor import main as supervisor_main
from workbench.wire import child_group

HOLD = """
import sys, time
from pathlib import Path
from workbench.rundir import lock
assert lock.hold(Path(sys.argv[1]), wait_s=0) is not None
print("held", flush=True)
time.sleep(600)
"""


def test_a_lock_is_held_by_one_and_freed_by_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not lock.is_held(path)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            assert lock.is_held(path)
            assert lock.hold(path, wait_s=0.1) is None
        finally:
            holder.kill()
    assert not lock.is_held(path)


def test_a_child_that_inherits_the_lock_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    descriptor = lock.hold(path, wait_s=0)
    assert descriptor is not None
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(descriptor,)
    ) as child:
        try:
            os.close(descriptor)
            assert lock.is_held(path)
        finally:
            child.kill()
    eventually(lambda: not lock.is_held(path))


def test_a_lock_of_a_run_that_is_gone_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match="gone is gone: the run was deleted"):
        lock.hold(tmp_path / "gone/lock", wait_s=0)
    assert not lock.is_held(tmp_path / "gone/lock")


def test_looking_at_a_lock_does_not_take_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    assert not lock.is_held(path)
    with lock.held(path, wait_s=0) as got:
        assert got
        with lock.held(path, wait_s=0) as second:
            assert not second


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(descriptor: int, kind: int) -> None:
        raise OSError(number, os.strerror(number))

    path = tmp_path / "lock"
    path.touch()
    monkeypatch.setattr(fcntl, "flock", flock)
    before = open_files()
    for question in (lambda: lock.hold(path, wait_s=0), lambda: lock.is_held(path)):
        with pytest.raises(StorageFailed, match=r"has no locks now.*Set WORKBENCH_HOME"):
            question()
    assert not open_files() - before


def test_a_home_without_locks_is_refused_before_anything_is_made(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, kind: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(StorageFailed, match=r"has no locks now .*keep a copy of the run there by storage="):
        wb.launch("CartPole-v1", **SMALL)
    assert list((home / "runs").iterdir()) == []


def test_a_supervisor_waits_for_as_long_as_storage_keeps_the_lock_of_a_lost_machine(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The lost machine is a process that holds the lock, and is none of the run's here."""
    run = rundir.create("lost", {"config": RunConfig.build("CartPole-v1").to_json(), "state": "training"})
    waited: list[float] = []
    hold = lock.hold

    def held_by_the_lost(path: Path, *, wait_s: float) -> int | None:
        """As `hold`, in less time; the storage frees the lock during the longest wait."""
        waited.append(wait_s)
        if wait_s == lock.LEASE_S:
            holder.kill()
        return hold(path, wait_s=wait_s if wait_s == lock.LEASE_S else 0.1)

    monkeypatch.setattr(lock, "hold", held_by_the_lost)
    command = [sys.executable, "-c", HOLD, str(lock.of_supervisor(run))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None and holder.stdout.readline() == "held\n"
            descriptor = supervisor_main._lock(run)
        finally:
            holder.kill()
    assert descriptor is not None and lock.LEASE_S > 90 and waited[-1] == lock.LEASE_S
    os.close(descriptor)
    assert "storage keeps the lock of a machine that is lost" in capfd.readouterr().err


def test_an_orphan_that_ends_before_it_is_killed_keeps_no_supervisor_from_starting(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = rundir.create("orphaned", {"config": RunConfig.build("CartPole-v1").to_json(), "state": "training"})
    killed: list[int] = []

    class Orphan:
        pid = 2**22  # no process has it

        def is_running(self) -> bool:
            return True

        def kill(self) -> None:
            os.close(held)
            killed.append(77)
            raise psutil.NoSuchProcess(77)

    monkeypatch.setattr(lock, "ORPHANS_LIVE_S", 0.1)
    monkeypatch.setattr(lock, "processes", lambda run, *entries: [Orphan()] if "_actor" in entries else [])
    held = lock.hold(lock.of_supervisor(run), wait_s=0)
    assert held is not None
    descriptor = supervisor_main._lock(run)
    assert descriptor is not None and killed == [77]
    os.close(descriptor)


# In place of the workbench: an actor that hangs, so that the end of its supervisor's pipe does not end it.
HANGS = """
import subprocess, time
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
time.sleep(600)
"""


def test_what_an_orphan_started_is_killed_with_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = rundir.create("hangs", {"config": RunConfig.build("CartPole-v1").to_json(), "state": "training"})
    monkeypatch.setattr(lock, "ORPHANS_LIVE_S", 0.1)
    held = lock.hold(lock.of_supervisor(run), wait_s=0)
    assert held is not None
    write_files(tmp_path, {"workbench/__init__.py": "", "workbench/__main__.py": HANGS})
    command = [sys.executable, "-P", "-m", "workbench", "_actor", str(run.path), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[held], process_group=0,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)}) as actor:
        os.close(held)
        try:
            assert actor.stdout is not None
            started = psutil.Process(int(actor.stdout.readline()))
            descriptor = supervisor_main._lock(run)
            assert descriptor is not None
            os.close(descriptor)
            eventually(lambda: gone(started), what="the end of what the actor started")
        finally:
            child_group.kill(actor.pid)


SUPERVISOR = """
import subprocess, sys
from pathlib import Path
from workbench.rundir import RunDirectory
from workbench.supervisor.hosts.host import ThisMachine
variables = ThisMachine(RunDirectory(Path(sys.argv[1])), keep_open=0).actor(0)._environment
subprocess.run([sys.executable, "-c", sys.argv[2]], process_group=0, env=variables)
"""
# An actor that starts a program, and a terminal, in which a job ends that leaves one in the background.
LEAVES = """
import subprocess, sys
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
job = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
terminal = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {job!r}], process_group=0)"
subprocess.run([sys.executable, "-c", terminal], start_new_session=True)
"""


def goes_on(run: RunDirectory) -> None:
    descriptor = supervisor_main._lock(run)
    assert descriptor is not None
    os.close(descriptor)


@pytest.mark.parametrize("next_step", [goes_on, deletion.delete])
def test_what_an_actor_started_that_was_killed_with_its_supervisor_ends_when_the_run_goes_on_or_is_deleted(
    home: Path, next_step: Callable[[RunDirectory], object]
) -> None:
    run, other = (rundir.create(name, {"config": RunConfig.build("CartPole-v1").to_json(), "state": "training"})
                  for name in ("left", "other"))
    left: list[psutil.Process] = []
    for one in (run, other):
        with subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(one.path), LEAVES], stdout=subprocess.PIPE,
                              start_new_session=True) as supervisor:
            assert supervisor.stdout is not None
            left += [psutil.Process(int(supervisor.stdout.readline())) for _ in range(2)]
            supervisor.stdout.close()
    try:
        next_step(run)
        eventually(lambda: gone(left[0]), what="the end of what the actor started")
        assert not any(map(gone, left[1:])), "what is in a terminal, and what is of another run"
    finally:
        for process in left:
            with suppress(psutil.Error):
                process.kill()

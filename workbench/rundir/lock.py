"""Locks on files of a run directory; the kernel releases a lock however its holder ends.

A run has one supervisor because the supervisor holds `lock`. Its children inherit the open file, so the lock stays
held until the last process of the run's former life has ended. A process that starts a supervisor holds `start.lock`;
the supervisor also holds it, until it has `lock`.
No pid is trusted: pids are reused, and a zombie looks alive.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from workbench.errors import RunExists, StorageFailed
from workbench.rundir import RunDirectory, gone
from workbench.rundir.files import locked

LOOK_S = 0.3  # a check whether a run or a sweep is alive holds its lock for an instant
ORPHANS_LIVE_S = 10.0  # children of a dead supervisor, which hold its lock, end themselves within this time
LAST_MOMENTS_S = 30.0  # a supervisor whose run was deleted ends it within this time
LEASE_S = 120.0  # NFSv4 keeps the locks of a lost machine for a lease: 90 s on Linux (Documentation/filesystems/nfs)
_OF_RUN, _OF_SESSION = "WORKBENCH_RUN", "WORKBENCH_SESSION"  # variables of what a run started: see `marks`

_RETRY_S = 0.05
_descriptors: dict[Path, int] = {}  # of locks held in `with` blocks of this process


def of_supervisor(run: RunDirectory) -> Path:
    """The file that a run's supervisor and its children hold locked."""
    return run.path / "lock"


def of_start(run: RunDirectory) -> Path:
    """The file that a process holds locked while it starts a run's supervisor."""
    return run.path / "start.lock"


def of_follower(copy: RunDirectory) -> Path:
    """The file that the process which keeps a copy of a run elsewhere up to date holds locked."""
    return copy.path / "following.lock"


def of_lost_machine(path: Path) -> str:
    """That a lock is waited for which a lost machine may have held."""
    return (f"{path} is locked, and by no process of this machine. Waiting for up to {LEASE_S:g} s: shared storage "
            "keeps the lock of a machine that is lost for some time.")


def is_followed(run: RunDirectory) -> bool:
    """Whether this is a run of this machine, or the copy of one elsewhere that is kept up to date now."""
    return not run.is_copy or is_held(of_follower(run))


def hold(path: Path, *, wait_s: float) -> int | None:
    """The descriptor of the locked file, or None if another process held it for all of `wait_s` seconds.

    Raises RunNotFound if the file's folder is gone, StorageFailed if it cannot be opened, or has no locks.
    """
    try:
        descriptor = _open(path, os.O_RDWR | os.O_CREAT)
    except FileNotFoundError:
        raise gone(path.parent) from None
    deadline = time.monotonic() + wait_s
    while True:
        try:
            if locked(descriptor, path, fcntl.LOCK_EX | fcntl.LOCK_NB):
                return descriptor
        except StorageFailed:
            os.close(descriptor)
            raise
        if time.monotonic() > deadline:
            os.close(descriptor)
            return None
        time.sleep(_RETRY_S)


@contextmanager
def held(path: Path, *, wait_s: float) -> Iterator[bool]:
    """Hold the lock in a `with` block; yields whether it was acquired. Raises what `hold` raises."""
    descriptor = hold(path, wait_s=wait_s)
    if descriptor is None:
        yield False
        return
    _descriptors[path] = descriptor
    try:
        yield True
    finally:
        del _descriptors[path]
        os.close(descriptor)


def to_hand_on(path: Path) -> list[int]:
    """The descriptor of a lock that this process holds in a `with` block, for a child to hold it, too; else []."""
    return [_descriptors[path]] if path in _descriptors else []


def is_held(path: Path) -> bool:
    """Whether a process holds the lock; uses no network and creates no file. Raises StorageFailed."""
    try:
        descriptor = _open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not locked(descriptor, path, fcntl.LOCK_SH | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


def _open(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        if path.is_symlink():
            raise StorageFailed(f"{path} is a link to {os.readlink(path)}. Delete it; it is made anew.") from None
        raise StorageFailed(f"cannot open {path}: {error.strerror}. Make it and its folder writable.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StorageFailed(f"{path} is no plain file. Move it away; it is made anew.")
    return descriptor


def processes(run: RunDirectory, *entries: str) -> list[psutil.Process]:
    """Other processes of this user, here, that were started as one of `entries` of this run, such as _supervisor."""
    path = os.path.realpath(run.path)  # a home may be called by another path there, through a link
    return [process for process, entry, directory in _started()
            if entry in entries and os.path.realpath(directory) == path and process.pid != os.getpid()]


def marks(run: str) -> dict[str, str]:
    """Variables of learners and actors that this process starts, which what they start inherits: the run's directory,
    and the session of all of them."""
    return {_OF_RUN: run, _OF_SESSION: str(os.getsid(0))}


def end_left_behind(run: RunDirectory) -> None:
    """Kill programs of this user, here, that learners and actors of this run started, and that outlived them.

    Those in a session of their own stay: daemons, and what runs in a terminal that the run opened.
    """
    path = os.path.realpath(run.path)
    for process in psutil.process_iter(["environ", "uids"]):
        variables, uids = process.info["environ"] or {}, process.info["uids"]
        directory, session = variables.get(_OF_RUN, ""), variables.get(_OF_SESSION, "")
        is_its = bool(directory) and os.path.realpath(directory) == path and uids and uids.real == os.getuid()
        with suppress(ProcessLookupError, psutil.Error):  # it has ended
            if is_its and session == str(os.getsid(process.pid)) and _has_ended(int(session)):
                process.kill()


def _has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def directory_of(process: psutil.Process) -> str:
    """The directory with which one of `processes` was started, as it was called there."""
    return str(process.info["cmdline"][5])


def moved_from(run: RunDirectory) -> Path | None:
    """From where the folder was moved of a run that lives: its supervisor has this lock open still."""
    mine = of_supervisor(run).resolve()
    for process, entry, directory in _started():
        if entry == "_supervisor":
            then = Path(directory)
            with suppress(psutil.Error):  # it has ended
                holds_it = any(file.path == str(mine) for file in process.open_files())
                if holds_it and (then / mine.name).resolve() != mine:
                    return then
    return None


def _started() -> Iterator[tuple[psutil.Process, str, str]]:
    """Processes of this user, here, that were started as `python -P -m workbench ENTRY DIRECTORY`, with these two."""
    for process in psutil.process_iter(["cmdline", "uids"]):
        command, uids = process.info["cmdline"] or [], process.info["uids"]
        if uids and uids.real == os.getuid() and command[1:4] == ["-P", "-m", "workbench"]:
            entry, directory = (command[4:6] + ["", ""])[:2]
            yield process, entry, directory


def check_left(new: RunDirectory) -> None:
    """Raises RunExists where an earlier run of that path lives on without its folder: it would write into this one."""
    until = time.monotonic() + LAST_MOMENTS_S
    while not new.path.exists() and (left := processes(new, "_supervisor")):
        if time.monotonic() > until:
            raise RunExists(f"the folder of a run {new.path.name!r} was moved or deleted while it lives, and its "
                            f"processes still write to {new.path}. Move the folder back, end process {left[0].pid}, "
                            "which ends the others, or choose another name.")
        time.sleep(_RETRY_S)


def is_alive(run: RunDirectory) -> bool:
    """Whether a run has a supervisor, or one is being started; reads only files."""
    return is_held(of_supervisor(run)) or is_held(of_start(run))

"""Locks on files of a run directory, which the kernel drops however their holder ends.

A run has one supervisor because the supervisor holds `lock`. Its children inherit the open file, so the lock stays
held until the last process of the run's former life is gone. `start.lock` is held by whoever starts a supervisor, and
then by the supervisor too until it has its own.
No pid is ever trusted: pids are reused, and a zombie looks alive.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.errors import StorageFailed
from workbench.rundir import RunDirectory, gone

LOOK_S = 0.3  # whoever looks whether a run or a sweep lives holds its lock for an instant
ORPHANS_LIVE_S = 10.0  # children of a dead supervisor, which hold its lock, end themselves within this time

_RETRY_S = 0.05
_held: dict[Path, int] = {}  # in `with` blocks of this process


def of_supervisor(run: RunDirectory) -> Path:
    """The file that a run's supervisor and its children hold locked."""
    return run.path / "lock"


def of_start(run: RunDirectory) -> Path:
    """The file that whoever starts a run's supervisor holds locked."""
    return run.path / "start.lock"


def hold(path: Path, *, wait_s: float) -> int | None:
    """The descriptor of the locked file, or None if somebody else held it for all of `wait_s` seconds.

    Raises RunNotFound if the file's folder is gone, StorageFailed if it cannot be opened.
    """
    try:
        descriptor = _opened(path, os.O_RDWR | os.O_CREAT)
    except FileNotFoundError:
        raise gone(path.parent) from None
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                return None
            time.sleep(_RETRY_S)


@contextmanager
def held(path: Path, *, wait_s: float) -> Iterator[bool]:
    """Hold the lock in a `with` block; yields whether it was got. Raises what `hold` raises."""
    descriptor = hold(path, wait_s=wait_s)
    if descriptor is None:
        yield False
        return
    _held[path] = descriptor
    try:
        yield True
    finally:
        del _held[path]
        os.close(descriptor)


def to_hand_on(path: Path) -> list[int]:
    """The descriptor of a lock that this process holds in a `with` block, for a child to hold it too; else none."""
    return [_held[path]] if path in _held else []


def is_in_place(path: Path) -> bool:
    """Whether the lock that this process holds in a `with` block is still the file at its path."""
    try:
        return os.path.samestat(os.fstat(_held[path]), os.stat(path))
    except FileNotFoundError:
        return False


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock; touches no network and leaves nothing behind. Raises StorageFailed."""
    try:
        descriptor = _opened(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def _opened(path: Path, flags: int) -> int:
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


def is_alive(run: RunDirectory) -> bool:
    """Whether a run has a supervisor, or is being given one; reads only files."""
    return is_held(of_supervisor(run)) or is_held(of_start(run))

"""Makes a folder, such as a run's, all at once or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.errors import HomeNotWritable, WorkbenchError
from workbench.rundir.files import locked, make_private

_MAKING = ".making"


@contextmanager
def made_at_once(path: Path, kind: str) -> Iterator[Path]:
    """A hidden folder to fill, which becomes `path` when the block ends, and is removed if the block raises.

    A process killed meanwhile leaves no `path`; the next call removes its hidden folder. Raises FileExistsError if
    there is a `path`, HomeNotWritable for another OSError, also one of the block; `kind` is what it is: "run", "sweep".
    """
    try:
        make_private(path.parent)
        with hidden_beside(path) as hidden:
            if path.exists():  # before any work
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            yield hidden
            _renamed(hidden, path)
    except (FileExistsError, WorkbenchError):
        raise
    except OSError as error:
        raise HomeNotWritable(f"cannot create the {kind} {path.name!r} in {path.parent}: {error.strerror}. Set "
                              "WORKBENCH_HOME to a folder that can be written and has room.") from None


@contextmanager
def hidden_beside(path: Path) -> Iterator[Path]:
    """A new hidden folder beside `path`, removed after the block unless it was renamed.

    If its process is killed, the next call removes it. Raises StorageFailed where the file system has no locks, and
    OSError.
    """
    with _making(path.parent):
        hidden = path.with_name(f"{_MAKING}-{secrets.token_hex(8)}")
        hidden.mkdir(mode=0o700)
        try:
            yield hidden
        finally:
            shutil.rmtree(hidden, ignore_errors=True)


def _renamed(hidden: Path, path: Path) -> None:
    try:
        os.rename(hidden, path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # another process was faster
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        raise


@contextmanager
def _making(folder: Path) -> Iterator[None]:
    """A lock shared by all that make something in `folder`; one that is alone removes what killed processes left.

    Raises StorageFailed where the file system has no locks.
    """
    descriptor = os.open(folder.parent / _MAKING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if locked(descriptor, folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
            for leftover in folder.glob(f"{_MAKING}-*"):
                shutil.rmtree(leftover, ignore_errors=True)
        locked(descriptor, folder, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)

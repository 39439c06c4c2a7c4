"""Where a run's sockets lie: in its directory, or, where its path is too long for that, in a folder of the user's."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from workbench.errors import AccessDenied

_LONGEST_PATH = 100  # the kernel allows 107 bytes
_IN_ADDRESSES = re.compile(r"[\w/.+~@=-]+", re.ASCII)  # paths that mean themselves in an address of gRPC


def socket_address(run: Path, name: str) -> str:
    """The address of the socket of that name. Raises AccessDenied where others could listen there."""
    path = run / name
    if len(os.fsencode(path)) > _LONGEST_PATH or not _IN_ADDRESSES.fullmatch(str(path)):
        path = _checked(_short_folder(run)) / name
    return f"unix:{path}"


def is_elsewhere(run: Path, socket: Path) -> bool:
    """Whether that is a socket of the run outside its directory, of a process whose TMPDIR may be another."""
    folder = socket.parent
    return folder.name == _short_folder(run).name and _is_private(folder) and os.path.lexists(socket)


def remove(run: Path) -> None:
    """Remove the folder that a long path's sockets have elsewhere, once no process listens there."""
    folder = _short_folder(run)
    if not os.path.lexists(folder):  # most runs have none
        return
    with suppress(OSError):
        for left in _checked(folder).glob("*.sock"):  # of a process that was killed
            left.unlink()
        folder.rmdir()


def _short_folder(run: Path) -> Path:
    """The folder for the sockets of a run whose path is too long for one, or means something else in an address."""
    digest = hashlib.sha256(os.fsencode(run)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"rl-workbench-{os.getuid()}-{digest}"


def _checked(folder: Path) -> Path:
    """The folder, made where it is not there. Raises AccessDenied if another user made it, who could listen there."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_private(folder):
        raise AccessDenied(f"{folder} is not a folder of yours alone, and the run's sockets must lie there. Remove it, "
                           "or set TMPDIR to a folder of your own.")
    return folder


def _is_private(folder: Path) -> bool:
    """Whether it is a folder of this user alone."""
    with suppress(OSError):
        status = folder.lstat()
        is_theirs = status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077
        return stat.S_ISDIR(status.st_mode) and not is_theirs
    return False

"""What a run shows of its files to whoever keeps a copy on another machine: names, sizes, digests, and pieces of them.

Only files of these names are shown: checkpoints without their replay, logs, and code that was typed in cells (sealed,
as it is). Never the token, a key, or a file that a link leads to. The same rules hold where the pieces arrive
(`checked_name`), since either end may be a stranger's.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench import checkpoints
from workbench.checkpoints.checkpoint import LARGEST_META, META, REPLAY, file_of
from workbench.errors import InvalidInput, StorageFailed
from workbench.rundir import RunDirectory, files, sealed

PIECE_BYTES = 2 * 2**20
REPLAY_FILE = file_of(REPLAY)
_MOST = 10_000  # files of a kind

_CHECKPOINT = r"(opponent/)?checkpoints/\d{12,18}(-\d{1,6})?"
CHECKPOINT = re.compile(_CHECKPOINT, re.ASCII)
LOG = re.compile(r"logs/[a-z]{1,20}(-\d{1,6})?\.log", re.ASCII)
CODE = re.compile(r"(opponent/)?code/([a-z]{1,40}\.pkl|module\.txt)", re.ASCII)
_SHOWN = re.compile(rf"{_CHECKPOINT}/([a-z][a-z0-9_]{{0,60}}\.safetensors|meta\.json)|{LOG.pattern}|{CODE.pattern}",
                    re.ASCII)


def checked_name(name: object, pattern: re.Pattern[str] = _SHOWN) -> str:
    """The path within a run. Raises InvalidInput for one that no copy has, such as one that leads out of it."""
    if not isinstance(name, str) or not pattern.fullmatch(name) or name.endswith(REPLAY_FILE):
        raise InvalidInput(f"{name!r:.100} is no file that a copy of a run has.")
    return name


def checkpoints_of(run: RunDirectory) -> dict[str, str]:
    """SHA-256 of meta.json of each whole checkpoint, by its path in the run; the opponent's too, oldest first."""
    shown = {}
    for prefix, folder in (("opponent/", run.opponent.checkpoints), ("", run.checkpoints)):
        for checkpoint in checkpoints.every(folder):
            name = f"{prefix}checkpoints/{checkpoint.path.name}"
            with suppress(OSError):  # pruned in this moment
                meta = files.content(checkpoint.path / META, largest=LARGEST_META)
                shown[name] = hashlib.sha256(meta).hexdigest()
    return dict(list(_unlinked(run, shown).items())[-_MOST:])


def code_of(run: RunDirectory) -> dict[str, str]:
    """SHA-256 of each file of code, by its path in the run."""
    shown = {}
    for prefix, folder in (("", run.code), ("opponent/", run.opponent.code)):
        for path in sorted(folder.glob("[!.]*")):
            if CODE.fullmatch(name := f"{prefix}code/{path.name}"):
                with suppress(OSError):
                    shown[name] = hashlib.sha256(files.content(path, largest=sealed.LARGEST)).hexdigest()
    return dict(list(_unlinked(run, shown).items())[:_MOST])


def logs_of(run: RunDirectory) -> dict[str, int]:
    """The size of each log in bytes, by its path in the run."""
    shown = {}
    with suppress(FileNotFoundError), os.scandir(run.logs) as entries:
        for entry in entries:
            if LOG.fullmatch(f"logs/{entry.name}") and entry.is_file(follow_symlinks=False):
                shown[f"logs/{entry.name}"] = entry.stat(follow_symlinks=False).st_size
    return dict(list(_unlinked(run, shown).items())[:_MOST])


def _unlinked(run: RunDirectory, shown: dict[str, Any]) -> dict[str, Any]:
    """Those whose folders are the run's own."""
    return {name: value for name, value in shown.items() if not _is_linked(run, run.path / name)}


def _is_linked(run: RunDirectory, path: Path) -> bool:
    """Whether `path`, or a folder of the run on the way to it, is a link."""
    return any(folder.is_symlink() for folder in (path, *path.parents) if run.path in folder.parents)


def piece(run: RunDirectory, name: str, offset: int) -> dict[str, Any]:
    """At most PIECE_BYTES of a file from `offset` on: {"data": base64, "size": of the file}.

    Raises InvalidInput for a file that is not shown, StorageFailed for one that is gone, or no plain file.
    """
    path = run.path / checked_name(name)
    if type(offset) is not int or offset < 0:
        raise InvalidInput(f"offset={offset!r:.50} is no place in a file.")
    if _is_linked(run, path.parent):
        raise StorageFailed(f"{path} is not shown: a folder on the way to it is a link.")
    try:
        with files.opened(path) as file:
            file.seek(offset)
            return {"data": base64.b64encode(file.read(PIECE_BYTES)).decode(), "size": os.fstat(file.fileno()).st_size}
    except OSError as error:
        raise StorageFailed(f"{path} cannot be read: {error.strerror}.") from None


def bytes_of(answer: Any) -> tuple[bytes, int]:
    """The data of a `piece`, and the size of the file. Raises StorageFailed for an answer that is none."""
    try:
        data, size = base64.b64decode(answer["data"], validate=True), answer["size"]
        if len(data) > PIECE_BYTES or type(size) is not int or not 0 <= size < 2**60:
            raise ValueError(f"{len(data):,} bytes of {size!r:.50}")
    except (KeyError, TypeError, ValueError) as error:
        raise StorageFailed(f"a piece of a file was sent that is none: {error!r:.200}.") from None
    return data, size


def path_in(copy: Path, name: object, pattern: re.Pattern[str] = _SHOWN) -> Path:
    """The place in a copy of a file or folder of that name, whatever was sent. Raises InvalidInput."""
    return copy.joinpath(*checked_name(name, pattern).split("/"))

"""The code that a run had before a mended one, in the hidden folder `code/.before`.

It lies there until the mended one has made an update. `kept.json` in it has the run's state of then. That is written
last and removed first: without it nothing is kept. Callers hold the run's start lock; the supervisor of the life that
trains needs none to `forget`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from workbench.errors import StorageFailed
from workbench.rundir import RunDirectory, checked_record
from workbench.rundir.files import check_unlinked, content, make_private, read_record, write_atomically, write_record
from workbench.rundir.sealed import LARGEST, files_in

_KEPT = "kept.json"
_OF_RECORD: dict[str, Any] = {
    "config": {}, "state": "", "error": None, "ended_by": None, "paused": None, "mended": 0}


class Before(NamedTuple):
    """What a run was before it got a mended code: fields of run.json, and its last status, None without one."""

    record: dict[str, Any]
    status: dict[str, Any] | None


def _folder(run: RunDirectory) -> Path:
    return run.code / ".before"


def is_kept(run: RunDirectory) -> bool:
    """Whether the run has a mended code that has made no update, as far as is known."""
    return (_folder(run) / _KEPT).exists()


def is_new(run: RunDirectory, name: str, code: bytes) -> bool:
    """Whether the run has no file of that name with this code."""
    with suppress(OSError):
        return content(run.code / name, largest=LARGEST) != code
    return True


def is_replaced(run: RunDirectory, name: str) -> bool:
    """Whether that file of the run's code is a mended one, which has not trained."""
    with suppress(OSError):
        return is_kept(run) and is_new(run, name, content(_folder(run) / name, largest=LARGEST))
    return False


def replace(run: RunDirectory, mended: Mapping[str, bytes], status: Mapping[str, Any] | None) -> None:
    """Keep the run's code and its last status, and put `mended` in its place, by file name. Raises StorageFailed."""
    folder, record = _folder(run), run.read()
    try:
        shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed here
        make_private(folder)
        files = files_in(run.code)
        for file in files:
            write_atomically(folder / file.name, content(file, largest=LARGEST))
        write_record(folder / _KEPT, {
            "files": [file.name for file in files], "status": status and {**status, "actors": []},
            "record": {name: record.get(name, value) for name, value in _OF_RECORD.items()}})
        for name, code in mended.items():
            write_atomically(run.code / name, code)
    except OSError as error:
        if isinstance(error, StorageFailed):
            raise
        raise StorageFailed(f"cannot write {run.code}: {error.strerror}. Make room there.") from None


def put_back(run: RunDirectory) -> Before:
    """Give the run the kept code again, and return what else it was. Raises StorageFailed.

    It can be called again if it, or what its caller does before `forget`, broke off; and it needs no room on the disk.
    """
    check_unlinked(run.path)
    folder = _folder(run)
    try:
        kept = read_record(folder / _KEPT)
        record = checked_record(kept["record"], folder / _KEPT)
        before = Before({name: record[name] for name in _OF_RECORD}, kept["status"])
        files = set(kept["files"])
        for file in files_in(folder):
            os.replace(file, run.code / file.name)
        for file in files_in(run.code):
            if file.name not in files:
                file.unlink()
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise StorageFailed(f"{folder} has the code of before a mended one, which cannot be put back: {error!s:.300}. "
                            "Make it readable; or delete that folder, and the run has the mended code.") from None
    return before


def forget(run: RunDirectory) -> None:
    """Drop what is kept. Raises StorageFailed."""
    path = _folder(run) / _KEPT
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageFailed(f"cannot remove {path}: {error.strerror}. Make its folder writable.") from None
    shutil.rmtree(_folder(run), ignore_errors=True)

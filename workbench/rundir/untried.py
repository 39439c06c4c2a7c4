"""Mended code of a run that has not trained yet, in the hidden folder `code/.untried`.

The run's own processes load it in place of what `code` has; all others take the code that has trained. Once it has made
an update, it goes to `code`. `before.json` in the folder has the run's state of before; it is written last and removed
first: without it nothing is untried. Callers hold the run's start lock, but for `adopt` and `settle`, which several
processes may call at once.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from workbench import checkpoints
from workbench.config import RunConfig
from workbench.errors import StorageFailed
from workbench.rundir import RunDirectory, checked_record
from workbench.rundir.files import check_unlinked, content, make_private, read_record, write_atomically, write_record
from workbench.rundir.sealed import LARGEST, files_in

_OF_RECORD: dict[str, Any] = {
    "config": {}, "state": "", "error": None, "ended_by": None, "paused": None, "mended": 0, "code": {}}


class Before(NamedTuple):
    """What a run was before it got a mended code: fields of run.json, its last status (None without one), and updates
    of its newest checkpoint."""

    record: dict[str, Any]
    status: dict[str, Any] | None
    updates: float


def is_there(run: RunDirectory) -> bool:
    """Whether the run has a mended code that has made no update, as far as is known."""
    return run.before_mending.exists()


def tried_config(run: RunDirectory) -> RunConfig:
    """The run's configuration for the code that has trained: that of before, where a mended code has not."""
    kept = _before(run)
    return run.config() if kept is None else RunConfig.from_json(kept.record["config"])


def for_its_class(run: RunDirectory, config: RunConfig) -> RunConfig:
    """A checkpoint's configuration, for the present class of its run's own algorithm, which may be a mended one."""
    now = tried_config(run).own_algorithm if config.own_algorithm else {}
    return config if now == config.own_algorithm or not now else config.with_own(now)


def is_new(run: RunDirectory, name: str, code: bytes) -> bool:
    """Whether the run has no file of that name with this code."""
    with suppress(OSError):
        return content(run.code / name, largest=LARGEST) != code
    return True


def is_untried(run: RunDirectory, name: str) -> bool:
    """Whether that file of the run's code is a mended one, which has not trained; the first checkpoint of a fork tells
    which of its files are."""
    newest = checkpoints.newest(run.checkpoints)
    of_fork = newest is not None and name in newest.meta.get("mended", ())
    return of_fork or (is_there(run) and (_folder(run) / name).exists())


def places(run: RunDirectory, name: str) -> tuple[Path, ...]:
    """Where that file of the code that the run's processes load may lie, the first one first.

    A file moves in this order alone, so that who looks in it misses none.
    """
    return tuple(folder / name for folder in _folders(run))


def loaded(run: RunDirectory) -> dict[str, Path]:
    """The files of the code that the run's processes load, by name."""
    return {file.name: file for folder in reversed(_folders(run)) for file in files_in(folder)}


def begin(run: RunDirectory, mended: Mapping[str, bytes], status: Mapping[str, Any] | None) -> None:
    """Give the run `mended` code, by file name; `status`: its last one. Raises StorageFailed."""
    record = run.read()
    try:
        _finish(run)
        shutil.rmtree(_folder(run), ignore_errors=True)  # of a process that was killed here
        make_private(_folder(run))
        for name, code in mended.items():
            write_atomically(_folder(run) / name, code)
        write_record(run.before_mending, {
            "updates": _updates(run), "status": status and {**status, "actors": []},
            "record": {name: record.get(name, value) for name, value in _OF_RECORD.items()}})
    except OSError as error:
        if isinstance(error, StorageFailed):
            raise
        raise StorageFailed(f"cannot write {run.code}: {error.strerror}. Make room there.") from None


def adopt(run: RunDirectory) -> None:
    """The mended code has trained: it is the run's from now on. Raises OSError; it can be called again then."""
    with suppress(FileNotFoundError):  # another process is faster
        if is_there(run):
            os.rename(_folder(run), _tried(run))
    _finish(run)


def settle(run: RunDirectory) -> None:
    """Adopt what has trained, by the run's checkpoints, though its supervisor was killed before it saw that.

    Raises StorageFailed.
    """
    try:
        _finish(run)
        if (kept := _before(run)) is not None and _updates(run) > kept.updates:
            adopt(run)
    except OSError as error:
        if isinstance(error, StorageFailed):
            raise
        raise StorageFailed(f"cannot move code in {run.code}: {error.strerror}. Make that folder writable.") from None


def before(run: RunDirectory) -> Before | None:
    """What the run was before it got an untried code; None if it has none, also where that has trained (`settle`).

    Raises StorageFailed where this cannot be read.
    """
    check_unlinked(run.path)
    settle(run)
    return _before(run)


def _before(run: RunDirectory) -> Before | None:
    path = run.before_mending
    try:
        kept = read_record(path)
        record = checked_record(kept["record"], path)
        known = {name: record[name] for name in _OF_RECORD if name in record}
        return Before(known | {"config": record["config"]}, kept["status"], float(kept.get("updates", math.inf)))
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageFailed(f"{path} has the settings of before a mended code, and cannot be read: {error!s:.300}. "
                            "Make it readable; or delete it, and the run keeps its present ones.") from None


def drop(run: RunDirectory) -> None:
    """Remove the mended code, which has not trained. Raises StorageFailed."""
    try:
        run.before_mending.unlink(missing_ok=True)
    except OSError as error:
        raise StorageFailed(
            f"cannot remove {run.before_mending}: {error.strerror}. Make its folder writable.") from None
    shutil.rmtree(_folder(run), ignore_errors=True)


def _folders(run: RunDirectory) -> list[Path]:
    """Those of the code that the run's processes load, the first one first."""
    return [*([_folder(run)] if is_there(run) else []), _tried(run), run.code]


def _folder(run: RunDirectory) -> Path:
    return run.before_mending.parent


def _tried(run: RunDirectory) -> Path:
    return run.code / ".tried"


def _finish(run: RunDirectory) -> None:
    """Put adopted code where the run's code is. Raises OSError."""
    for file in files_in(_tried(run)):
        with suppress(FileNotFoundError):  # another process is faster
            os.replace(file, run.code / file.name)
    with suppress(OSError):  # there is none, or another process has just put code there
        (_tried(run) / run.before_mending.name).unlink(missing_ok=True)
        _tried(run).rmdir()


def _updates(run: RunDirectory) -> int:
    """Updates of the run's newest whole checkpoint, which its processes go on from; 0 without one."""
    newest, _ = checkpoints.newest_good(run.checkpoints, replay=False)
    return newest.updates if newest else 0

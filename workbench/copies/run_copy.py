"""Copies all that a run needs to continue to a folder that outlives its machine, such as a mounted Drive.

`<folder>/<name>/` holds run.json, the two newest checkpoints and the best one (without a replay, which is too large),
metrics.sqlite, how far trackers have it, demonstrations, and code typed in cells. A checkpoint is written beside,
verified and renamed. A Drive uploads files in any order, so checkpoints are verified again on the way back
(`restored_run`), and an older one replaces one that did not arrive whole.
SQLite never works in that folder: metrics.sqlite is one consistent, closed copy, made with each checkpoint.

One machine goes on with a run. Each restore adds a mark to `holders` in its run.json, and a run may copy where the last
mark is among its own: a restored run takes the copy over with its first checkpoint, and whoever had it before copies no
more. It does not where that one has gone on copying for longer than the last copy of a machine that ends.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from workbench import checkpoints, rundir
from workbench.checkpoints import Checkpoint
from workbench.checkpoints.checkpoint import META, REPLAY, file_of
from workbench.copies import LAST_COPY_S
from workbench.errors import CheckpointCorrupt, InvalidInput, RunNotFound, StorageFailed, nearest
from workbench.replay import demonstration_file
from workbench.rundir import RunDirectory, files, lock, sealed, untried

_OF_TRACKER = re.compile(r"[a-z]+\.json")
KEPT = 2  # checkpoints: one is whole while the other is being uploaded
_CLAIMED_S = 3600.0  # that a name is kept for a run without a checkpoint whose machine may be gone


def copy(
    run: RunDirectory, folder: Path, found: Sequence[Checkpoint] | None = None, *, ended: bool = False
) -> int | None:
    """Copy the run's best and its newest good checkpoint, and all that belongs to it. Returns the frames of the newest;
    None if nothing was copied, since both were there.

    Args:
        found: what `to_copy` gives, where it is known.
        ended: whether the run has just ended, so that what belongs to it is copied in any case.

    Raises OSError, sqlite3.Error or WorkbenchError if that failed; the older copy then remains, possibly with a part of
    the new one.
    """
    target = folder / run.name
    found = to_copy(run) if found is None else found
    missing = [one for one in found if not _is_same(one, target / "checkpoints" / one.path.name)]
    if not missing and not ended:
        return None
    check_own(target)
    check_same(run, kept_record(target), str(target))
    _clear(target)
    write(run, target, missing)
    _prune(target / "checkpoints", {one.path.name for one in found})
    return found[-1].frames


def to_copy(run: RunDirectory) -> list[Checkpoint]:
    """The newest good checkpoint of a run; before it the best good one, if that is another."""
    newest, _ = checkpoints.newest_good(run.checkpoints, replay=False)
    return [] if newest is None else with_best(newest, run)


def with_best(newest: Checkpoint, run: RunDirectory) -> list[Checkpoint]:
    """The newest good checkpoint of the run, which is known, behind its best good one."""
    every = checkpoints.every(run.checkpoints)
    best = newest if checkpoints.best(every) == newest else checkpoints.best_good(every)[0]  # the newest is verified
    return [newest] if best is None or best == newest else [best, newest]


def write(run: RunDirectory, target: Path, found: Sequence[Checkpoint]) -> None:
    """Write these checkpoints of the run into `target`, after all that belongs to them: once they are there, it is."""
    for below in ("checkpoints", "code"):
        (target / below).mkdir(parents=True, exist_ok=True)
    untried.settle(run)
    config = None
    while config != (config := untried.tried_config(run)):  # until no mended code is adopted meanwhile
        for code in sealed.files_in(run.code):
            _write(target / "code" / code.name, code.read_bytes())
    if opponent := checkpoints.newest(run.opponent.checkpoints):
        _copy_opponent(run, opponent, target / "opponent")
    record = {**run.read(), "config": config.to_json(), "mirrored": time.time()}
    _write(target / "run.json", _as_json(record))
    copy_demonstrations(run, RunDirectory(target))
    for name, place in tracked(run).items():  # before the history: a row may go there twice, and none is left out
        (target / "trackers").mkdir(exist_ok=True)
        _write(target / "trackers" / name, _as_json(place))
    _copy_metrics(run.metrics, target / "metrics.sqlite")
    for checkpoint in found:
        _copy_checkpoint(checkpoint, target / "checkpoints")


def check_own(target: Path) -> None:
    """Raises StorageFailed where writing to the copy would write somewhere else, or into a run that lives in it."""
    if target.is_symlink():
        raise files.is_linked(target)
    files.check_unlinked(target)
    if lock.is_alive(RunDirectory(target)):
        raise StorageFailed(f"a run lives in {target}, which is the place of a copy. Stop it: "
                            f"wb.attach({str(target)!r}).stop().")


def _clear(target: Path) -> None:
    """Delete what a copy has left that broke off."""
    for left in target.rglob(".writing-*"):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def folders(run: RunDirectory) -> set[str]:
    """Names of the folders of its checkpoints, by which a new one is noticed; none if they cannot be listed."""
    with suppress(OSError):
        return set(os.listdir(run.checkpoints))
    return set()


def not_there(name: str, where: str, names: Sequence[str]) -> RunNotFound:
    """The error for a run that is none of `names`, which are copied to `where`, such as "in /drive"."""
    hint = nearest(name, names) or f" It has: {', '.join(names) or 'none'}."
    return RunNotFound(f"there is no run {name!r} {where}.{hint}")


def check_same(run: RunDirectory, record: Mapping[str, Any] | None, there: str) -> None:
    """Raises StorageFailed if `record`, that of the copy `there` if there is one, is of another run than `run`, which
    has its name, or of the same run that another machine goes on with."""
    if record is None:
        return
    here = run.read()
    is_it = record.get("created") == here.get("created")
    if not is_it or _is_with_another(record, here):
        what = f"{there} is {'' if is_it else 'another run than '}{run.name!r} of this machine"
        raise StorageFailed(f"{what}{', which another machine goes on with' * is_it}; both stay as they are. For a "
                            f"copy of the one here, name another folder, or fork it under another name: "
                            f"wb.attach({run.name!r}).fork(...). To go on with the one there, move the one here to the "
                            f"trash first: wb.attach({run.name!r}).delete().")


def claim(run: RunDirectory) -> dict[str, Any]:
    """The record of a copy without a checkpoint yet, which keeps the run's name for it."""
    return {**run.read(), "claimed": time.time()}


def is_left(record: Mapping[str, Any]) -> bool:
    """Whether a name was claimed long ago, and nothing was copied since."""
    return "claimed" in record and time.time() - record["claimed"] > _CLAIMED_S


def kept_record(copied: Path) -> dict[str, Any] | None:
    """run.json of a copy; None if there is none, or a claim that is left."""
    copied_run = RunDirectory(copied)
    record = copied_run.read() if copied_run.record.exists() else None
    return None if record and is_left(record) and not checkpoints.every(copied_run.checkpoints) else record


def _is_with_another(copied: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Whether another machine than the one with the record `here` goes on with what is copied."""
    marks, last = here.get("holders", []), copied.get("holders", [])[-1:]
    if last == marks[-1:]:
        return False
    went_on_s = copied.get("mirrored", 0.0) - here.get("mirrored", math.inf)  # after it was restored here
    return any(mark not in marks for mark in last) or went_on_s > LAST_COPY_S


def are_of(checkpoint: Checkpoint, files: Mapping[str, Any]) -> bool:
    """Whether these files of a copy, with their checksums, are the checkpoint's; a replay is not copied."""
    replay = file_of(REPLAY)
    return {**files, replay: None} == {**checkpoint.files, replay: None}


def _is_same(checkpoint: Checkpoint, copied: Path) -> bool:
    with suppress(InvalidInput, CheckpointCorrupt):  # nothing there yet, or what stands there is no checkpoint
        return are_of(checkpoint, checkpoints.at(copied).files)
    return False


def tracked(run: RunDirectory) -> dict[str, dict[str, Any]]:
    """How far each tracker was given the history, by file name; says which cannot be read."""
    places = {}
    for path in run.trackers.glob("*.json"):
        if _OF_TRACKER.fullmatch(path.name):
            try:
                places[path.name] = rundir.read_record(path)
            except StorageFailed as error:
                print(f"{run.name} leaves {path.name} of its trackers behind, which begins anew: {error}", flush=True)
    return places


def _as_json(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, indent=1).encode()


def _write(path: Path, data: bytes) -> None:
    """As `rundir.write_atomically`, without modes and synced folders, which a Drive does not support."""
    beside = path.with_name(f".writing-{path.name}")
    with open(beside, "xb") as file:
        file.write(data)
    os.replace(beside, path)


def _copy_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    beside, target = folder / f".writing-{checkpoint.path.name}", folder / checkpoint.path.name
    beside.mkdir(parents=True)
    names = [file_of(group) for group in checkpoint.groups if group != REPLAY]
    for name in (*names, META):
        shutil.copyfile(checkpoint.path / name, beside / name)
    checkpoints.at(beside).verify(replay=False)
    shutil.rmtree(target, ignore_errors=True)  # another checkpoint of that name
    os.rename(beside, target)


def _copy_opponent(run: RunDirectory, opponent: Checkpoint, target: Path) -> None:
    if not _is_same(opponent, target / "checkpoints" / opponent.path.name):
        (target / "code").mkdir(parents=True, exist_ok=True)
        for code in sealed.files_in(run.opponent.code):
            _write(target / "code" / code.name, code.read_bytes())
        _copy_checkpoint(opponent, target / "checkpoints")


def copy_demonstrations(run: RunDirectory, target: RunDirectory) -> None:
    """Copy what the run learns from, once: nothing changes it."""
    ours, theirs = run.demonstrations, target.demonstrations
    if ours.exists() and not (theirs.exists() and theirs.stat().st_size == ours.stat().st_size):
        demonstration_file.copy(ours, theirs)


def _copy_metrics(metrics: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="rl-workbench-") as temporary:
        beside = Path(temporary) / metrics.name
        with (
            closing(sqlite3.connect(f"{metrics.as_uri()}?mode=ro", uri=True, timeout=30)) as source,
            closing(sqlite3.connect(beside)) as backup,
        ):
            source.backup(backup)
            backup.execute("PRAGMA journal_mode = DELETE")  # one file, without a journal beside it
        _write(target, beside.read_bytes())


def _prune(folder: Path, copied: set[str]) -> None:
    every = checkpoints.every(folder)
    best = checkpoints.best(every)
    for checkpoint in every[:-KEPT]:
        if checkpoint != best and checkpoint.path.name not in copied:
            shutil.rmtree(checkpoint.path, ignore_errors=True)

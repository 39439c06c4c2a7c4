"""Brings a run back from its copy, or the checkpoints and the history that it has lost; what comes back is verified."""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from filecmp import cmp
from pathlib import Path
from typing import Any

from workbench import checkpoints, rundir
from workbench.checkpoints import Checkpoint
from workbench.copies import FOLDER
from workbench.copies.run_copy import (
    check_same,
    copy_demonstrations,
    kept_record,
    not_there,
    to_copy,
    tracked,
    with_best,
)
from workbench.errors import CheckpointCorrupt, InvalidInput, RunNotFound, StorageFailed
from workbench.metrics import MetricsReader, MetricsWriter, check_whole, holds_nothing
from workbench.rundir import RunDirectory, files, lock, sealed

_ROWS_SINCE = 1_000_000  # that a tracker was given after a copy: more than one has of a life; their numbers must grow
_ASIDE = "damaged-"  # before the name of what was put aside
_MARKS = 200  # of machines that had a run before
_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EACCES, errno.EPERM, errno.EROFS, errno.ESTALE, errno.ENOTCONN,
            errno.ETIMEDOUT, errno.EMFILE, errno.ENFILE}  # of disks and networks; others are of what is no history
_LARGEST_HISTORY = 2**31  # bytes; a week of training takes some 100 MB


def restored(name: str, folder: str | Path | None = None, *, trust_code: bool = False) -> str:
    """Copies a run from `folder` to this machine, or, to one that is here, checkpoints that it has lost. Returns its
    name.

    Args:
        folder: to which it was copied; None: that of `prepare`.
        trust_code: whether to load code typed in cells from there. Anybody who can write to that folder can then run
            code here, so trust only a folder that is yours alone.

    Raises RunNotFound with the nearest name, CheckpointCorrupt without a whole checkpoint, AccessDenied for code,
    StorageFailed where the one in `folder` is another one than the one here, RunExists where processes of the one here
    live on without its folder.
    """
    folder = folder or os.environ.get(FOLDER)
    if is_here(name):
        if folder:
            run, copied_run = rundir.find(name), RunDirectory(_absolute(folder) / name)
            check_same(run, kept_record(copied_run.path), f"{folder}/{name}")
            if said := caught_up_at_rest(run, lambda run: catch_up(run, copied_run, str(folder))):
                print(said)
        return name
    source = _copied_run(name, folder)
    newest, errors = checkpoints.newest_good(source.checkpoints, replay=False)
    if newest is None:
        raise CheckpointCorrupt(f"{source.path} holds no checkpoint that is whole. {' '.join(errors)}".strip())
    code = sealed.every(source.code, source.config(), trust_code=trust_code)
    opponent_code = sealed.every(source.opponent.code, trust_code=trust_code)
    copied = source.read()
    record = {key: value for key, value in copied.items() if key not in ("name", "claimed")}
    marks = [*copied.get("holders", [])[-_MARKS:], secrets.token_hex(8)]
    now = max(time.time(), copied.get("mirrored", 0.0))  # the clock of that machine may be ahead
    record |= {"supervisor_pid": None, "mirrored": now, "holders": marks}

    def fill(run: RunDirectory) -> None:
        for checkpoint in with_best(newest, source):
            checkpoints.copy(checkpoint, run.checkpoints, without=["replay"], restored=True)
        copy_demonstrations(source, run)
        _restore_metrics(source.metrics, run.metrics)
        _restore_opponent(source, run, opponent_code)
        _restore_tracked(source, run)

    lock.check_left(RunDirectory(rundir.home() / "runs" / name))
    rundir.create(name, record, code=code, prepare=fill)
    warning = f" ({' '.join(errors)})" if errors else ""
    print(f"{name} is here again, at {newest.frames:,} frames{_of_whom(copied)}{warning}")
    return name


def _of_whom(copied: Mapping[str, Any]) -> str:
    """How old a copy of a run is that may still live elsewhere; "" of one that has ended."""
    if copied["state"] in rundir.ENDED or "mirrored" not in copied:
        return ""
    age_s = max(0, time.time() - copied["mirrored"])
    return (f", copied {age_s:,.0f} s ago by a machine that had not ended it; should it still train there, it is not "
            "copied any more from this one's next checkpoint on")


def is_here(name: str) -> bool:
    """Whether this machine has a run of that name."""
    return (rundir.home() / "runs" / name / "run.json").exists()


def _copied_run(name: str, folder: str | Path | None) -> RunDirectory:
    if not folder:
        raise RunNotFound(f"there is no run {name!r} here, and no folder to look in: call colab.prepare() first.")
    copies = _absolute(folder)
    source = RunDirectory(copies / name)
    if not source.record.exists():
        raise not_there(name, f"in {folder}", sorted(path.parent.name for path in copies.glob("*/run.json")))
    return source


def _absolute(folder: str | Path) -> Path:
    return Path(folder).expanduser().absolute()


def _restore_metrics(source: Path, target: Path) -> bool:
    """Copy the history, and return whether it is there; where there is none that is whole, a line says so.

    A damaged one is put aside here, since the next copy of the run will take its place there.

    Raises StorageFailed where it cannot be copied now.
    """
    try:
        rundir.write_atomically(target, files.content(source, largest=_LARGEST_HISTORY))
    except OSError as error:
        target.unlink(missing_ok=True)
        if error.errno in _PASSING:
            raise StorageFailed(f"the history {source} cannot be copied here: {error.strerror}. Mend that, and call "
                                "again.") from None
        print(f"The history so far is lost: {source.name} of the copy could not be copied.")
        return False
    try:
        check_whole(target)
    except StorageFailed as error:
        why = str(error).replace(str(target), source.name).removeprefix("cannot read ")
        print(f"The history so far is lost. {source.name} of the copy cannot be read: {why} It is kept in the run's "
              f"folder here, as {_put_aside(target)}.")
        return False
    return True


def _restore_tracked(source: RunDirectory, run: RunDirectory) -> None:
    """Let trackers go on after all rows that the machine before may have sent since it was copied."""
    for file, place in tracked(source).items():
        sent = place.get("sent")
        if not run.metrics.exists():
            place = {"identity": place.get("identity")}
        files.make_private(run.trackers)
        rundir.write_record(run.trackers / file, {**place, "sent": (sent if type(sent) is int else 0) + _ROWS_SINCE})


def _restore_opponent(source: RunDirectory, run: RunDirectory, code: Mapping[str, bytes]) -> None:
    if opponent := checkpoints.newest(source.opponent.checkpoints):
        run.opponent.code.mkdir(mode=0o700, parents=True)
        for file, data in code.items():
            rundir.write_atomically(run.opponent.code / file, data)
        rundir.write_atomically(run.opponent.record, b"{}")
        checkpoints.copy(opponent, run.opponent.checkpoints)


def _bring_history(run: RunDirectory, copied_run: RunDirectory, there: str) -> str:
    """Bring the history of a copy to a run that has none here. Returns what to say of it, or ""."""
    if not holds_nothing(run.metrics) or holds_nothing(copied_run.metrics):
        return ""
    if any(cmp(aside, copied_run.metrics, shallow=False) for aside in run.path.glob(f"{_ASIDE}{run.metrics.name}-*")):
        return ""  # damaged, and put aside before
    for journal in run.path.glob(f"{run.metrics.name}-*"):  # of the file that is gone; SQLite would write it into this
        _put_aside(journal)
    is_there = _restore_metrics(copied_run.metrics, run.metrics)
    _restore_tracked(copied_run, run)
    if not is_there:
        return ""
    stored = MetricsReader(run.metrics).status()
    frames = stored[0].get("frames") if stored else None
    end = f", which ends at {frames:,} frames" if type(frames) is int else ""
    said = f"{run.name} has lost its history, {run.metrics.name}: that of its copy in {there} was brought{end}."
    with closing(MetricsWriter(run.metrics)) as writer:
        writer.event("error", said)
    return said


def caught_up_at_rest(run: RunDirectory, catch_up: Callable[[RunDirectory], str]) -> str:
    """What `catch_up` says, where no process of the run lives that would write checkpoints; else ""."""
    with lock.held(lock.of_start(run), wait_s=lock.LOOK_S) as mine:
        return catch_up(run) if mine and not lock.is_held(lock.of_supervisor(run)) else ""


def has_all(run: RunDirectory, copied: Sequence[Checkpoint]) -> bool:
    """Whether a run has a history and a whole checkpoint here, and has lost none of these of its copy, oldest first."""
    here = to_copy(run)
    return bool(here) and not _lost(here, copied) and not holds_nothing(run.metrics)


def _lost(here: Sequence[Checkpoint], copied: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Of checkpoints of its copy, oldest first, what a run that has these to copy has lost: the newest, if it is later,
    and the best, if it is better."""
    found = [one for one in copied[-1:] if not here or one.created > here[-1].created]
    best = checkpoints.best(copied)
    if best is not None and best not in found and (not here or _is_better(best, here[0])):
        found.append(best)
    return found


def _is_better(one: Checkpoint, other: Checkpoint) -> bool:
    mine, its = checkpoints.standing(one), checkpoints.standing(other)
    return mine is not None and (its is None or (mine.by == its.by and mine.mean > its.mean))


def catch_up(run: RunDirectory, copied_run: RunDirectory, there: str) -> str:
    """Bring the newest checkpoint of a copy, and the best, to a run that has lost its own, and the history to one that
    has none. What is damaged here in their place is renamed. The caller sees to it that nobody else writes there.

    Returns what to say of it, or "". Raises StorageFailed, InvalidInput, and CheckpointCorrupt where none is whole here
    and there.
    """
    if has_all(run, checkpoints.every(copied_run.checkpoints)):
        return ""  # without reading the copy's
    history, here = _bring_history(run, copied_run, there), to_copy(run)
    newest, damaged = checkpoints.newest_good(copied_run.checkpoints, replay=False)
    if newest is None and damaged and not here:
        raise CheckpointCorrupt(f"{run.name} has no checkpoint here that is whole, and its copy in {there} has none: "
                                f"{damaged[0]} Put one back, or launch a new run.")
    brought = _lost(here, [] if newest is None else with_best(newest, copied_run))
    for one in brought:  # the newest first: it must be here when the next life begins
        place = run.checkpoints / one.path.name
        if not _is_whole(place):
            _put_aside(place)
        checkpoints.copy(one, run.checkpoints, without=["replay"], meta={"brought": there}, restored=True)
    if not brought:
        return history
    since = "its best checkpoint" if brought[0] != newest else (
        f"what came after {here[-1].frames:,} frames" if here else "all checkpoints")
    at = " and ".join(f"{one.frames:,}" for one in brought)
    said = f"{run.name} has lost {since}: what it had at {at} frames was brought from its copy in {there}."
    return f"{said} {history}".rstrip()


def _is_whole(place: Path) -> bool:
    with suppress(InvalidInput, CheckpointCorrupt):  # nothing there, or no checkpoint
        checkpoints.at(place).verify(replay=False)
        return True
    return False


def _put_aside(place: Path) -> str:
    """Rename what is in the way, so that it stays for a person to inspect. Returns its new name."""
    new = place.with_name(f"{_ASIDE}{place.name}-{secrets.token_hex(4)}")
    if os.path.lexists(place):
        try:
            place.rename(new)
        except OSError as error:
            raise StorageFailed(f"cannot rename {place}: {error.strerror}. Move it away.") from None
    return new.name

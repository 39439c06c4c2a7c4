"""Brings a run back from its copy, whole or the checkpoints that it has lost; what comes back is verified."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench import checkpoints, rundir
from workbench.copies import FOLDER
from workbench.copies.run_copy import (
    check_same,
    copy_demonstrations,
    is_same,
    kept_record,
    not_there,
    tracked,
    with_best,
)
from workbench.errors import CheckpointCorrupt, InvalidInput, RunNotFound, StorageFailed
from workbench.metrics import check_whole
from workbench.rundir import RunDirectory, files, lock, sealed

_ROWS_SINCE = 1_000_000  # that a tracker was given after a copy: more than one has of a life; their numbers must grow
_MARKS = 200  # of machines that had a run before
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


def _restore_metrics(source: Path, target: Path) -> None:
    """Copy the history, if it is whole; otherwise the run goes on without it, and a line says so."""
    try:
        rundir.write_atomically(target, files.content(source, largest=_LARGEST_HISTORY))
        check_whole(target)
    except (OSError, StorageFailed) as error:
        target.unlink(missing_ok=True)
        why = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
        print(f"The history so far is lost: {source.name} of the copy could not be copied whole{why}.")


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


def has_lost(run: RunDirectory) -> bool:
    """Whether a run has no checkpoint here, or damaged ones after the last that is whole."""
    newest, damaged = checkpoints.newest_good(run.checkpoints, replay=False)
    return newest is None or bool(damaged)


def caught_up_at_rest(run: RunDirectory, catch_up: Callable[[RunDirectory], str]) -> str:
    """What `catch_up` says of a run that has lost checkpoints, where no process lives that would write some; or ""."""
    with lock.held(lock.of_start(run), wait_s=lock.LOOK_S) as mine:
        at_rest = mine and not lock.is_held(lock.of_supervisor(run))
        return catch_up(run) if at_rest and has_lost(run) else ""


def catch_up(run: RunDirectory, copied_run: RunDirectory, there: str) -> str:
    """Bring the newest checkpoint of a copy, and the best, to a run that has lost its own, where it is ahead of what is
    left here. What is damaged here in their place is renamed. The caller sees to it that nobody else writes there.

    Returns what to say of it, or "". Raises StorageFailed, CheckpointCorrupt, InvalidInput.
    """
    left, newest = (checkpoints.newest_good(one.checkpoints, replay=False)[0] for one in (run, copied_run))
    if newest is None or left is not None and left.frames >= newest.frames:
        return ""
    for one in reversed(with_best(newest, copied_run)):  # the newest first: it must be here when the next life begins
        place = run.checkpoints / one.path.name
        if not (whole := _is_whole(place)):
            _put_aside(place)
        if not (whole and is_same(one, place)):
            checkpoints.copy(one, run.checkpoints, without=["replay"], meta={"brought": there}, restored=True)
    lost = "no checkpoint here that is whole" if left is None else f"lost what came after {left.frames:,} frames"
    return f"{run.name} has {lost}: its checkpoint at {newest.frames:,} frames was brought from its copy in {there}."


def _is_whole(place: Path) -> bool:
    with suppress(InvalidInput, CheckpointCorrupt):  # nothing there, or no checkpoint
        checkpoints.at(place).verify(replay=False)
        return True
    return False


def _put_aside(place: Path) -> None:
    """Rename what is in the way of a checkpoint, so that it is none any more, and stays for a person to inspect."""
    if os.path.lexists(place):
        try:
            place.rename(place.with_name(f"damaged-{place.name}-{secrets.token_hex(4)}"))
        except OSError as error:
            raise StorageFailed(f"cannot rename {place}: {error.strerror}. Move it away.") from None

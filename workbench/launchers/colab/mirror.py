"""What a run needs to go on, copied to a folder that outlives its machine, such as a mounted Drive; and back.

`<folder>/<name>/` holds run.json, the two newest checkpoints (without a replay, which is too large), metrics.sqlite,
and code typed in cells. A checkpoint is written beside, verified and renamed; since a Drive sends files when it likes,
what comes back is verified again, and an older checkpoint takes the place of one that did not arrive whole. SQLite
never works in that folder: metrics.sqlite is one consistent, closed copy, taken beside each checkpoint.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from workbench import checkpoints, rundir
from workbench.checkpoints import Checkpoint
from workbench.errors import CheckpointCorrupt, RunNotFound, StorageFailed, WorkbenchError
from workbench.metrics import MetricsWriter, check_whole
from workbench.rundir import RunDirectory, files, lock, sealed

KEPT = 2  # so that one is whole while the other is on its way
_LOOK_S = 10.0  # between looks at the newest checkpoint, as long as no newer one comes
_WAKE_S = 1.0
_LARGEST_HISTORY = 2**31  # bytes; a week of training takes some 100 MB
_START_S = 60.0  # for the run's supervisor to take its lock
_FORMER_S = 60.0  # for the mirror of the run's life before to end
_NEWS = "mirror.json"


def copy(run: RunDirectory, folder: Path) -> int | None:
    """Copy the run's newest good checkpoint, and all that goes with it, unless it is there; its frames, or None.

    Raises OSError or WorkbenchError where that failed; the folder then holds what it held, or that and a part.
    """
    newest, _ = checkpoints.newest_good(run.checkpoints, replay=False)
    target = folder / run.name
    if newest is None or _same(newest, target / "checkpoints" / newest.path.name):
        return None
    files.check_unlinked(target)
    _check_own(target, run)
    for below in ("checkpoints", "code"):
        (target / below).mkdir(parents=True, exist_ok=True)
    for code in sealed.files_in(run.code):
        _write(target / "code" / code.name, code.read_bytes())
    for opponent in checkpoints.every(run.opponent.checkpoints)[-1:]:
        _copy_opponent(run, opponent, target / "opponent")
    record = {**run.read(), "mirrored": time.time()}
    _write(target / "run.json", json.dumps(record, indent=1).encode())
    _copy_checkpoint(newest, target / "checkpoints")
    _copy_metrics(run.metrics, target / "metrics.sqlite")
    _prune(target / "checkpoints")
    return newest.frames


def _check_own(target: Path, run: RunDirectory) -> None:
    """Raises StorageFailed where `target` has another run's copy, such as one of that name from another machine."""
    if (target / "run.json").exists():
        theirs, mine = RunDirectory(target).read(), run.read()
        if theirs.get("created") != mine.get("created"):
            raise StorageFailed(f"{target} has another run of that name, which stays as it is. Choose another folder: "
                                f"colab.prepare(...), then wb.resume({run.name!r}) once it is stopped.")


def _same(checkpoint: Checkpoint, copied: Path) -> bool:
    mine, theirs = checkpoint.path / "meta.json", copied / "meta.json"
    return theirs.exists() and theirs.read_bytes() == mine.read_bytes()


def _write(path: Path, data: bytes) -> None:
    """As `rundir.write_atomically`, without the rights and directories that a Drive does not know."""
    beside = path.with_name(f".writing-{path.name}")
    beside.unlink(missing_ok=True)  # it may be a link
    with open(beside, "xb") as file:
        file.write(data)
    os.replace(beside, path)


def _copy_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    beside, target = folder / f".writing-{checkpoint.path.name}", folder / checkpoint.path.name
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    names = [f"{group}.safetensors" for group in checkpoint.groups if group != "replay"]
    for name in (*names, "meta.json"):
        shutil.copyfile(checkpoint.path / name, beside / name)
    checkpoints.at(beside).verify(replay=False)
    shutil.rmtree(target, ignore_errors=True)  # another one of that name
    os.rename(beside, target)


def _copy_opponent(run: RunDirectory, opponent: Checkpoint, target: Path) -> None:
    if not _same(opponent, target / "checkpoints" / opponent.path.name):
        (target / "code").mkdir(parents=True, exist_ok=True)
        for code in sealed.files_in(run.opponent.code):
            _write(target / "code" / code.name, code.read_bytes())
        _copy_checkpoint(opponent, target / "checkpoints")


def _copy_metrics(metrics: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="rl-workbench-") as here:
        beside = Path(here) / metrics.name
        with (
            closing(sqlite3.connect(f"file:{metrics}?mode=ro", uri=True, timeout=30)) as source,
            closing(sqlite3.connect(beside)) as copied,
        ):
            source.backup(copied)
            copied.execute("PRAGMA journal_mode = DELETE")  # one file, which needs no other beside it
        _write(target, beside.read_bytes())


def _prune(folder: Path) -> None:
    for old in checkpoints.every(folder)[:-KEPT]:
        shutil.rmtree(old.path, ignore_errors=True)


# --- back -------------------------------------------------------------------------------------------------------------


def restored(name: str, folder: str | Path | None = None, *, trust_code: bool = False) -> str:
    """`name`, once that run is on this machine: copied from `folder`, or here already and left as it is.

    Args:
        folder: to which it was copied; None: that of `prepare`.
        trust_code: whether code that was typed in cells may come from there. Whoever can write to that folder can then
            let anything run here; so say so only of a folder that is yours alone.

    Raises RunNotFound with the nearest name, CheckpointCorrupt where no checkpoint came whole, AccessDenied for code.
    """
    if (rundir.home() / "runs" / name / "run.json").exists():
        return name
    source = _found(name, folder)
    newest, wrong = checkpoints.newest_good(source.checkpoints, replay=False)
    if newest is None:
        raise CheckpointCorrupt(f"{source.path} holds no checkpoint that is whole. {' '.join(wrong)}".strip())
    code = sealed.every(source.code, source.config(), trust_code=trust_code)
    theirs = sealed.every(source.opponent.code, trust_code=trust_code)
    record = {key: value for key, value in source.read().items() if key not in ("name", "mirrored")}

    def fill(made: RunDirectory) -> None:
        checkpoints.copy(newest, made.checkpoints, without=["replay"] if "replay" in newest.groups else [])
        _restore_metrics(source.metrics, made.metrics)
        _restore_opponent(source, made, theirs)

    made = rundir.create(name, {**record, "supervisor_pid": None}, code=code, prepare=fill)
    said = f" ({' '.join(wrong)})" if wrong else ""
    print(f"{made.name} is here again, at {newest.frames:,} frames{said}")
    return made.name


def _found(name: str, folder: str | Path | None) -> RunDirectory:
    given = folder or os.environ.get("WORKBENCH_MIRROR")
    if not given:
        raise RunNotFound(f"there is no run {name!r} here, and no folder to look in: call colab.prepare() first.")
    source = RunDirectory(Path(given).expanduser().absolute() / name)
    if not source.record.exists():
        known = [path.parent.name for path in Path(given).glob("*/run.json")]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"It has: {', '.join(sorted(known)) or 'none'}."
        raise RunNotFound(f"there is no run {name!r} in {given}. {hint}")
    return source


def _restore_metrics(source: Path, target: Path) -> None:
    """The history, if it came whole; else the run goes on without, which is told."""
    try:
        rundir.write_atomically(target, files.content(source, largest=_LARGEST_HISTORY))
        check_whole(target)
    except (OSError, StorageFailed) as error:
        target.unlink(missing_ok=True)
        print(f"The history before now is lost: {source} is not whole ({error}).")


def _restore_opponent(source: RunDirectory, made: RunDirectory, code: Mapping[str, bytes]) -> None:
    for opponent in checkpoints.every(source.opponent.checkpoints)[-1:]:
        made.opponent.code.mkdir(mode=0o700, parents=True)
        for file, data in code.items():
            rundir.write_atomically(made.opponent.code / file, data)
        rundir.write_atomically(made.opponent.record, b"{}")
        checkpoints.copy(opponent, made.opponent.checkpoints)


# --- the process ------------------------------------------------------------------------------------------------------


def kept(run: str | Path) -> dict[str, Any]:
    """What of a run was copied last: {"folder", "frames", "time", "error"}; "error" says why the newest was not."""
    path = rundir.find(run).path / _NEWS
    return rundir.read_record(path) if path.exists() else {}


def main(run_dir: str, folder: str) -> int:
    """Copy the run in `run_dir` while it lives, and a last time when it has ended. The exit code."""
    run, ended = RunDirectory(Path(run_dir)), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    until = time.monotonic() + _START_S
    while not lock.is_alive(run) and time.monotonic() < until and not ended.wait(0.2):
        continue
    own = run.path / "mirror.lock"
    with lock.held(own, wait_s=_FORMER_S) as mine:
        if not mine:
            print(f"{run.name} has a mirror already", file=sys.stderr)
            return 1
        mirror = _Mirror(run, Path(folder))
        while True:
            alive = lock.is_alive(run)
            mirror.look()
            if ended.is_set() or not (alive or lock.is_alive(run)):  # a copy takes its time: it may live again
                return 1 if mirror.error else 0
            if not lock.is_in_place(own):  # the run was moved; what is here now has a mirror of its own
                return 1
            _wait_for_news(run, ended)


def _wait_for_news(run: RunDirectory, ended: threading.Event) -> None:
    """Until there is another checkpoint, the run has ended, or `_LOOK_S` are over."""
    until, known = time.monotonic() + _LOOK_S, _folders(run)
    while time.monotonic() < until and not ended.wait(_WAKE_S):
        if _folders(run) != known or not lock.is_alive(run):
            return


def _folders(run: RunDirectory) -> set[str]:
    """Of its checkpoints, by name; none where they cannot be listed."""
    with suppress(OSError):
        return set(os.listdir(run.checkpoints))
    return set()


class _Mirror:
    """Copies what is new, and tells in the run what became of it."""

    def __init__(self, run: RunDirectory, folder: Path) -> None:
        self._run, self._folder = run, folder
        self._news: dict[str, Any] = {"folder": str(folder / run.name), "frames": None, "time": None, "error": ""}

    @property
    def error(self) -> str:
        """Why the last copy failed, or ""."""
        return str(self._news["error"])

    def look(self) -> None:
        """Copy the newest checkpoint if it is new. Nothing raises: the next look tries again."""
        try:
            frames = copy(self._run, self._folder)
        except (OSError, sqlite3.Error, WorkbenchError) as error:
            self._failed(f"{type(error).__name__}: {error}")
        else:
            new = {} if frames is None else {"frames": frames, "time": time.time()}
            self._tell({**self._news, **new, "error": ""})

    def _failed(self, why: str) -> None:
        new = why != self.error
        self._tell({**self._news, "error": why})
        if not new:
            return
        print(why, file=sys.stderr, flush=True)
        message = f"the newest checkpoint was not copied to {self._folder}, and is tried again: {why}"
        try:
            with closing(MetricsWriter(self._run.metrics)) as writer:
                writer.event("error", message)
        except StorageFailed as error:
            print(error, file=sys.stderr, flush=True)

    def _tell(self, news: dict[str, Any]) -> None:
        if news != self._news:
            self._news = news
            rundir.write_atomically(self._run.path / _NEWS, json.dumps(news).encode())

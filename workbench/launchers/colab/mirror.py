"""The process that copies a run to a folder that outlives its machine, such as a mounted Drive (`copies.run_copy`)."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from workbench import rundir
from workbench.copies.run_copy import copy, folders
from workbench.errors import StorageFailed, WorkbenchError
from workbench.metrics import MetricsWriter
from workbench.rundir import RunDirectory, lock

_RETRY_S = 10.0  # between two copies while there is no newer checkpoint
_WAKE_S = 1.0
_START_S = 60.0  # for the run's supervisor to take its lock
_FORMER_S = 60.0  # for the mirror of the run's former life to end
_RECORD = "mirror.json"

def kept(run: str | Path) -> dict[str, Any]:
    """The last copy of a run: {"folder", "frames", "time", "error"}; "error" says why the newest copy failed."""
    path = rundir.find(run).path / _RECORD
    return rundir.read_record(path) if path.exists() else {}


def main(run_dir: str, folder: str) -> int:
    """Copy the run in `run_dir` while it lives, and a last time when it has ended. Returns the exit code."""
    run, ended = RunDirectory(Path(run_dir)), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    until = time.monotonic() + _START_S
    while not lock.is_alive(run) and time.monotonic() < until and not ended.wait(0.2):
        continue
    own = run.path / "mirror.lock"
    with lock.held(own, wait_s=_FORMER_S) as acquired:
        if not acquired:
            print(f"{run.name} has a mirror already", file=sys.stderr)
            return 1
        mirror = _Mirror(run, Path(folder))
        while True:
            alive = lock.is_alive(run)
            mirror.update()
            if ended.is_set() or not (alive or lock.is_alive(run)):  # a copy takes a while: the run may live again
                return 1 if mirror.error else 0
            if not lock.is_in_place(own):  # the run was moved; a run that is here now has another mirror
                return 1
            _wait_for_change(run, ended)


def _wait_for_change(run: RunDirectory, ended: threading.Event) -> None:
    """Return when there is another checkpoint, the run has ended, or after `_RETRY_S`."""
    until, before = time.monotonic() + _RETRY_S, folders(run)
    while time.monotonic() < until and not ended.wait(_WAKE_S):
        if folders(run) != before or not lock.is_alive(run):
            return


class _Mirror:
    """Copies new checkpoints, and records the result in the run."""

    def __init__(self, run: RunDirectory, folder: Path) -> None:
        self._run, self._folder = run, folder
        self._record: dict[str, Any] = {"folder": str(folder / run.name), "frames": None, "time": None, "error": ""}

    @property
    def error(self) -> str:
        """Why the last copy failed, or ""."""
        return str(self._record["error"])

    def update(self) -> None:
        """Copy the newest checkpoint if it is new. Raises nothing: the next call tries again."""
        try:
            frames = copy(self._run, self._folder)
        except (OSError, sqlite3.Error, WorkbenchError) as error:
            self._failed(f"{type(error).__name__}: {error}")
        else:
            progress = {} if frames is None else {"frames": frames, "time": time.time()}
            self._write_record({**self._record, **progress, "error": ""})

    def _failed(self, why: str) -> None:
        is_new = why != self.error
        self._write_record({**self._record, "error": why})
        if not is_new:
            return
        print(why, file=sys.stderr, flush=True)
        message = f"the newest checkpoint was not copied to {self._folder}, and is tried again: {why}"
        try:
            with closing(MetricsWriter(self._run.metrics)) as writer:
                writer.event("error", message)
        except StorageFailed as error:
            print(error, file=sys.stderr, flush=True)

    def _write_record(self, record: dict[str, Any]) -> None:
        if record != self._record:
            self._record = record
            rundir.write_atomically(self._run.path / _RECORD, json.dumps(record).encode())

"""All runs and sweeps of this machine as plain data for the side panel, and what its buttons do.

Everything is read from files. One look serves all pages, and the next one waits a hundred times as long as this one
worked: it takes at most 1 % of a core, and nothing while no page is open. Files of runs that have ended are read again
only when they change.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from workbench import rundir
from workbench.errors import InvalidInput, MissingPackage, RunNotFound, WorkbenchError, printable
from workbench.metrics import MetricsReader
from workbench.rundir import RunDirectory
from workbench.running.connection import Control, still_there, stored_status
from workbench.running.deletion import delete
from workbench.running.handle import Run
from workbench.running.launch import resume
from workbench.running.starts.starting import check_name
from workbench.sweeping import sweep_folder
from workbench.sweeping.sweep_folder import SweepFolder
from workbench.sweeping.sweep_handle import Sweep
from workbench.sweeping.sweep_status import GOING_ON
from workbench.tables import as_json
from workbench.widgets.views.run_rows import POSSIBLE, Row, curve, read, stamp

PERIOD_S = 1.5
SHARE = 0.01  # of a core that looks may take
MOST_ROWS = 200  # of runs, and of sweeps
NOTED = ("collapse", "recovered")  # kinds of events that a page is told of
_MOST_EVENTS = 5  # of a run that a page is told of
_LONGEST = 300  # letters of a sentence
_STOP_S = 10.0


class Overview:
    """The rows of all runs and sweeps. Any thread may use it."""

    def __init__(self) -> None:
        self._looking, self._guard = threading.Lock(), threading.Lock()
        self._due, self._last = 0.0, _answer([], [], 0)
        self._runs: dict[RunDirectory, tuple[Any, Row]] = {}
        self._sweeps: dict[SweepFolder, tuple[Any, Row]] = {}
        self._events: dict[RunDirectory, _Events] = {}
        self._busy: set[str] = set()
        self._notes: dict[str, str] = {}

    def look(self) -> dict[str, Any]:
        """{"home", "now", "runs", "sweeps", "left_out"}: the last look, or a new one when that is due."""
        with self._looking:
            if time.monotonic() >= self._due:
                began_s = time.thread_time()
                self._last = self._look()
                self._due = time.monotonic() + max(PERIOD_S, (time.thread_time() - began_s) / SHARE)
            return {**self._last, "now": time.time(), "runs": self._marked("run"), "sweeps": self._marked("sweep")}

    def act(self, kind: str, name: str, action: str) -> str:
        """Does what a button says; returns a sentence. Raises WorkbenchError; a row shows the error until the next act.

        One action of a row at a time.
        """
        key = f"{kind}/{name}"
        with self._guard:
            if key in self._busy:
                raise InvalidInput(f"{name} is busy: wait for what you asked of it before.")
            self._busy.add(key)
            self._notes.pop(key, None)
        try:
            return _ACTS[kind][action](_folder(kind, name))
        except Exception as error:
            self._notes[key] = _sentence(error)
            raise
        finally:
            with self._guard:
                self._busy.discard(key)
            self._due = 0.0  # the page asks again at once

    def _look(self) -> dict[str, Any]:
        directories, damaged = rundir.listed()
        folders, broken = sweep_folder.listed()
        chosen, searches = [*directories, *damaged][:MOST_ROWS], [*folders, *broken][:MOST_ROWS]
        self._events = {directory: self._events.get(directory) or _Events(directory) for directory in chosen}
        self._runs = read(chosen, self._runs, stamp, lambda run: _row(run, _run_row, self._events[run]))
        self._sweeps = read(searches, self._sweeps, _sweep_stamp, lambda sweep: _row(sweep, _sweep_row))
        left_out = len(directories) + len(damaged) - len(chosen) + len(folders) + len(broken) - len(searches)
        return _answer([row for _, row in self._runs.values()], [row for _, row in self._sweeps.values()], left_out)

    def _marked(self, kind: str) -> list[Row]:
        """The rows of a kind, with what is being done to them and what went wrong."""
        return [{**row, "busy": (key := f"{kind}/{row['name']}") in self._busy, "failure": self._notes.get(key, "")}
                for row in self._last[f"{kind}s"]]


class _Events:
    """A run's events that a page is told of, read on from the last one."""

    def __init__(self, directory: RunDirectory) -> None:
        self._reader, self._created = MetricsReader(directory.metrics), None
        self._forget()

    def _forget(self) -> None:
        self._last, self.noted = 0, list[Row]()
        self._curve: list[tuple[float, float]] = []
        self._curve_due = 0.0

    def read(self, created: Any) -> list[Row]:
        """The newest events of a run that was launched then; another run may have taken the name."""
        if created != self._created:
            self._forget()
            self._created = created
        events = self._reader.events(since_id=self._last)
        if events:
            self._last = events[-1]["id"]
            new = [{"id": event["id"], "kind": event["kind"], "message": _short(event["message"]),
                    "time": event["time"]} for event in events if event["kind"] in NOTED]
            self.noted = [*self.noted, *new][-_MOST_EVENTS:]
        return self.noted

    def curve(self, directory: RunDirectory, *, ended: bool) -> list[tuple[float, float]]:
        """The run's curve: a long one takes long to read, and is then read less often while the run goes on."""
        if ended or time.monotonic() >= self._curve_due:
            began_s = time.thread_time()
            self._curve = curve(directory)
            self._curve_due = time.monotonic() + (time.thread_time() - began_s) * 10 / SHARE
        return self._curve


def _answer(runs: list[Row], sweeps: list[Row], left_out: int) -> dict[str, Any]:
    return {"home": str(rundir.home()), "runs": runs, "sweeps": sweeps, "left_out": left_out}


def _row(folder: Any, row_of: Callable[..., Row], *more: Any) -> Row | None:
    """The row of a run or a sweep; None if it is gone."""
    try:
        check_name(folder.name)  # an archive, or another program, may have made a folder of any name
        row: Row = as_json(row_of(folder, *more))
        return row
    except RunNotFound:
        return None
    except Exception as error:  # one damaged run must not hide the others
        return {"name": printable(folder.name), "state": "damaged", "problem": _sentence(error), "actions": []}


def _run_row(directory: RunDirectory, events: _Events) -> Row:
    record, status = directory.read(), stored_status(directory)
    config = directory.config()
    failed = status.error.strip().splitlines()[-1] if status.error and status.error.strip() else ""
    return {
        "name": directory.name, "state": status.state, "created": record["created"], "problem": "",
        "sweep": record.get("sweep") or "", "environment": _short(config.environment), "algorithm": config.algorithm,
        "frames": status.frames, "total_frames": config.total_frames,
        "frames_per_second": status.frames_per_second if status.state == "training" else None,
        "eta_s": status.eta_s if status.state == "training" else None,
        "episode_return": status.episode_return, "best_return": status.best_return,
        "waits_for_disk": status.state == "paused" and record.get("paused") is None,
        "collapsed": status.collapsed, "events": events.read(record["created"]),
        "reason": _short(failed if status.state == "failed" else status.reason),
        "curve": events.curve(directory, ended=not status.alive), "actions": list(POSSIBLE.get(status.state, ())),
    }


def _sweep_row(folder: SweepFolder) -> Row:
    record = folder.read()
    row = {"name": folder.name, "created": record["created"], "trials": record["trials"], "problem": "",
           "metric": _short(record["metric"]), "environment": _short(str(record["config"].get("environment", "")))}
    sweep = Sweep(folder)
    try:
        status, trials = sweep.look()
    except MissingPackage as error:  # a sweep of another environment is listed without its trials
        return {**row, "state": sweep.state, "over": None, "running": None, "best_value": None, "best_run": "",
                "reason": _sentence(error), "curve": [], "actions": []}
    goes_on = status.state in GOING_ON
    return {
        **row, "state": status.state, "over": status.over, "running": status.running if goes_on else 0,
        "best_value": status.best_value, "best_run": status.best_run,
        "reason": _short((status.error or "").strip().partition("\n")[0]),
        "curve": [(trial.number, trial.value) for trial in trials if trial.value is not None],
        "actions": list(status.possible),
    }


def _sweep_stamp(folder: SweepFolder) -> tuple[int, ...] | None:
    """Changes with a sweep's files; None while it goes on."""
    try:
        if folder.alive:
            return None
        return tuple(path.stat().st_mtime_ns for path in (folder.record, folder.study))
    except (OSError, WorkbenchError):
        return None


# --- acting -----------------------------------------------------------------------------------------------------------


def _folder(kind: str, name: str) -> Any:
    """The directory of a run, or the folder of a sweep, of that name in the home. Raises InvalidInput, RunNotFound."""
    check_name(name)  # so that it is no path
    if kind == "sweep":
        return sweep_folder.find(sweep_folder.folder() / name)
    return still_there(RunDirectory(rundir.home() / "runs" / name))


def _stop(directory: RunDirectory) -> str:
    with closing(Control(directory)) as control:
        control.call("stop", timeout_s=_STOP_S, grace_s=None)
    return f"{directory.name} is stopping: it writes a last checkpoint."


def _resume(directory: RunDirectory) -> str:
    with closing(Run(directory)) as run:
        if run.state == "paused":
            run.resume()
            return f"{directory.name} goes on."
    resume(directory.path, wait_ready=False, progress=False).close()
    return f"{directory.name} is starting again from its newest checkpoint."


def _delete(directory: RunDirectory) -> str:
    return f"{directory.name} is in the trash: {delete(directory)}"


def _stop_sweep(folder: SweepFolder) -> str:
    Sweep(folder).stop()
    return f"{folder.name} has stopped."


def _resume_sweep(folder: SweepFolder) -> str:
    Sweep(folder).resume()
    return f"{folder.name} goes on."


def _delete_sweep(folder: SweepFolder) -> str:
    return f"{folder.name} is in the trash: {sweep_folder.delete(folder, runs=False)}. Its runs stay."


_ACTS: Mapping[str, Mapping[str, Callable[[Any], str]]] = {
    "run": {"stop": _stop, "resume": _resume, "delete": _delete},
    "sweep": {"stop": _stop_sweep, "resume": _resume_sweep, "delete": _delete_sweep},
}


# --- texts ------------------------------------------------------------------------------------------------------------


def _sentence(error: Exception) -> str:
    text = str(error) if isinstance(error, WorkbenchError) else f"{type(error).__name__}: {error}"
    return _short(text)


def _short(text: str) -> str:
    """Its beginning, on one line and without what commands a terminal."""
    line = " ".join(printable(str(text)[:_LONGEST]).split())
    return line if len(str(text)) <= _LONGEST else f"{line}…"

"""`runs()`: every run in the home, from its files alone; in a notebook a live table with buttons."""

from __future__ import annotations

import time
from dataclasses import dataclass

from workbench import imports, rundir
from workbench.errors import MissingPackage, RunNotFound, StorageFailed
from workbench.metrics.status_facts import FACTS
from workbench.running.connection import stored_status
from workbench.tables import Columns, Table, duration


@dataclass(frozen=True)
class RunSummary:
    """One line of `runs()`.

    Attributes:
        age_s: seconds since the run was launched.
        created: when that was, in unix s.
        state: as in `RunStatus`; or "damaged", where its files cannot be read.
        problem: why they cannot.
    """

    name: str
    state: str
    age_s: float
    environment: str
    algorithm: str
    frames: int
    frames_per_second: float
    episode_return: float | None
    steps_per_second: float = 0.0
    created: float = 0.0
    problem: str = ""


_FRAMES, _SPEED, _RETURN = (FACTS[name] for name in ("frames", "frames_per_second", "episode_return"))
_COLUMNS: Columns = {
    "name": lambda row: row.name,
    "state": lambda row: row.state,
    "age": lambda row: duration(row.age_s) if row.created else "",
    "environment": lambda row: row.environment,
    "algorithm": lambda row: row.algorithm,
    _FRAMES.title: lambda row: "" if row.problem else _FRAMES.written(row.frames),
    _SPEED.title: lambda row: _SPEED.written(row.frames_per_second) if row.state == "training" else "",
    _RETURN.title: lambda row: _RETURN.written(row.episode_return),
}


class Runs(Table[RunSummary]):
    """The runs at one moment; shown in a notebook it follows them, and its rows have buttons."""

    def _ipython_display_(self) -> None:
        from IPython.display import display

        bundle = {"text/html": self._repr_html_(), "text/plain": repr(self)}
        try:
            shown = imports.widget("views.runs_table").RunsTable(bundle)
        except MissingPackage:
            display(bundle, raw=True)  # type: ignore[no-untyped-call, unused-ignore]
        else:
            display(shown)  # type: ignore[no-untyped-call, unused-ignore]


def runs() -> Runs:
    """All runs, newest first, as a table; `runs()["name"]` finds one. Reads only files, so it works for dead runs.

    In a notebook it goes on following the runs, can be sorted, and stops, resumes, deletes or shows a run by a button.
    """
    directories, damaged = rundir.listed()
    rows = [row for directory in (*directories, *damaged) if (row := summary(directory)) is not None]
    return Runs(rows, _COLUMNS, empty=f"no runs in {rundir.home() / 'runs'}")


def summary(directory: rundir.RunDirectory) -> RunSummary | None:
    """How a run is, from its files alone; None: it was deleted in this moment. One damaged run hides no other."""
    try:
        return _summary(directory)
    except RunNotFound:
        return None
    except StorageFailed as error:
        return RunSummary(directory.name, "damaged", 0.0, "", "", 0, 0.0, None, problem=str(error))


def _summary(directory: rundir.RunDirectory) -> RunSummary:
    record, status = directory.read(), stored_status(directory)
    config, created = record.get("config", {}), record["created"]
    for name in ("environment", "algorithm"):
        if type(config.get(name)) is not str:
            raise StorageFailed(f"{directory.record} is damaged: its config has no {name}.")
    return RunSummary(
        directory.name, status.state, max(0.0, time.time() - created), config["environment"], config["algorithm"],
        status.frames, status.frames_per_second, status.episode_return, status.steps_per_second, created)

"""`runs()`: all runs in the home, read from their files; in a notebook a live table with buttons."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from workbench import imports, rundir
from workbench.errors import MissingPackage, RunNotFound, StorageFailed, checked_arguments
from workbench.metrics.status_facts import FACTS
from workbench.running.connection import stored_status
from workbench.tables import Columns, Table, duration


@dataclass(frozen=True)
class RunSummary:
    """One row of `runs()`.

    Attributes:
        age_s: seconds since the run was launched.
        created: unix time of the launch, s.
        state: as in `RunStatus`; or "damaged", where its files cannot be read.
        problem: why they cannot be read.
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


_FRAMES, _SPEED, _STEPS, _RETURN = (
    FACTS[name] for name in ("frames", "frames_per_second", "steps_per_second", "episode_return"))
_COLUMNS: Columns = {  # most important first: a narrow terminal has no room for the last ones
    "name": lambda row: row.name,
    "state": lambda row: row.state,
    _RETURN.title: lambda row: _RETURN.written(row.episode_return),
    _FRAMES.title: lambda row: "" if row.problem else _FRAMES.written(row.frames),
    _SPEED.title: lambda row: _SPEED.written(row.frames_per_second or "—") if row.state == "training" else "",
    "environment": lambda row: row.environment,
    _STEPS.title: lambda row: _STEPS.written(row.steps_per_second or "—") if row.state == "training" else "",
    "age": lambda row: duration(row.age_s) if row.created else "",
    "algorithm": lambda row: row.algorithm,
}


class Runs(Table[RunSummary]):
    """The runs at one moment; in a notebook the table is updated, and its rows have buttons."""

    def _ipython_display_(self) -> None:
        from IPython.display import display

        bundle = {"text/html": self._repr_html_(), "text/plain": repr(self)}
        try:
            with imports.meanwhile("", lambda: bundle):
                table = imports.widget("views.runs_table").RunsTable(bundle)
                display(table)  # type: ignore[no-untyped-call, unused-ignore]
        except MissingPackage:
            display(bundle, raw=True)  # type: ignore[no-untyped-call, unused-ignore]


@checked_arguments(state="Choose among the rows: [row for row in wb.runs() if row.state == 'training'].")
def runs() -> Runs:
    """A table of all runs, newest first; `runs()["name"]` is the row of one. Dead runs are in it: it reads only files.

    In a notebook the table is updated and can be sorted, and buttons stop, resume, delete or show a run.
    """
    directories, damaged = rundir.listed()
    return summaries((*directories, *damaged))


def summaries(directories: Iterable[rundir.RunDirectory]) -> Runs:
    """The table of some runs, without those that have just been deleted."""
    rows = [row for directory in directories if (row := summary(directory)) is not None]
    return Runs(rows, _COLUMNS, empty=f"no runs in {rundir.home() / 'runs'}")


def summary(directory: rundir.RunDirectory) -> RunSummary | None:
    """The row of a run, from its files alone; None if it has just been deleted."""
    try:
        return _summary(directory)
    except (RunNotFound, StorageFailed) as error:  # one damaged run must not hide the others
        if isinstance(error, RunNotFound) and not directory.lost_record:
            return None
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

"""`wb.runs()` in a notebook: all runs as a live table with their curves and buttons.

The table follows the runs' files while it is visible; files that have not changed are not read again. An attached run
shows its panel below the table. A saved notebook keeps the table as it was at first.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from workbench import rundir
from workbench.metrics.status_facts import FACTS
from workbench.rundir import RunDirectory
from workbench.running.deletion import delete
from workbench.running.handle import Run
from workbench.running.launch import resume
from workbench.running.reading.listing import RunSummary, summary
from workbench.widgets.kernel.saved_view import Shown
from workbench.widgets.views import run_rows
from workbench.widgets.views.followed_table import FollowedTable
from workbench.widgets.views.run_rows import POSSIBLE, Row, curve
from workbench.widgets.views.table import Action, Column, RowTable

COLUMNS = (
    Column("name", "name"),
    Column("state", "state", "state"),
    Column("episode_return", FACTS["episode_return"].title, "number", help="mean of the last 100 training episodes"),
    Column("curve", "so far", "sparkline", help="mean return over frames"),
    Column("frames", FACTS["frames"].title, "number", help="emulator frames, repeated actions counted"),
    Column("frames_per_second", FACTS["frames_per_second"].title, "number"),
    Column("steps_per_second", FACTS["steps_per_second"].title, "number", help="decisions of all environments"),
    Column("environment", "environment"),
    Column("algorithm", "algorithm"),
    Column("created", "launched", "ago", help="when the run was launched"),
)
ACTIONS = (
    Action("show", "Attach"),
    Action("hide", "Detach"),
    Action("stop", "Stop", confirm="Stop {key}?"),
    Action("resume", "Resume"),
    Action("delete", "Delete", confirm="Move {key} to trash?", danger=True),
)


class RunsTable(FollowedTable):
    """A live table of the runs in the home; the panel is that of the attached run."""

    noun = "table"

    def __init__(self, static: Mapping[str, str]) -> None:
        """`static` has the outputs for a saved notebook, by MIME type."""
        super().__init__()
        self._acts |= {"resume": _resume, "delete": self._delete}
        self._static = static
        self._read: dict[RunDirectory, tuple[Any, Row]] = {}  # rows with their files' stamps
        self.table = RowTable(
            COLUMNS, label="Runs", actions=ACTIONS, on_action=self._do, on_pull=self._update,
            empty=f"no runs in {rundir.home() / 'runs'}",
        )
        self._lay_out("workbench-runs", [self.table])

    def refresh(self) -> None:
        """Brings the rows up to date."""
        with self._lock:
            directories, damaged = rundir.listed()
            self._read = run_rows.read([*directories, *damaged], self._read, run_rows.stamp, _row_of)
            self.table.show([self._row(row) for _, row in self._read.values()])

    def __repr__(self) -> str:
        return self._static["text/plain"]

    def _ipython_display_(self) -> None:
        Shown(self.view, dict(self._static))
        self._onlookers.expect()

    def _row(self, row: Row) -> Row:
        if row["state"] == "damaged":
            return {**row, "actions": []}
        return {**row, "actions": ["hide" if self._shows(row["key"]) else "show", *POSSIBLE.get(row["state"], ())]}

    def _delete(self, directory: RunDirectory) -> str:
        where = delete(directory)
        if self._shows(directory.name):
            self._hide()
        return f"{directory.name} is in the trash: {where}\nMoved back to {directory.path}, it is a run again."


def _resume(directory: RunDirectory) -> str:
    with closing(Run(directory)) as run:
        if run.state == "paused":
            run.resume()
            return f"{directory.name} goes on"
    with closing(resume(directory.path, progress=False)) as again:
        return f"{directory.name} trains again, from {FACTS['frames'].said(again.last_status)}"


def _row_of(directory: RunDirectory) -> Row | None:
    run = summary(directory)
    return None if run is None else {**_cells(run), "curve": [] if run.problem else curve(directory)}


def _cells(run: RunSummary) -> Row:
    moves = run.state == "training"
    speeds = {name: getattr(run, name) or None if moves else None for name in ("frames_per_second", "steps_per_second")}
    return {
        "key": run.name, "name": run.name, "state": run.state, "created": run.created or None,
        "environment": run.environment, "algorithm": run.algorithm, "frames": None if run.problem else run.frames,
        "episode_return": run.episode_return, **speeds, **({"note": run.problem} if run.problem else {}),
    }

"""`wb.runs()` in a notebook: all runs as a live table with their curves and buttons.

The table follows the runs' files while it is visible; files that have not changed are not read again. An attached run
shows its panel below the table. A saved notebook keeps the table as it was at first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets

from workbench import rundir
from workbench.metrics.status_facts import FACTS
from workbench.rundir import RunDirectory
from workbench.running.deletion import delete
from workbench.running.handle import Run
from workbench.running.launch import resume
from workbench.running.listing import RunSummary, summary
from workbench.widgets.kernel import closing
from workbench.widgets.kernel.refresher import REFRESHER
from workbench.widgets.kernel.saved_view import Shown
from workbench.widgets.panel.panel import RunPanel
from workbench.widgets.views.run_rows import POSSIBLE, curve
from workbench.widgets.views.run_rows import stamp as stamp_of
from workbench.widgets.views.table import Action, Column, RowTable

PERIOD_S = 2.0
UNSEEN_S = 60.0  # until a table that no front end shows is no longer refreshed
_COMPLAINT = "The table could not be refreshed"

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
    Action("attach", "Attach"),
    Action("detach", "Detach"),
    Action("stop", "Stop", confirm="Stop {key}?"),
    Action("resume", "Resume"),
    Action("delete", "Delete", confirm="Move {key} to trash?", danger=True),
)


class RunsTable:
    """A live table of the runs in the home.

    Attributes:
        view: the ipywidgets box with the table, and the panel of the attached run.
        table: one row per run, keyed by its name.
        panel: of the attached run, or None.
    """

    def __init__(self, static: Mapping[str, str]) -> None:
        """`static` has the outputs for a saved notebook, by MIME type."""
        self._static = static
        self._lock = threading.RLock()
        self._read: dict[RunDirectory, tuple[Any, dict[str, Any]]] = {}  # rows with their files' stamps
        self._viewed_at = time.monotonic()
        self._attached: str | None = None
        self._run: Run | None = None
        self.panel: RunPanel | None = None
        self.table = RowTable(
            COLUMNS, label="Runs", actions=ACTIONS, on_action=self._do, on_pull=self.refresh,
            empty=f"no runs in {rundir.home() / 'runs'}",
        )
        self._place = ipywidgets.VBox()
        self.view = ipywidgets.VBox([self.table, self._place])
        self.view.add_class("workbench-runs")
        self.view._view_count = 0  # makes front ends count their views of it
        self.view.observe(self._looked_at, names="_view_count")
        self.refresh()

    def refresh(self) -> None:
        """Brings the rows up to date."""
        with self._lock:
            directories, damaged = rundir.listed()
            self._read = {directory: entry for directory in (*directories, *damaged)
                          if (entry := self._look(directory)) is not None}
            self.table.show([self._row(row) for _, row in self._read.values()])

    def tick(self) -> bool:
        """Called by the refresher every few seconds; returns whether to be called again. Never raises."""
        moment = time.monotonic()
        if self.view._view_count:
            self._viewed_at = moment
        try:
            self.refresh()
            if self.table.said.startswith(_COMPLAINT):
                self.table.say("")
        except Exception as error:  # shown; it must not end the thread of the other widgets
            self.table.say(f"{_COMPLAINT}: {error}", bad=True)
        return moment - self._viewed_at < UNSEEN_S

    def close(self) -> None:
        """Removes the table and the panel below it; the runs go on."""
        REFRESHER.remove(self)
        self._detach()
        closing.close(self.view)

    def __repr__(self) -> str:
        return self._static["text/plain"]

    def _ipython_display_(self) -> None:
        Shown(self.view, dict(self._static))
        self._viewed_at = time.monotonic()
        REFRESHER.add(self, period_s=PERIOD_S)

    def _looked_at(self, change: Mapping[str, Any]) -> None:
        if change["new"]:
            REFRESHER.add(self, period_s=PERIOD_S)

    # Reading

    def _look(self, directory: RunDirectory) -> tuple[Any, dict[str, Any]] | None:
        """The stamp of a run's files and the run's row; None if the run is gone."""
        stamp = stamp_of(directory)
        entry = self._read.get(directory)
        if entry is not None and stamp is not None and entry[0] == stamp:
            return entry
        row = summary(directory)
        return None if row is None else (stamp, _cells(row) | {"curve": [] if row.problem else curve(directory)})

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        attached = row["key"] == self._attached
        if row["state"] == "damaged":
            return {**row, "actions": []}
        return {**row, "actions": ["detach" if attached else "attach", *POSSIBLE.get(row["state"], ())]}

    # Actions, in the thread of their row

    def _do(self, name: str, action: str) -> str | None:
        outcome: str | None = _ACTIONS[action](self, rundir.find(name))
        self.refresh()
        return outcome

    def _attach(self, directory: RunDirectory) -> None:
        run = Run(directory)
        panel = RunPanel(run)
        with self._lock:
            self._detach()
            self._attached, self._run, self.panel = directory.name, run, panel
            self._place.children = (panel.view,)

    def _detach(self, _: RunDirectory | None = None) -> None:
        with self._lock:
            panel, run = self.panel, self._run
            self.panel = self._run = self._attached = None
            self._place.children = ()
        if panel is not None and run is not None:
            panel.close()
            run.close()

    def _delete(self, directory: RunDirectory) -> str:
        where = delete(directory)
        if self._attached == directory.name:
            self._detach()
        return f"{directory.name} is in the trash: {where}\nMoved back to {directory.path}, it is a run again."


def _stop(_: RunsTable, directory: RunDirectory) -> str:
    handle = Run(directory)
    try:
        return f"{directory.name}: {handle.stop().line()}"
    finally:
        handle.close()


def _resume(_: RunsTable, directory: RunDirectory) -> str:
    handle = Run(directory)
    try:
        if handle.state == "paused":
            handle.resume()
            return f"{directory.name} goes on"
        again = resume(directory.path, progress=False)
        again.close()
        return f"{directory.name} trains again, from {FACTS['frames'].said(again.last_status)}"
    finally:
        handle.close()


_ACTIONS: Mapping[str, Callable[[RunsTable, RunDirectory], Any]] = {
    "attach": RunsTable._attach, "detach": RunsTable._detach, "stop": _stop, "resume": _resume,
    "delete": RunsTable._delete,
}


def _cells(run: RunSummary) -> dict[str, Any]:
    moves = run.state == "training"
    speeds = {name: getattr(run, name) or None if moves else None for name in ("frames_per_second", "steps_per_second")}
    return {
        "key": run.name, "name": run.name, "state": run.state, "created": run.created or None,
        "environment": run.environment, "algorithm": run.algorithm, "frames": None if run.problem else run.frames,
        "episode_return": run.episode_return, **speeds, **({"note": run.problem} if run.problem else {}),
    }

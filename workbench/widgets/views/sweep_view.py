"""A sweep in a notebook: charts, a live table of its trials, and below it the panel of a run.

It follows the sweep's files while it is visible. A saved notebook keeps a picture, renewed whenever a trial ends.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import ipywidgets

from workbench import rundir, tables
from workbench.errors import WorkbenchError
from workbench.metrics.status import RunStatus
from workbench.running.connection import stored_status
from workbench.sweeping.study import Trial, best
from workbench.sweeping.sweep_handle import Sweep
from workbench.sweeping.sweep_status import GOING_ON, OPEN, SweepStatus
from workbench.tables import Columns, Table
from workbench.widgets.charts import static_render, sweep_chart
from workbench.widgets.charts.live import Figure, LiveCharts
from workbench.widgets.kernel.refresher import Actions
from workbench.widgets.kernel.saved_view import Bundle, Shown
from workbench.widgets.panel.badge import badge
from workbench.widgets.panel.buttons import button
from workbench.widgets.views.followed_table import FollowedTable
from workbench.widgets.views.table import Action, Column, RowTable

STILL_ROWS = 12  # of the table in a saved notebook, the best first

_BEFORE = (
    Column("run", "run"),
    Column("mark", "", help="★ the best so far"),
    Column("state", "state", "state"),
    Column("value", "value", "number", help="mean of the metric over the last tenth of the frames, or of those so far"),
    Column("curve", "so far", "sparkline", help="values at equal frames"),
    Column("frames", "frames", "number", help="emulator frames, repeated actions counted"),
)
ACTIONS = (Action("show", "Show"), Action("hide", "Hide"), Action("stop", "Stop", confirm="Stop {key}?"))


class SweepView(FollowedTable):
    """A sweep on the screen: its `charts`, the table of its trials, and the panel of one of its runs."""

    noun = "sweep"

    def __init__(self, sweep: Sweep) -> None:
        super().__init__()
        self._sweep = sweep
        self._output: Shown | None = None
        self._saved_state: tuple[Any, ...] = ()  # state and ended trials in the notebook's picture
        self._judged: tuple[int, dict[str, float]] = (-1, {})
        self._actions = Actions()
        self._status: SweepStatus | None = None
        self._trials: list[Trial] = []
        self.charts = LiveCharts(label=f"Charts of {sweep.name}", on_pull=self._update)
        fields = [Column(name, name, kind) for name, kind in _kinds(sweep)]
        self.table = RowTable(
            [*_BEFORE, *fields, Column("said", "note")], label=f"Trials of {sweep.name}", actions=ACTIONS,
            on_action=self._do, on_pull=self._update, empty="no trial has begun yet",
        )  # fmt: skip
        self._head = ipywidgets.HTML()
        self._buttons = {name: self._button(name, title, call) for name, title, call in (
            ("best", "Show the best run", self._show_best), ("stop", "Stop the sweep", lambda: self._sweep.stop()),
            ("resume", "Resume", lambda: self._sweep.resume()))}  # fmt: skip
        bar = ipywidgets.HBox([self._head, *self._buttons.values()], layout={"flex_flow": "row wrap"})
        self._lay_out("workbench-sweep", [bar, self.charts, self.table])

    def refresh(self) -> None:
        with self._lock:
            self._status, self._trials = self._sweep.look()
            self._head.value = _headline(self._status)
            possible = [*self._status.possible, *(["best"] if self._status.best_value is not None else [])]
            for name, one in self._buttons.items():
                one.disabled = name not in possible
            self.charts.show(self._figures())
            best_trial = best(self._trials, self._sweep.goal)
            self.table.show([self._row(trial, best_trial) for trial in self._trials])
            self._keep()

    def still(self) -> Bundle:
        """The outputs for a saved notebook: self-contained text/html, image/png and text/plain."""
        status = self._status or self._sweep.status
        figures = self._figures()
        images = {key: base64.b64encode(_png(figure, *sweep_chart.WIDEST[key])).decode()
                  for key, figure in figures.items()}
        pictures = "".join(tables.picture(image, figures[key].title) for key, image in images.items())
        body = f"{_headline(status)}{pictures}{self._ranked()._repr_html_()}"
        return {"text/html": tables.output(body, tables.SMALL), "image/png": images["parallel"],
                "text/plain": f"{status!r}\n{self._sweep.table.to_string()}"}

    def __repr__(self) -> str:
        return f"SweepView({self._sweep.name})"

    def _ipython_display_(self) -> None:
        self._output = Shown(self.view, self.still())
        self._onlookers.expect()

    # --- reading ------------------------------------------------------------------------------------------------

    def _figures(self) -> dict[str, Figure]:
        over = sum(trial.state != "running" for trial in self._trials)
        if self._judged[0] != over:
            self._judged = over, self._sweep.importance
        return sweep_chart.figures(
            self._trials, self._judged[1], self._sweep.space, metric=self._sweep.metric, goal=self._sweep.goal
        )

    def _row(self, trial: Trial, best_trial: Trial | None) -> dict[str, Any]:
        live = trial.state == "running"
        stands = live and self._status is not None and self._status.state not in GOING_ON
        now = _now(trial.run) if live else None
        frames = trial.frames if now is None else now.frames
        is_best = best_trial is not None and trial.number == best_trial.number
        return {
            "key": trial.run, "run": trial.run, "mark": "★" if is_best else "", "value": trial.value,
            "state": OPEN if stands else trial.state,
            "curve": [(float(mark), value) for mark, value in trial.curve.items()], "frames": frames,
            **{name: _cell(value) for name, value in trial.fields.items()}, "said": trial.said.partition("\n")[0],
            "bad": False, "actions": ["hide" if self._shows(trial.run) else "show",
                                      *(["stop"] if now is not None and now.alive else [])],
        }  # fmt: skip

    def _keep(self) -> None:
        """Puts a newer picture into the notebook when a trial has ended or the sweep's state has changed."""
        status = self._status
        if self._output is None or status is None:
            return
        now = (status.state, status.over)
        if now != self._saved_state:
            self._saved_state = now
            self._output.keep(self.still())

    def _ranked(self) -> Table[Trial]:
        sign = -1 if self._sweep.goal == "max" else 1
        ranked = sorted(self._trials, key=lambda trial: (trial.value is None, sign * (trial.value or 0.0)))[:STILL_ROWS]
        fields: Columns = {name: partial(_field, name=name) for name in self._sweep.space}
        return Table(ranked, {**_RANKED, **fields}, empty="no trial has begun yet")

    # --- actions ------------------------------------------------------------------------------------------------

    def _button(self, name: str, title: str, call: Callable[[], object]) -> Any:
        """A button that calls it; progress or the error is shown under the table."""

        def act() -> None:
            self.table.say(f"{title} …")
            call()
            self.table.say("")
            self.refresh()

        made = button(f"sweep-{name}", title, "", "")
        made.on_click(lambda _: self._actions.submit(act, lambda words: self.table.say(f"{title}: {words}", bad=True)))
        return made

    def _show_best(self) -> None:
        self._show(self._sweep.best)


def _kinds(sweep: Sweep) -> list[tuple[str, Any]]:
    """The searched fields, and whether their cells are numbers or texts."""
    return [(name, "number" if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in
                                   getattr(entry, "values", (0.0,))) else "text")
            for name, entry in sweep.space.items()]  # fmt: skip


def _cell(value: Any) -> Any:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def _field(trial: Trial, *, name: str) -> str:
    return _written(trial.fields.get(name))


def _written(value: Any) -> str:
    return "" if value is None else sweep_chart.as_text(value)


_RANKED: Columns = {"run": lambda trial: trial.run, "state": lambda trial: trial.state,
                    "value": lambda trial: _written(trial.value), "frames": lambda trial: str(trial.frames)}


def _now(run: str) -> RunStatus | None:
    with suppress(WorkbenchError):
        return stored_status(rundir.find(run))
    return None


def _headline(status: SweepStatus) -> str:
    """Name, state and progress, as HTML."""
    progress = status.line().partition(", ")[2]
    name = f"<b>{html.escape(status.name)}</b>"
    return f'<div style="font-size:14px;margin-right:1em">{name}{badge(status.state)}{html.escape(progress)}</div>'


def _png(figure: Figure, width: int, height: int) -> bytes:
    spec = {**figure.altair().to_dict(validate=False), "width": width, "height": height,
            "config": static_render.theme()}
    return static_render.picture(spec)

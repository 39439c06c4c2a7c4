"""What a run's panel consists of: its widgets, where they stand, and what each shows of a moment of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import ipywidgets

from workbench.config import RunConfig
from workbench.metrics import History
from workbench.widgets.charts import static_render
from workbench.widgets.charts.axes import AXES
from workbench.widgets.charts.live import LiveCharts
from workbench.widgets.kernel import assets, closing
from workbench.widgets.panel import dashboard, facts
from workbench.widgets.panel.actor_table import ActorTable, Keeper
from workbench.widgets.panel.buttons import Buttons, Notes
from workbench.widgets.panel.controls import Control, Looks
from workbench.widgets.panel.snapshot import Snapshot
from workbench.widgets.panel.tuning_history import Changes


class Asked(Protocol):
    """Who does what a person asks for; every call returns at once."""

    def press(self, what: str) -> None:
        """A button: "pause", "resume", "checkpoint" or "stop"."""

    def change(self, name: str, value: Any) -> None:
        """Another value of a live field, or of "actors"."""

    def take_back(self, name: str | None) -> None:
        """Undo the last change of a field; None: of all."""

    def redraw(self) -> None:
        """Draw the charts anew."""


class PanelView:
    """The widgets of a panel.

    Attributes:
        box: all of them.
        controls: by name, those of live fields, and of the number of "actors".
        notes: what became of what was asked for.
    """

    def __init__(
        self, name: str, config: RunConfig, history: History, *, asked: Asked, keeper: Keeper,
        on_pull: Callable[[], None],
    ) -> None:
        self.headline, self.progress, self.facts = (_html(part) for part in ("headline", "progress", "facts"))
        self.buttons, self.notes = Buttons(asked.press), Notes()
        looks, known = Looks(), config.all_settings()
        self.controls = {
            field: Control(one, config.value(field), asked.change, undo=asked.take_back, looks=looks)
            for field, one in known.items() if one.live or field == "actors"
        }
        self.axis = ipywidgets.ToggleButtons(
            options=AXES, description="charts over", tooltips=[f"all charts over {axis}" for axis in AXES],
            style={"button_width": "auto"},
        )
        self.axis.add_class("workbench-axis")
        self.axis.observe(lambda _: asked.redraw(), names="value")
        self.charts = LiveCharts(label=f"Charts of {name}", on_pull=on_pull)
        self.actor_table = ActorTable(keeper)
        self.changes = Changes(history, undo=lambda: asked.take_back(None))
        self.box = self._placed()

    def _placed(self) -> Any:
        style = ipywidgets.HTML(f"<style>{assets.text('panel.css')}</style>", layout={"display": "none"})
        wrapping = {"flex_flow": "row wrap"}
        tuning = [one.view for name, one in self.controls.items() if name != "actors"]
        box = ipywidgets.VBox([
            style, self.headline, self.progress, self.facts,
            ipywidgets.HBox([self.buttons.view, self.controls["actors"].view], layout=wrapping),
            self.notes.view, self.axis, self.charts,
            _section("hyperparameters", "Live hyperparameters", ipywidgets.Box(tuning, layout=wrapping)),
            _section("actors", "Actors", self.actor_table.view),
            _section("history", "History of changes", self.changes.view),
        ])
        box.add_class("workbench-panel")
        box._view_count = 0  # makes front ends count their views of it
        return box

    def show(self, now: Snapshot) -> int:
        """Bring everything but the charts up to date; the id of the newest event."""
        self.headline.value = static_render.headline(now)
        self.progress.value = facts.progress(now)
        self.facts.value = facts.facts(now)
        self.buttons.show(now.status.state)
        self.actor_table.show(now.status)
        newest = self.changes.look()
        undoable = self.changes.undoable()
        for name, control in self.controls.items():
            if control.value != (value := now.config.value(name)) and not control.pending:
                control.show(value)
            control.undo.disabled = name not in undoable
        return newest

    def draw(self, now: Snapshot) -> None:
        """Bring the charts up to date, from a snapshot with all that they draw."""
        self.charts.show(dashboard.figures(now, axis=self.axis.value))

    def widgets(self) -> list[Any]:
        """The box and everything in it."""
        return closing.widgets(self.box)


def _html(name: str) -> Any:
    made = ipywidgets.HTML()
    made.add_class(f"workbench-{name}")
    return made


def _section(name: str, title: str, body: Any) -> Any:
    """A part that a button opens and closes; the page does that by itself (panel.css), kernel or not."""
    toggle = ipywidgets.ToggleButton(description=title, icon="caret-right", tooltip=f"show or hide: {title.lower()}",
                                     layout={"width": "auto"})
    toggle.add_class("workbench-toggle")
    toggle.add_class(f"workbench-toggle-{name}")
    section = ipywidgets.VBox([toggle, body])
    section.add_class("workbench-section")
    return section

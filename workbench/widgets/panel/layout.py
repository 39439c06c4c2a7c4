"""The widgets of a run's panel, their places, and what each shows of a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets

from workbench.config import RunConfig
from workbench.metrics import History
from workbench.widgets.charts.axes import AXES
from workbench.widgets.charts.live import LiveCharts
from workbench.widgets.kernel import assets, closing
from workbench.widgets.panel import dashboard, facts
from workbench.widgets.panel.actor_table import ActorTable
from workbench.widgets.panel.banner import Banner
from workbench.widgets.panel.buttons import Buttons, Notes
from workbench.widgets.panel.next_steps import NextSteps
from workbench.widgets.panel.snapshot import Snapshot
from workbench.widgets.panel.tuning.advice import AdviceLine
from workbench.widgets.panel.tuning.control_grid import ControlGrid
from workbench.widgets.panel.tuning.controls import FieldControl, SharedStyles
from workbench.widgets.panel.tuning.tuning_history import TuningHistory

if TYPE_CHECKING:
    from workbench.running.handle import Run
    from workbench.widgets.panel.panel_commands import PanelCommands


class PanelView:
    """The widgets of a panel.

    Attributes:
        box: all of them.
        controls: the controls of live fields, and of the number of "actors", by name.
        notes: the log of commands and their results.
    """

    def __init__(
        self, name: str, config: RunConfig, history: History, *, callbacks: PanelCommands, run: Run,
        on_pull: Callable[[], None],
    ) -> None:
        self.gone, self.headline, self.progress, self.facts = (  # gone: the page shows it once the kernel is gone
            ipywidgets.HTML().add_class(f"workbench-{part}") for part in ("gone", "headline", "progress", "facts"))
        self.banner = Banner(run)
        self._trend, self._seen = "", set[str]()
        self.buttons, self.notes = Buttons(callbacks.press), Notes()
        self.advice = AdviceLine(callbacks.apply)
        self.next_steps = NextSteps(run, on_resume=callbacks.resumed)
        styles = SharedStyles()
        self.controls = {
            field: FieldControl(setting, config.value(field), callbacks.change, undo=callbacks.take_back, styles=styles)
            for field, setting in config.all_settings().items() if setting.live or field == "actors"
        }
        self.grid = ControlGrid(config.all_settings(), self.controls, styles)
        self.axis = ipywidgets.ToggleButtons(
            options=AXES, description="charts over", tooltips=[f"all charts over {axis}" for axis in AXES],
            style={"button_width": "auto"},
        ).add_class("workbench-axis")
        self.axis.observe(lambda _: callbacks.redraw(), names="value")
        self.charts = LiveCharts(label=f"Charts of {name}", on_pull=on_pull).add_class("workbench-charts-place")
        self.actor_table = ActorTable(run)
        self.changes = TuningHistory(history, undo=lambda: callbacks.take_back(None))
        self.box = self._layout()

    def _layout(self) -> Any:
        style = ipywidgets.HTML(f"<style>{assets.text('panel.css')}</style>", layout={"display": "none"})
        steering = [self.buttons.view, self.controls["actors"].view]
        self._steering = ipywidgets.HBox(steering, layout={"flex_flow": "row wrap"}).add_class("workbench-steering")
        return ipywidgets.VBox([
            style, self.gone, self.headline, self.banner.view, self.progress, self.facts, self._steering,
            self.advice.view, self.next_steps.view, self.notes.box, self.axis, self.charts,
            _section("hyperparameters", "Live hyperparameters", self.grid.view),
            _section("actors", "Actors", self.actor_table.view),
            _section("history", "History of changes", self.changes.view),
        ]).add_class("workbench-panel")

    def show(self, now: Snapshot) -> int:
        """Update everything but the charts; returns the id of the newest event."""
        self.gone.value = facts.detached(now)
        self.headline.value = facts.headline(now)
        self.banner.show(now)
        self.progress.value = facts.progress(now)
        self._seen |= facts.known(now)
        self.facts.value = facts.facts(now, trend=self._trend, seen=self._seen)
        self.buttons.show(now.status.state)
        self.advice.show(now)
        self.next_steps.show(ended=now.ended, collapsed=now.status.collapsed)
        self._steering.layout.display = "none" if now.ended else ""
        self.actor_table.show(now.status)
        newest = self.changes.refresh()
        undoable = self.changes.undoable()
        for name, control in self.controls.items():
            control.follow(now.config.value(name))
            control.undo.disabled = name not in undoable
        self.grid.show({change.name for change in self.changes.all})
        return newest

    def draw(self, now: Snapshot) -> None:
        """Update the charts from a snapshot with all their series, and the trend of the return."""
        self._trend = facts.trend_of(now.series)
        self.charts.show(dashboard.figures(now, axis=self.axis.value))

    def widgets(self) -> list[Any]:
        """The box and everything in it."""
        return closing.widgets(self.box)


def _section(name: str, title: str, body: Any) -> Any:
    """A part that a button opens and closes; the page does that alone (panel.css), without a kernel."""
    toggle = ipywidgets.ToggleButton(description=title, icon="caret-right", tooltip=f"show or hide: {title.lower()}",
                                     layout={"width": "auto"})
    toggle.add_class("workbench-toggle").add_class(f"workbench-toggle-{name}")
    return ipywidgets.VBox([toggle, body]).add_class("workbench-section")

"""A table of runs that follows them while a page shows it, with the panel of one of them below."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, ClassVar

import ipywidgets

from workbench import rundir
from workbench.rundir import RunDirectory
from workbench.running.handle import Run
from workbench.widgets.kernel.followed import FollowedView
from workbench.widgets.kernel.onlookers import Onlookers
from workbench.widgets.panel.panel import RunPanel
from workbench.widgets.views.table import RowTable


class FollowedTable(FollowedView):
    """A subclass makes its parts, then calls `_lay_out`; the `on_action` of its table is `_do`.

    Attributes:
        table: its rows are keyed by the names of runs.
        panel: of the run below the table, or None.
    """

    period_s = 2.0
    noun: ClassVar[str]  # "table"
    table: RowTable

    def __init__(self) -> None:
        self.panel: RunPanel | None = None
        self._run: Run | None = None
        self._lock = threading.RLock()
        self._place = ipywidgets.VBox()
        self._acts: dict[str, Callable[[RunDirectory], str | None]] = {
            "show": lambda directory: self._show(Run(directory)), "hide": lambda _: self._hide(), "stop": _stop}

    def _lay_out(self, name: str, parts: Sequence[Any]) -> None:
        """Make `view` of the parts, with the place of the panel below, and read the first rows."""
        self.view = ipywidgets.VBox([*parts, self._place]).add_class(name)
        self._onlookers = Onlookers(*parts, wake=self._follow)
        self.refresh()

    @abstractmethod
    def refresh(self) -> None:
        """Brings everything up to date. Raises what reading raises."""

    def _do(self, name: str, action: str) -> str | None:
        """Does what a button of a row says, in the row's thread; returns a sentence for the line under the table."""
        sentence = self._acts[action](rundir.find(name))
        self.refresh()
        return sentence

    def _update(self) -> None:
        complaint = f"The {self.noun} could not be refreshed"
        try:
            self.refresh()
            if self.table.said.startswith(complaint):
                self.table.say("")
        except Exception as error:  # shown; it must not end the thread of the other widgets
            self.table.say(f"{complaint}: {error}", bad=True)

    def close(self) -> None:
        """Removes the view and the panel below it; what it shows goes on."""
        self._hide()
        super().close()

    def _shows(self, name: str) -> bool:
        """Whether the panel is that of the run of this name."""
        return self._run is not None and self._run.name == name

    def _show(self, run: Run) -> None:
        """Show the panel of a run instead of another one's."""
        panel = RunPanel(run)
        with self._lock:
            self._hide()
            self._run, self.panel = run, panel
            self._place.children = (panel.view,)

    def _hide(self) -> None:
        with self._lock:
            panel, run = self.panel, self._run
            self.panel = self._run = None
            self._place.children = ()
        if panel is not None and run is not None:
            panel.close()
            run.close()


def _stop(directory: RunDirectory) -> str:
    with closing(Run(directory)) as run:
        return f"{directory.name}: {run.stop().line()}"

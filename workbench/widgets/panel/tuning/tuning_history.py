"""The changes of a run, newest first, with a button that undoes the last one.

They are read from the run's events. So they survive a restart of the kernel, and include changes that were made
elsewhere.
"""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Sequence

import ipywidgets

from workbench.metrics import History
from workbench.running.reading.changes import Change, last
from workbench.running.reading.changes import changes as changes_of
from workbench.tables import number
from workbench.widgets.kernel.message_line import message_line
from workbench.widgets.panel.buttons import button
from workbench.widgets.panel.tuning.controls import as_text

MOST = 100  # changes in the table


class TuningHistory:
    """The table of changes.

    Attributes:
        view: the button and the table.
        all: every change, oldest first.
        undo: the button.
    """

    def __init__(self, history: History, *, undo: Callable[[], None]) -> None:
        self._history = history
        self._newest = 0  # id of the newest event
        self.all: list[Change] = []
        self.undo = button("undo-last", "Undo the last change", "undo", "nothing to undo")
        self.undo.layout.align_self = "flex-start"
        self.undo.on_click(lambda _: undo())
        self.message = ipywidgets.HTML().add_class("workbench-error")
        self._table = ipywidgets.HTML(tabbable=True).add_class("workbench-history")  # it scrolls
        self.view = ipywidgets.VBox([self.undo, self.message, self._table])
        self._show()

    def refresh(self) -> int:
        """Show new changes; returns the id of the newest event of any kind."""
        events = self._history.events()
        newest = int(events[-1]["id"]) if events else 0
        if newest != self._newest:
            self._newest, self.all = newest, changes_of(events)
            self._show()
        return newest

    def undoable(self) -> set[str]:
        """Names of fields with a change that can be undone."""
        return {change.name for change in self.all if change.stands}

    def say(self, message: str) -> None:
        """Show an error under the button; "": none."""
        self.message.value = message_line(message, bad=True)

    def _show(self) -> None:
        undone = [f"{change.name} back to {as_text(change.old)}" for change in last(self.all)]
        self.undo.disabled = not undone
        self.undo.tooltip = " and ".join(undone) or "nothing to undo"
        self._table.value = table(self.all)


def table(changes: Sequence[Change]) -> str:
    """Changes as an HTML table, newest first."""
    if not changes:
        return '<div class="workbench-quiet">No changes since the launch.</div>'
    head = "".join(f'<th scope="col">{name}</th>' for name in ("time", "frames", "what", "from", "to", "note"))
    rows = "".join(map(_row, reversed(changes[-MOST:])))
    caption = f"the last {MOST} of {len(changes)} changes" if len(changes) > MOST else "changes, newest first"
    return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(change: Change) -> str:
    note = "taken back" if change.undone else "undo" if change.undoes is not None else ""
    cells = [
        time.strftime("%m-%d %H:%M:%S", time.localtime(change.time)), number(change.frames or 0), change.name,
        as_text(change.old), as_text(change.new), note,
    ]
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"

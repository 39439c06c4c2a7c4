"""The history of changes of a run, newest first, and the button that takes the last one back.

It is read from the run's events, so it is whole after the kernel was restarted, and tells of changes made elsewhere.
"""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Sequence

import ipywidgets

from workbench.metrics import History
from workbench.running.tuning import Change, changes, last
from workbench.tables import number
from workbench.widgets.panel.controls import as_text

MOST = 100  # changes shown


class Changes:
    """What was changed while the run went on.

    Attributes:
        view: the button and the table.
        all: every change, oldest first.
        undo: the button.
    """

    def __init__(self, history: History, *, undo: Callable[[], None]) -> None:
        self._history = history
        self._newest = 0  # id of the newest event
        self.all: list[Change] = []
        self.undo = ipywidgets.Button(description="Undo the last change", icon="undo",
                                       layout={"width": "auto", "align_self": "flex-start"})
        self.undo.add_class("workbench-undo-last")
        self.undo.on_click(lambda _: undo())
        self.message, self._table = ipywidgets.HTML(), ipywidgets.HTML()
        self.message.add_class("workbench-error")
        self._table.add_class("workbench-history")
        self.view = ipywidgets.VBox([self.undo, self.message, self._table])
        self._show()

    def look(self) -> int:
        """Read what is new, and show it; the id of the newest event of any kind."""
        events = self._history.events()
        newest = int(events[-1]["id"]) if events else 0
        if newest != self._newest:
            self._newest, self.all = newest, changes(events)
            self._show()
        return newest

    def undoable(self) -> set[str]:
        """Fields of which a change stands that can be taken back."""
        return {one.name for one in self.all if one.stands}

    def say(self, message: str) -> None:
        """Say under the button what went wrong; "": nothing did."""
        self.message.value = f'<div role="alert">⚠ {html.escape(message)}</div>' if message else ""

    def _show(self) -> None:
        back = last(self.all)
        self.undo.disabled = not back
        self.undo.tooltip = " and ".join(f"{one.name} back to {as_text(one.old)}" for one in back) or "nothing to undo"
        self._table.value = table(self.all)


def table(made: Sequence[Change]) -> str:
    """Changes as an HTML table, newest first."""
    if not made:
        return '<div class="workbench-quiet">Nothing was changed since the launch.</div>'
    head = "".join(f'<th scope="col">{name}</th>' for name in ("time", "frames", "what", "from", "to", ""))
    rows = "".join(_row(one) for one in reversed(made[-MOST:]))
    more = f"the last {MOST} of {len(made)} changes" if len(made) > MOST else "changes, newest first"
    return f"<table><caption>{more}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(one: Change) -> str:
    said = "taken back" if one.undone else "undo" if one.undoes is not None else ""
    cells = [
        time.strftime("%m-%d %H:%M:%S", time.localtime(one.time)), number(one.frames or 0), one.name,
        as_text(one.old), as_text(one.new), said,
    ]
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"

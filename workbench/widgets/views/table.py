"""A table whose rows can be sorted, selected and acted upon; its browser half is widgets/src/table.js.

Cells travel as raw numbers and text: the browser sorts and formats them, and counts "ago" cells up itself. `show` sends
changed rows; a view that appears, or that has received nothing for a while, gets all of them. A row's actions run in a
thread, one at a time, and their errors appear under the row.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import anywidget
import traitlets

from workbench.tables import as_json
from workbench.widgets.kernel import assets
from workbench.widgets.kernel.refresher import Actions

Kind = Literal["text", "number", "ago", "state", "sparkline"]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column. None is an empty cell of any kind.

    Attributes:
        name: key of its cells in the rows.
        kind: "text"; "number"; "ago", a moment in unix s, shown as the time since then, which counts by itself;
            "state", a badge; "sparkline", a list of numbers, or of pairs (x, y), sorted by the last of them.
        help: tooltip of its header.
    """

    name: str
    title: str
    kind: Kind = "text"
    unit: str = ""
    help: str = ""


@dataclass(frozen=True)
class Action:
    """One button per row.

    Attributes:
        confirm: question before the action, such as "Stop {key}?", where {key} and {column} are the row's; None: no
            question.
        danger: whether the button warns that the action cannot be undone easily.
    """

    name: str
    title: str
    confirm: str | None = None
    danger: bool = False


class RowTable(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget has no types here
    """A live table.

    Attributes:
        on_action: called in a separate thread with the row's key and the action's name. Its result appears under the
            table, any exception under the row.
        on_select: called with the selected row's key in the thread of the browser's message: must return at once.
        on_pull: brings the rows up to date, for front ends that receive nothing from threads (Colab); called when a
            view has received nothing for 4 s.
        selected: key of the selected row, or None.
    """

    _esm = assets.text("table.js")
    _css = assets.text("table.css")
    _shape = traitlets.Dict().tag(sync=True)
    selected = traitlets.Unicode(None, allow_none=True).tag(sync=True)

    def __init__(
        self, columns: Sequence[Column], *, label: str, actions: Sequence[Action] = (),
        on_action: Callable[[str, str], str | None] | None = None, selectable: bool = False,
        on_select: Callable[[str], None] | None = None, on_pull: Callable[[], None] | None = None,
        empty: str = "nothing yet", row: str = "{key}",
    ) -> None:
        """Makes an empty table.

        Args:
            label: name of the table, for screen readers.
            selectable: whether a click or Enter selects a row.
            empty: text of a table without rows.
            row: name of a row, such as "actor {key}"; {key} and {column} are the row's.
        """
        self.on_action, self.on_select, self.on_pull = on_action, on_select, on_pull
        self._titles = {action.name: action.title for action in actions}
        self._guard = threading.RLock()
        self._rows: dict[str, dict[str, Any]] = {}  # rows as `show` got them, in their order
        self._browser_rows: dict[str, dict[str, Any]] = {}  # rows as the browser has them
        self._doing: dict[str, str] = {}  # titles of running actions, by row
        self._failed: dict[str, str] = {}  # errors of the last actions, by row
        self._workers: dict[str, Actions] = {}
        self._line = {"text": "", "bad": False}
        self._last_message: dict[str, Any] = {}
        shape = {
            "columns": [asdict(column) for column in columns], "actions": [asdict(action) for action in actions],
            "label": label, "selectable": selectable, "pulls": on_pull is not None, "empty": empty, "row": row,
        }
        super().__init__(_shape=shape)
        self.on_msg(self._on_message)

    def show(self, rows: Sequence[Row]) -> None:
        """Shows these rows, in this order until a person sorts them.

        A row has "key", a str, and a cell for each column by its name; and may have "actions", the names of those that
        are possible now (default: all); "note", a text under it; "bad", whether the note is an error (default: True).
        """
        with self._guard:
            self._rows = {str(row["key"]): {name: as_json(value) for name, value in row.items()} for row in rows}
            for by_key in (self._failed, self._workers):
                for key in [key for key in by_key if key not in self._rows and key not in self._doing]:
                    del by_key[key]
            self._tell()

    def say(self, text: str, *, bad: bool = False) -> None:
        """Replaces the line under the table; "" clears it."""
        with self._guard:
            self._line = {"text": text, "bad": bad}
            self._tell()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows on the screen, in the order of `show`."""
        with self._guard:
            return [self._dressed(row) for row in self._rows.values()]

    @property
    def said(self) -> str:
        """The line under the table."""
        return str(self._line["text"])

    def act(self, key: str, action: str) -> None:
        """Does the same as the button `action` of the row `key`, without a question; returns at once."""
        with self._guard:
            act = self.on_action
            if key not in self._rows or action not in self._titles or key in self._doing or act is None:
                return  # the row is gone, or was clicked twice
            self._doing[key] = self._titles[action]
            self._failed.pop(key, None)
            self._tell()
            self._workers.setdefault(key, Actions()).submit(
                lambda: self._end(key, act(key, action)), lambda failure: self._end(key, None, failure))

    def _end(self, key: str, outcome: str | None, failure: str = "") -> None:
        with self._guard:
            self._doing.pop(key, None)
            if failure:
                self._failed[key] = failure
            if failure and key not in self._rows:
                self.say(failure, bad=True)
            elif outcome:
                self.say(outcome)
            else:
                self._tell()

    def _on_message(self, _: Any, content: dict[str, Any], buffers: Any) -> None:
        """Handles a view's message."""
        kind = content.get("type")
        if kind == "action":
            self.act(str(content.get("key")), str(content.get("action")))
        elif kind == "select" and content.get("key") in self._rows:
            self.selected = content["key"]
            if self.on_select is not None:
                self.on_select(content["key"])
        elif kind in ("hello", "pull"):
            if kind == "pull" and self.on_pull is not None:
                self.on_pull()
            with self._guard:
                self._tell(all=True)

    def _tell(self, *, all: bool = False) -> None:
        """Sends changed rows, or all, and their order; sends even without changes if views would pull otherwise."""
        now = {key: self._dressed(row) for key, row in self._rows.items()}
        changed = [row for key, row in now.items() if all or self._browser_rows.get(key) != row]
        content: dict[str, Any] = {"type": "rows", "all": all, "keys": list(now), "said": self._line}
        if changed or content != self._last_message or self.on_pull is not None:
            self.send({**content, "rows": changed, "now": time.time()})
        self._browser_rows, self._last_message = now, content

    def _dressed(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with its running action or its last error."""
        key = str(row["key"])
        if key in self._doing:
            return {**row, "busy": True, "note": f"{self._doing[key]} …", "bad": False}
        if key in self._failed:
            return {**row, "note": self._failed[key], "bad": True}
        return row

"""A table on the screen whose rows can be sorted, chosen and acted upon; its browser half is widgets/src/table.js.

Cells travel as raw numbers and text: the browser sorts and formats them, and lets "ago" cells count by themselves.
`show` sends the rows that changed; a view that appears, or that heard nothing for a while, gets all of them. What a
row's button asks for is done in a thread, one thing at a time per row, and what goes wrong is said under that row.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import anywidget
import traitlets

from workbench.widgets.kernel import assets
from workbench.widgets.kernel.refresher import Actions

Kind = Literal["text", "number", "time", "ago", "duration", "state", "sparkline"]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column. None is an empty cell of any kind.

    Attributes:
        name: key of its cells in the rows.
        kind: "text"; "number"; "time", a moment in unix s, shown as date and time; "ago", a moment in unix s, shown as
            the time since then, which counts by itself; "duration" in s; "state", a badge; "sparkline", a list of
            numbers, or of pairs (x, y), sorted by the last of them.
        help: shows up under the pointer on its header.
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
        confirm: what is asked before it is done, such as "Stop {key}?"; {key} and {column} are the row's. None:
            it is done at once.
        danger: whether it is shown as one that cannot be undone easily.
    """

    name: str
    title: str
    confirm: str | None = None
    danger: bool = False


class RowTable(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget has no types here
    """Rows on the screen.

    Attributes:
        on_action: called in a thread of its own with the row's key and the action's name. What it returns is said
            under the table, what it raises under the row, whatever it is.
        on_select: called with the key of the row that a person chose, in the thread in which the browser's message
            came: it must return at once.
        on_pull: brings the rows up to date, for front ends that get nothing from threads (Colab); called where a view
            got nothing for 4 s.
        selected: key of the chosen row; None: none.
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
        """An empty table.

        Args:
            label: what the table is, for people who do not see it.
            selectable: whether a row can be chosen, by a click or Enter.
            empty: what it says while it has no rows.
            row: what a row is called, such as "actor {key}"; {key} and {column} are the row's.
        """
        self.on_action, self.on_select, self.on_pull = on_action, on_select, on_pull
        self._titles = {one.name: one.title for one in actions}
        self._guard = threading.RLock()
        self._given: dict[str, dict[str, Any]] = {}  # rows as `show` got them, in their order
        self._sent: dict[str, dict[str, Any]] = {}  # and as the browser has them
        self._doing: dict[str, str] = {}  # what is being done, by row
        self._failed: dict[str, str] = {}  # why the last action on a row failed
        self._workers: dict[str, Actions] = {}
        self._said = {"text": "", "bad": False}
        self._told: dict[str, Any] = {}
        shape = {
            "columns": [asdict(one) for one in columns], "actions": [asdict(one) for one in actions], "label": label,
            "selectable": selectable, "pulls": on_pull is not None, "empty": empty,
            "row": row,
        }
        super().__init__(_shape=shape)
        self.on_msg(self._heard)

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows, in this order until a person sorts them.

        A row has "key", a str; a cell per column by its name; and may have "actions", the names of those that make
        sense now (default: all); "note", a text under it; "bad", whether that is an error (default: True).
        """
        with self._guard:
            self._given = {str(row["key"]): {name: _plain(value) for name, value in row.items()} for row in rows}
            for kept in (self._failed, self._workers):
                for key in [key for key in kept if key not in self._given and key not in self._doing]:
                    del kept[key]
            self._tell()

    def say(self, text: str, *, bad: bool = False) -> None:
        """Say something under the table, instead of what was said there before; "" says nothing."""
        with self._guard:
            self._said = {"text": text, "bad": bad}
            self._tell()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What is on the screen, in the order of `show`."""
        with self._guard:
            return [self._dressed(row) for row in self._given.values()]

    @property
    def said(self) -> str:
        """What stands under the table."""
        return str(self._said["text"])

    def act(self, key: str, action: str) -> None:
        """Do what the button `action` of the row `key` does, without asking; returns at once."""
        with self._guard:
            if key not in self._given or action not in self._titles or key in self._doing or self.on_action is None:
                return  # the row went away, or was clicked twice
            self._doing[key] = self._titles[action]
            self._failed.pop(key, None)
            self._tell()
            self._workers.setdefault(key, Actions()).submit(lambda: self._do(key, action))

    def _do(self, key: str, action: str) -> None:
        failure, told = "", None
        try:
            told = self.on_action(key, action) if self.on_action else None
        except Exception as error:  # shown under the row, whatever it is
            failure = str(error) or type(error).__name__
        with self._guard:
            self._doing.pop(key, None)
            if failure:
                self._failed[key] = failure
            if failure and key not in self._given:
                self.say(failure, bad=True)
            elif told:
                self.say(told)
            else:
                self._tell()

    def _heard(self, _: Any, content: dict[str, Any], buffers: Any) -> None:
        """What a view says."""
        kind = content.get("type")
        if kind == "action":
            self.act(str(content.get("key")), str(content.get("action")))
        elif kind == "select" and content.get("key") in self._given:
            self.selected = content["key"]
            if self.on_select is not None:
                self.on_select(content["key"])
        elif kind in ("hello", "pull"):
            if kind == "pull" and self.on_pull is not None:
                self.on_pull()
            with self._guard:
                self._tell(all=True)

    def _tell(self, *, all: bool = False) -> None:
        """Send the rows that changed, or all of them, and their order; even nothing, to a view that would pull."""
        now = {key: self._dressed(row) for key, row in self._given.items()}
        changed = [row for key, row in now.items() if all or self._sent.get(key) != row]
        content: dict[str, Any] = {"type": "rows", "all": all, "keys": list(now), "said": self._said}
        if changed or content != self._told or self.on_pull is not None:
            self.send({**content, "rows": changed, "now": time.time()})
        self._sent, self._told = now, content

    def _dressed(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row with what is being done to it, or what went wrong."""
        key = str(row["key"])
        if key in self._doing:
            return {**row, "busy": True, "note": f"{self._doing[key]} …", "bad": False}
        if key in self._failed:
            return {**row, "note": self._failed[key], "bad": True}
        return row


def _plain(value: Any) -> Any:
    """A cell as JSON has it: numbers of NumPy as Python's, what is not finite as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

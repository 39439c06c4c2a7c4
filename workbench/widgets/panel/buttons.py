"""The buttons of a run (pause, resume, checkpoint, stop, which asks once) and what became of what they asked for."""

from __future__ import annotations

import html
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import ipywidgets

LINES = 4

_ENABLED = {
    "pause": {"training"}, "resume": {"paused"}, "checkpoint": {"training", "paused"},
    "stop": {"starting", "training", "paused"}, "confirm": {"starting", "training", "paused"},
}
_ALIVE = _ENABLED["stop"]


class Buttons:
    """One row of buttons; each hands its name over, `stop` only after it was confirmed.

    Attributes:
        all: by name: pause, resume, checkpoint, stop, confirm, cancel.
        view: the row.
    """

    def __init__(self, ask: Callable[[str], None]) -> None:
        self.all = {
            "pause": _button("pause", "Pause", "pause", "training and acting stand still; processes stay"),
            "resume": _button("resume", "Resume", "play", "go on after a pause"),
            "checkpoint": _button("checkpoint", "Checkpoint now", "save", "write a checkpoint that is never pruned"),
            "stop": _button("stop", "Stop…", "stop", "end the run with a last checkpoint; asks once"),
            "confirm": _button("confirm", "Stop the run", "stop", "end it now, with a last checkpoint", style="danger"),
            "cancel": _button("cancel", "Go on", "undo", "leave the run alone"),
        }
        asked = {"pause": "pause", "resume": "resume", "checkpoint": "checkpoint", "confirm": "stop"}
        for name, what in asked.items():
            self.all[name].on_click(lambda _, what=what: ask(what))
        self.all["stop"].on_click(lambda _: self._ask_to_stop(True))
        for name in ("confirm", "cancel"):
            self.all[name].on_click(lambda _: self._ask_to_stop(False))
        self.view = ipywidgets.HBox(list(self.all.values()), layout={"flex_flow": "row wrap"})
        self.view.add_class("workbench-buttons")
        self._ask_to_stop(False)

    def show(self, state: str) -> None:
        """Enable what makes sense in that state of the run."""
        for name, states in _ENABLED.items():
            self.all[name].disabled = state not in states
        if state not in _ALIVE:
            self._ask_to_stop(False)

    def _ask_to_stop(self, asking: bool) -> None:
        for name in ("confirm", "cancel"):
            self.all[name].layout.display = "" if asking else "none"
        self.all["stop"].layout.display = "none" if asking else ""


class Notes:
    """The last lines on what was asked for and what became of it.

    Attributes:
        view: the widget.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: deque[list[str]] = deque(maxlen=LINES)
        self.view = ipywidgets.HTML()
        self.view.add_class("workbench-log")

    def say(self, line: str, *, bad: bool = False, instead: list[str] | None = None) -> list[str]:
        """Show a line, `instead` of an earlier one where that still stands; returns it."""
        role = ' class="workbench-bad" role="alert"' if bad else ""
        said = f"<div{role}>{time.strftime('%H:%M:%S')} {'⚠ ' if bad else ''}{html.escape(line)}</div>"
        with self._lock:
            if instead is not None and any(one is instead for one in self._lines):
                instead[:] = [said]
            else:
                self._lines.append(instead := [said])
            self.view.value = "".join(text for one in self._lines for text in one)
        return instead


def _button(name: str, label: str, icon: str, tooltip: str, *, style: str = "") -> Any:
    button = ipywidgets.Button(
        description=label, icon=icon, tooltip=tooltip, button_style=style, layout={"width": "auto"}
    )
    button.add_class(f"workbench-{name}")
    return button

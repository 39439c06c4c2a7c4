"""The buttons of a run (pause, resume, checkpoint and stop, which needs a confirmation) and a log of their results."""

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
    """One row of buttons; each passes its name on, `stop` only after a confirmation.

    Attributes:
        all: by name: pause, resume, checkpoint, stop, confirm, cancel.
        view: the row.
    """

    def __init__(self, on_press: Callable[[str], None]) -> None:
        self.all = {
            "pause": _button("pause", "Pause", "pause", "training and acting stop; the processes stay"),
            "resume": _button("resume", "Resume", "play", "continue after a pause"),
            "checkpoint": _button("checkpoint", "Checkpoint now", "save", "write a checkpoint that is never pruned"),
            "stop": _button("stop", "Stop…", "stop", "end the run with a last checkpoint; needs a confirmation"),
            "confirm": _button("confirm", "Stop the run", "stop", "end it now, with a last checkpoint", style="danger"),
            "cancel": _button("cancel", "Go on", "undo", "leave the run alone"),
        }
        commands = {"pause": "pause", "resume": "resume", "checkpoint": "checkpoint", "confirm": "stop"}
        for name, command in commands.items():
            self.all[name].on_click(lambda _, command=command: on_press(command))
        self.all["stop"].on_click(lambda _: self._show_confirmation(True))
        for name in ("confirm", "cancel"):
            self.all[name].on_click(lambda _: self._show_confirmation(False))
        self.view = ipywidgets.HBox(list(self.all.values()), layout={"flex_flow": "row wrap"})
        self.view.add_class("workbench-buttons")
        self._show_confirmation(False)

    def show(self, state: str) -> None:
        """Enable the buttons that make sense in a state of the run."""
        for name, states in _ENABLED.items():
            self.all[name].disabled = state not in states
        if state not in _ALIVE:
            self._show_confirmation(False)

    def _show_confirmation(self, visible: bool) -> None:
        for name in ("confirm", "cancel"):
            self.all[name].layout.display = "" if visible else "none"
        self.all["stop"].layout.display = "none" if visible else ""


class Notes:
    """The last few lines on commands and their results.

    Attributes:
        view: the widget.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: deque[list[str]] = deque(maxlen=LINES)
        self.view = ipywidgets.HTML()
        self.view.add_class("workbench-log")

    def say(self, message: str, *, bad: bool = False, instead: list[str] | None = None) -> list[str]:
        """Show a line, in place of the earlier line `instead` if that is still shown; returns the line."""
        role = ' class="workbench-bad" role="alert"' if bad else ""
        text = f"<div{role}>{time.strftime('%H:%M:%S')} {'⚠ ' if bad else ''}{html.escape(message)}</div>"
        with self._lock:
            if instead is not None and any(line is instead for line in self._lines):
                instead[:] = [text]
            else:
                self._lines.append(instead := [text])
            self.view.value = "".join(text for line in self._lines for text in line)
        return instead


def _button(name: str, label: str, icon: str, tooltip: str, *, style: str = "") -> Any:
    button = ipywidgets.Button(
        description=label, icon=icon, tooltip=tooltip, button_style=style, layout={"width": "auto"}
    )
    button.add_class(f"workbench-{name}")
    return button

"""The buttons of a run (pause, resume, checkpoint and stop, which needs a confirmation) and a log of their results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ipywidgets

from workbench.widgets.kernel.message_line import message_line

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
        self._state, self._busy = "", set[str]()
        self.all = {
            "pause": button("pause", "Pause", "pause", "training and acting stop; the processes stay"),
            "resume": button("resume", "Resume", "play", "continue after a pause"),
            "checkpoint": button("checkpoint", "Checkpoint now", "save", "write a checkpoint that is never pruned"),
            "stop": button("stop", "Stop…", "stop", "end the run with a last checkpoint; needs a confirmation"),
            "confirm": button("confirm", "Stop the run", "stop", "end it now, with a last checkpoint", style="danger"),
            "cancel": button("cancel", "Go on", "undo", "leave the run alone"),
        }
        commands = {"pause": "pause", "resume": "resume", "checkpoint": "checkpoint", "confirm": "stop"}
        for name, command in commands.items():
            self.all[name].on_click(lambda _, command=command: on_press(command))
        self.all["stop"].on_click(lambda _: self._show_confirmation(True))
        for name in ("confirm", "cancel"):
            self.all[name].on_click(lambda _: self._show_confirmation(False))
        row = ipywidgets.HBox(list(self.all.values()), layout={"flex_flow": "row wrap"})
        self.view = row.add_class("workbench-buttons")
        self._show_confirmation(False)

    def show(self, state: str) -> None:
        """Enable the buttons that make sense in a state of the run."""
        self._state = state
        for name, states in _ENABLED.items():
            self.all[name].disabled = state not in states or name in self._busy
        if state not in _ALIVE:
            self._show_confirmation(False)

    def busy(self, name: str, under_way: bool) -> None:
        """Disable a button while its command is under way: a second click would order the same again."""
        (self._busy.add if under_way else self._busy.discard)(name)
        if name in self.all:
            self.all[name].disabled = under_way or self._state not in _ENABLED[name]

    def _show_confirmation(self, visible: bool) -> None:
        for name in ("confirm", "cancel"):
            self.all[name].layout.display = "" if visible else "none"
        self.all["stop"].layout.display = "none" if visible else ""


class Notes:
    """The last few lines on commands and their results, over the widgets below them, so that nothing moves. Of too
    many the oldest goes that would fade.

    A line fades after some seconds (panel.css). An error, or a result that somebody waited for, stays until it is
    dismissed, or until another line of the same command comes.

    Attributes:
        view: the widget of the lines.
        box: the lines and the button that dismisses those that stay.
    """

    def __init__(self, *, whose: str = "") -> None:
        """`whose`: begins the names of its classes -log and -dismiss, where they are not the panel's."""
        self._lock = threading.Lock()
        self._lines: list[Note] = []
        self.view = ipywidgets.HTML().add_class("workbench-lines").add_class(f"workbench-{whose}log")
        self.dismiss = button(f"{whose}dismiss", "Dismiss", "times", "remove what stays on this line")
        self.dismiss.on_click(lambda _: self._clear())
        self.box = ipywidgets.HBox([self.view, self.dismiss]).add_class("workbench-lines-place")
        self._show()

    def say(
        self, message: str, *, bad: bool = False, instead: Note | None = None, of: str = "", stays: bool = False
    ) -> Note:
        """Show a line, in place of the earlier line `instead` if that is still shown; returns the line.

        Args:
            of: the command that it is about, whose earlier lines that stay it replaces.
            stays: whether it does not fade, as an error does not.
        """
        note = Note(message, bad, of, stays=stays or bad)
        with self._lock:
            at = next((at for at, line in enumerate(self._lines) if line is instead), None)
            if at is not None:
                self._lines[at] = note
            else:
                self._lines.append(note)
            self._lines = [line for line in self._lines if line is note or not (of and line.stays and line.of == of)]
            if len(self._lines) > LINES:
                self._lines.remove(next((line for line in self._lines[:-1] if not line.stays), self._lines[0]))
            self._show()
        return note

    def _clear(self) -> None:
        with self._lock:
            self._lines = [line for line in self._lines if not line.stays]
            self._show()

    def _show(self) -> None:
        self.view.value = "".join(line.as_html() for line in reversed(self._lines))
        self.dismiss.layout.display = "" if any(line.stays for line in self._lines) else "none"


@dataclass(frozen=True, eq=False)
class Note:
    """One line of `Notes`.

    Attributes:
        of: the command that it is about, or "".
        at: unix time, s.
        stays: whether it does not fade.
    """

    message: str
    bad: bool = False
    of: str = ""
    at: float = field(default_factory=time.time)
    stays: bool = False

    def as_html(self) -> str:
        """The line, with its age for the fading: a line that is drawn again goes on where it was."""
        clock = time.strftime("%H:%M:%S", time.localtime(self.at))
        fading = f'class="workbench-fades" style="animation-delay:-{max(0.0, time.time() - self.at):.1f}s"'
        also = "" if self.bad or self.message.endswith("…") else 'class="workbench-stays"' if self.stays else fading
        return message_line(self.message, bad=self.bad, before=f"{clock} ", also=also)


def button(name: str, label: str, icon: str, tooltip: str, *, style: str = "") -> Any:
    """A button with the class workbench-NAME."""
    return ipywidgets.Button(
        description=label, icon=icon, tooltip=tooltip, button_style=style, layout={"width": "auto"}
    ).add_class(f"workbench-{name}")

"""Executes the commands of a panel in order, and shows each result beside the widget that the command came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from workbench.checkpoints import Checkpoint
from workbench.metrics.status import RunStatus
from workbench.tables import number
from workbench.widgets.kernel.refresher import Actions
from workbench.widgets.panel.layout import PanelView
from workbench.widgets.panel.tuning.controls import as_text

if TYPE_CHECKING:
    from workbench.running.handle import Run


def outcome(command: str, result: Any) -> str:
    """What a command has done, in words."""
    if isinstance(result, Checkpoint):
        return f"checkpoint at {number(result.frames)} frames saved"
    if isinstance(result, RunStatus):
        return f"{result.state} at {number(result.frames)} frames"
    return f"{command}: {'done' if result is None else result}"


class PanelCommands:
    """The commands that the widgets of a panel give; every call returns at once.

    Attributes:
        view: the widgets; the panel sets it.
        resumed: shows that the run, which had ended, goes on.
    """

    view: PanelView

    def __init__(self, run: Run, refresh: Callable[[bool], None], on_resume: Callable[[], None]) -> None:
        self._run, self._refresh, self.resumed = run, refresh, on_resume
        self._actions = Actions()
        self._slow = {"checkpoint": Actions(), "stop": Actions()}  # they take minutes and must not delay other commands

    def press(self, command: str) -> None:
        """Execute the command of a button: "pause", "resume", "checkpoint" or "stop"."""
        notes, buttons = self.view.notes, self.view.buttons
        line = notes.say(f"{command} …", of=command)
        if command == "checkpoint":
            buttons.busy(command, True)

        def execute() -> None:
            try:
                result = getattr(self._run, command)()
            finally:
                buttons.busy(command, False)
            notes.say(outcome(command, result), instead=line, of=command)

        def show_error(message: str) -> None:
            notes.say(f"{command}: {message}", bad=True, instead=line, of=command)

        self._submit(execute, show_error, self._slow.get(command))

    def change(self, name: str, value: Any) -> None:
        """Change a live field, or "actors"."""
        self._change(name, value, self.view.controls[name].failed)

    def apply(self, name: str, value: Any) -> None:
        """Change a field as the panel advises; an error is in the log, since the field's section may be closed."""

        def show_error(message: str) -> None:
            self.view.notes.say(f"{name}: {message}", bad=True, of=name)

        self._change(name, value, show_error)

    def _change(self, name: str, value: Any, show_error: Callable[[str], None]) -> None:
        control = self.view.controls[name]

        def execute() -> None:
            before = control.value
            if name == "actors":
                self._run.scale(actors=value)
            else:
                self._run.tune(**{name: value})
            control.succeeded(value)
            self.view.notes.say(f"{name}: {as_text(before)} → {as_text(value)}")

        self._submit(execute, show_error)

    def take_back(self, name: str | None) -> None:
        """Undo the last change of a field; None: the last change of any field."""

        def execute() -> None:
            change = self._run.undo(name)
            self.view.changes.say("")
            for control in self.view.controls.values():
                control.say("")
            for field, value in change["new"].items():
                self.view.controls[field].show(value)
                self.view.notes.say(f"{field}: {as_text(change['old'][field])} → {as_text(value)} (undo)")

        self._submit(execute, self.view.changes.say if name is None else self.view.controls[name].say)

    def redraw(self) -> None:
        """Draw the charts again."""
        self._actions.submit(lambda: self._refresh(True))

    def _submit(
        self, execute: Callable[[], None], show_error: Callable[[str], Any], queue: Actions | None = None
    ) -> None:
        queue = queue or self._actions
        queue.submit(execute, show_error)
        queue.submit(lambda: self._refresh(False))

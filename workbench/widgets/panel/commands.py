"""Does what a person asks a run for, in order, and says what became of it where it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from workbench.metrics.status import RunStatus
from workbench.widgets.kernel.refresher import Actions
from workbench.widgets.panel.controls import as_text
from workbench.widgets.panel.layout import PanelView


class Steerable(Protocol):
    """What a panel needs of a run; `workbench.Run` is one."""

    @property
    def path(self) -> Path: ...
    @property
    def status(self) -> RunStatus: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def stop(self) -> Any: ...
    def checkpoint(self) -> Any: ...
    def tune(self, **changes: Any) -> Any: ...
    def undo(self, name: str | None = None) -> dict[str, Any]: ...
    def scale(self, *, actors: int) -> None: ...
    def restart_actor(self, index: int, *, kill: bool = False) -> None: ...


class Commands:
    """What the widgets of a panel ask for; every call returns at once. Attributes: view, set once there is one."""

    view: PanelView

    def __init__(self, run: Steerable, refresh: Callable[[bool], None]) -> None:
        self._run, self._refresh = run, refresh
        self._actions = Actions()
        self._slow = {"checkpoint": Actions(), "stop": Actions()}  # which take minutes, and must hold up nothing else

    def press(self, what: str) -> None:
        """A button: "pause", "resume", "checkpoint" or "stop"."""
        notes = self.view.notes
        line = notes.say(f"{what} …")

        def done() -> None:
            result = getattr(self._run, what)()
            notes.say(f"{what}: {'done' if result is None else repr(result)}", instead=line)

        def failed(message: str) -> None:
            notes.say(f"{what}: {message}", bad=True, instead=line)

        self._submit(done, failed, self._slow.get(what))

    def change(self, name: str, value: Any) -> None:
        """Another value of a live field, or of "actors"."""
        control = self.view.controls[name]

        def done() -> None:
            before = control.value
            if name == "actors":
                self._run.scale(actors=value)
            else:
                self._run.tune(**{name: value})
            control.succeeded(value)
            self.view.notes.say(f"{name}: {as_text(before)} → {as_text(value)}")

        self._submit(done, control.failed)

    def take_back(self, name: str | None) -> None:
        """Undo the last change of a field; None: of all."""

        def done() -> None:
            change = self._run.undo(name)
            self.view.changes.say("")
            for field, value in change["new"].items():
                self.view.controls[field].show(value)
                self.view.controls[field].say("")
                self.view.notes.say(f"{field}: {as_text(change['old'][field])} → {as_text(value)} (undo)")

        self._submit(done, self.view.changes.say if name is None else self.view.controls[name].say)

    def redraw(self) -> None:
        """Draw the charts anew."""
        self._actions.submit(lambda: self._refresh(True))

    def _submit(self, done: Callable[[], None], failed: Callable[[str], Any], queue: Actions | None = None) -> None:
        def do() -> None:
            try:
                done()
            except Exception as error:  # shown where it was asked for, whatever it is
                failed(str(error) or type(error).__name__)
            self._refresh(False)

        (queue or self._actions).submit(do)

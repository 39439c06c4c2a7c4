"""The live panel of a run: state, charts, buttons and one control per live hyperparameter.

The panel reads the run's directory about once a second in a thread shared by all panels, and asks the run for what
its buttons and controls want. Charts are drawn in the kernel by vl-convert and sent as one SVG, so that nothing is
loaded from anywhere; drawing takes at most a tenth of the time. When the run ends, or `freeze()` is called, the
live output is replaced by a picture that a saved notebook keeps.
"""

from __future__ import annotations

import html
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import ipywidgets
from IPython.display import DisplayHandle, display

from workbench.client.status import RunStatus
from workbench.rundir import RunDirectory
from workbench.widgets import dashboard, picture, snapshot
from workbench.widgets.background import REFRESHER, Actions
from workbench.widgets.controls import Control, as_text
from workbench.widgets.snapshot import Snapshot

DRAW_PERIOD_S = (2.0, 10.0)  # shortest and longest
DRAW_SHARE = 0.1  # of the time may go into drawing, so that a busy machine draws less often
UNSEEN_S = 60.0  # a panel that no front end shows is followed this long
LINES = 4


class Steerable(Protocol):
    """What a panel needs of a run; `workbench.client.Run` is one."""

    @property
    def path(self) -> Path: ...
    @property
    def status(self) -> RunStatus: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def stop(self) -> Any: ...
    def checkpoint(self) -> Any: ...
    def tune(self, **changes: Any) -> Any: ...


class RunPanel:
    """A run on the screen.

    Attributes:
        view: the ipywidgets box with everything.
        controls: one per live hyperparameter, by name.
        buttons: pause, resume, checkpoint, stop, confirm, cancel.
    """

    def __init__(self, run: Steerable) -> None:
        self._run = run
        self._directory = RunDirectory(run.path)
        self._lock = threading.RLock()
        self._actions = Actions()
        self._lines: deque[list[str]] = deque(maxlen=LINES)
        self._handles: list[DisplayHandle] = []  # one per place where it is shown
        self._frozen: dict[str, Any] | None = None
        self._complaint = ""
        self._closed = False
        self._next_draw = 0.0
        self._drawn: tuple[Any, ...] = ()
        self._seen = time.monotonic()
        self._build(snapshot.read(self._directory))
        self.refresh()

    def refresh(self, *, draw: bool = False) -> Snapshot:
        """Bring text, buttons and controls up to date, and the charts if `draw`; returns what was read."""
        with self._lock:
            read = dashboard.read if draw else snapshot.read
            now = read(self._directory, status=self._run.status)
            self._show(now)
            if draw:
                self._draw(now)
            return now

    def tick(self) -> bool:
        """Called by the refresher about once a second; whether the panel wants to be called again."""
        with self._lock:
            if self._closed or self._frozen is not None:
                return False
            try:
                return self._follow()
            except Exception as error:  # shown; a panel that cannot be refreshed must not end the thread of the others
                self._complain(f"The panel could not be refreshed: {error}")
                return time.monotonic() - self._seen < UNSEEN_S

    def freeze(self) -> None:
        """Replace the live output by a static picture, which the notebook saves."""
        with self._lock:
            self.refresh(draw=True)
            self._frozen = self._static()
            for handle in self._handles:
                handle.update(self._frozen, raw=True)

    def close(self) -> None:
        """Remove the panel; the run goes on."""
        with self._lock:
            self._closed = True
            REFRESHER.remove(self)
            for widget in [self.view, *_below(self.view)]:
                widget.close()

    def __repr__(self) -> str:
        return f"<RunPanel of {self._directory.name}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        if self._frozen is not None:
            return self._frozen
        return {"application/vnd.jupyter.widget-view+json": _reference(self.view), **self._static()}

    def _ipython_display_(self) -> None:
        bundle = self._repr_mimebundle_()
        self._handles.append(DisplayHandle(f"workbench-{uuid.uuid4().hex}"))
        display(bundle, raw=True, display_id=self._handles[-1].display_id)
        if self._frozen is None and not self._closed:
            self._seen = time.monotonic()
            REFRESHER.add(self)

    # What is on the screen

    def _build(self, now: Snapshot) -> None:
        self.headline, self.sentence, self.charts, self.log = (ipywidgets.HTML() for _ in range(4))
        self.progress = ipywidgets.FloatProgress(min=0.0, max=1.0, layout={"width": "100%", "height": "10px"})
        self.buttons = {
            "pause": self._button("Pause", "pause", self._run.pause),
            "resume": self._button("Resume", "play", self._run.resume),
            "checkpoint": self._button("Checkpoint", "save", self._run.checkpoint),
            "stop": ipywidgets.Button(description="Stop…", icon="stop", layout=_BUTTON),
            "confirm": self._button("Stop the run", "stop", self._run.stop, style="danger"),
            "cancel": ipywidgets.Button(description="Go on", layout=_BUTTON),
        }
        self.buttons["stop"].on_click(lambda _: self._ask_to_stop(True))
        for name in ("confirm", "cancel"):
            self.buttons[name].on_click(lambda _: self._ask_to_stop(False))
        self.controls = {
            name: Control(one, now.config.value(name), self._tune)
            for name, one in now.config.all_settings().items() if one.live
        }
        tuning = ipywidgets.Accordion(children=[_columns([one.view for one in self.controls.values()])])
        tuning.set_title(0, "Live hyperparameters")
        buttons = ipywidgets.HBox(list(self.buttons.values()), layout={"flex_flow": "row wrap"})
        self.view = ipywidgets.VBox(
            [self.headline, self.sentence, self.progress, buttons, self.log, self.charts, tuning],
            layout={"max_width": "1000px"},
        )
        self.view.add_class("workbench-panel")
        self.view._view_count = 0  # makes front ends count their views of it
        self.view.observe(self._looked_at, names="_view_count")
        self._ask_to_stop(False)

    def _button(self, label: str, icon: str, action: Callable[[], Any], style: str = "") -> Any:
        button = ipywidgets.Button(description=label, icon=icon, button_style=style, layout=_BUTTON)
        button.on_click(lambda _: self._submit(label.lower(), action))
        return button

    def _show(self, now: Snapshot) -> None:
        self.headline.value = picture.headline(now)
        self.sentence.value = f'<div style="font-size:13px;line-height:1.4">{html.escape(snapshot.sentence(now))}</div>'
        self.progress.value = min(1.0, now.status.frames / now.config.total_frames)
        for name, states in _ENABLED.items():
            self.buttons[name].disabled = now.status.state not in states
        for name, control in self.controls.items():
            if control.value != (value := now.config.value(name)):
                control.show(value)

    def _ask_to_stop(self, asking: bool) -> None:
        for name in ("confirm", "cancel"):
            self.buttons[name].layout.display = "" if asking else "none"
        self.buttons["stop"].layout.display = "none" if asking else ""

    def _note(self, line: str, *, bad: bool = False, instead: list[str] | None = None) -> list[str]:
        """Show a line under the buttons, `instead` of an earlier one where given; returns it."""
        colour = ' style="color:#d0564f" role="alert"' if bad else ""
        said = f"<div{colour}>{time.strftime('%H:%M:%S')} {html.escape(line)}</div>"
        if instead is None:
            self._lines.append(instead := [said])
        else:
            instead[:] = [said]
        shown = "".join(text for one in self._lines for text in one)
        self.log.value = f'<div style="font-size:12px;line-height:1.4">{shown}</div>'
        return instead

    # What a person asks for

    def _submit(self, what: str, action: Callable[[], Any]) -> None:
        def do() -> None:
            try:
                result = action()
            except Exception as error:  # shown under the buttons, whatever it is
                self._note(f"{what}: {error}", bad=True, instead=line)
            else:
                self._note(f"{what}: {'done' if result is None else repr(result)}", instead=line)
            self._refresh_quietly()

        line = self._note(f"{what} …")
        self._actions.submit(do)

    def _tune(self, name: str, value: Any) -> None:
        control = self.controls[name]

        def do() -> None:
            before = control.value
            try:
                self._run.tune(**{name: value})
            except Exception as error:  # shown under the control, whatever it is
                control.failed(str(error))
            else:
                control.succeeded(value)
                self._note(f"{name}: {as_text(before)} → {as_text(value)}")

        self._actions.submit(do)

    def _refresh_quietly(self) -> None:
        try:
            self.refresh()
        except Exception as error:  # the run's directory may be gone
            self._complain(f"The panel could not be refreshed: {error}")

    def _complain(self, line: str) -> None:
        if line != self._complaint:
            self._complaint = line
            self._note(line, bad=True)

    # Following the run

    def _follow(self) -> bool:
        now = self.refresh()
        if now.ended:
            self.freeze()
            return False
        moment = time.monotonic()
        if self.view._view_count:
            self._seen = moment
            if moment >= self._next_draw and self._what_is_drawn(now) != self._drawn:
                self.refresh(draw=True)
        return moment - self._seen < UNSEEN_S

    def _draw(self, now: Snapshot) -> None:
        started = time.monotonic()
        self.charts.value = picture.svg(dashboard.rows(now))
        took = time.monotonic() - started
        self._drawn = self._what_is_drawn(now)
        shortest, longest = DRAW_PERIOD_S
        self._next_draw = time.monotonic() + min(max(shortest, took / DRAW_SHARE), longest)

    def _what_is_drawn(self, now: Snapshot) -> tuple[Any, ...]:
        return now.status.frames, now.status.updates, len(now.events), now.status.state

    def _looked_at(self, change: dict[str, Any]) -> None:
        if change["new"] and not self._closed:
            REFRESHER.add(self)

    def _static(self) -> dict[str, Any]:
        return picture.bundle(dashboard.read(self._directory, status=self._run.status))


_BUTTON = {"width": "auto"}
_ENABLED = {
    "pause": {"training"}, "resume": {"paused"}, "checkpoint": {"training", "paused"},
    "stop": {"starting", "training", "paused"}, "confirm": {"starting", "training", "paused"},
}


def _columns(views: list[Any]) -> Any:
    """Two columns that become one where the notebook is narrow."""
    half = (len(views) + 1) // 2
    columns = [ipywidgets.VBox(part, layout={"margin": "0 12px 0 0"}) for part in (views[:half], views[half:])]
    return ipywidgets.HBox(columns, layout={"flex_flow": "row wrap"})


def _below(box: Any) -> list[Any]:
    """Every widget inside a box."""
    return [one for child in getattr(box, "children", ()) for one in (child, *_below(child))]


def _reference(widget: Any) -> dict[str, Any]:
    return {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}

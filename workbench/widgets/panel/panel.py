"""The live panel of a run: state, progress, charts, buttons, actors, and one control per live hyperparameter.

A thread that all panels share reads the run's directory. A thread of the panel's own executes the commands of buttons
and controls, one after the other. While no front end shows the panel, it only checks whether the run has ended; a front
end that appears gets everything at once. When the run ends, or `freeze()` is called, a picture that a saved notebook
keeps replaces the live output, with buttons for what to do next below it; if the run is resumed, the live output
returns. Within another view (the table of runs) the widgets stay, and show how the run ended.

CSS classes of the widgets; NAME is a field such as learning_rate:
    workbench-panel, workbench-headline, workbench-progress, workbench-facts, workbench-charts, workbench-axis
    workbench-pause, -resume, -checkpoint, -stop, -confirm, -cancel (buttons), workbench-log (their results)
    workbench-next (what one does with a run that has ended): workbench-resume-run, -evaluate, -play, -fork
    workbench-gone (shown by the page alone, once the kernel is gone), workbench-dismiss (removes errors from the log)
    workbench-toggle-hyperparameters, -toggle-actors, -toggle-history (open and close a section)
    workbench-control-NAME (a row) with workbench-field-NAME, workbench-slider-NAME, workbench-undo-NAME and
    workbench-error-NAME; NAME is "actors" for the number of actors, which stands with the buttons
    workbench-search and workbench-changed-only (leave some fields), workbench-group (a heading and its fields)
    workbench-advice with workbench-apply (sets the field that it names)
    workbench-actor-table, workbench-undo-last, workbench-history
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.config import RunConfig
from workbench.errors import RunNotFound
from workbench.metrics import History
from workbench.metrics.status import RunStatus
from workbench.rundir import RunDirectory
from workbench.running.connection import stored_status
from workbench.widgets.charts import static_render
from workbench.widgets.kernel import closing
from workbench.widgets.kernel.onlookers import Onlookers
from workbench.widgets.kernel.refresher import REFRESHER
from workbench.widgets.kernel.saved_view import Bundle, Shown, reference
from workbench.widgets.panel import dashboard
from workbench.widgets.panel.layout import PanelView
from workbench.widgets.panel.panel_commands import PanelCommands
from workbench.widgets.panel.snapshot import Snapshot

if TYPE_CHECKING:
    from workbench.running.handle import Run

DRAW_PERIOD_S = 1.0  # the learner measures once a second
FIRST_PICTURE_AFTER_S = 4.0  # by then, the page of a new panel has its charts
PICTURE_PERIOD_S = 300.0  # the highest age of the picture in a notebook that is saved meanwhile
END_PERIOD_S = 3.0  # between two checks whether the run has ended
PLACES = 4  # only the newest get new pictures: where a cell was run again, earlier places are gone


@dataclass(frozen=True, eq=False)
class _PeriodicTask:
    """A task of a panel that the refresher runs at a period of its own."""

    tick: Callable[[], bool]
    period_s: float


class RunPanel:
    """The live panel of a run.

    Attributes:
        view: the ipywidgets box of all widgets.
        parts: the widgets in it.
        controls: by name, the control of each live hyperparameter and of the number of "actors".
        buttons: pause, resume, checkpoint, stop, confirm, cancel.
        closed: whether the panel was removed for good.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._directory = RunDirectory(run.path)
        self._history = History(self._directory.metrics)
        self._lock = threading.RLock()
        self._places: deque[Shown] = deque(maxlen=PLACES)  # where the panel was displayed by itself
        self._picture: Bundle | None = None  # replaces the live output
        self._resting = self.closed = False
        self._error = ""
        self._config_json: dict[str, Any] = {}  # the configuration in run.json that `_config` was read from
        self._drawn_version: tuple[Any, ...] = ()
        self._saved_version: tuple[Any, ...] = ()
        self._refreshed_at = self._saved_at = -PICTURE_PERIOD_S
        self._draw_task = _PeriodicTask(lambda: self._step(self._draw_if_new), DRAW_PERIOD_S)
        self._picture_task = _PeriodicTask(lambda: self._step(self._save_picture_if_new), PICTURE_PERIOD_S)
        self._end_task = _PeriodicTask(self._check_end, END_PERIOD_S)
        commands = PanelCommands(run, self._refresh_quietly, self._start_tasks)
        self.parts = commands.view = PanelView(
            self._directory.name, self._read_config(), self._history, callbacks=commands, run=run,
            on_pull=self._on_pull)
        self.view, self.controls, self.buttons = self.parts.box, self.parts.controls, self.parts.buttons.all
        self._onlookers = Onlookers(self.parts.charts, wake=self._start_tasks)
        self.refresh(draw=True)

    def refresh(self, *, draw: bool = False) -> Snapshot:
        """Update all widgets, the charts only if `draw`; returns a snapshot without series."""
        with self._lock:
            status = self._run.status
            now = Snapshot(self._directory.name, self._read_config(), status)
            self._newest_event = self.parts.show(now)
            if draw:
                self.parts.draw(dashboard.read(self._directory, status=status, history=self._history))
                self._drawn_version = self._version(status)
            self._refreshed_at, self._status = time.monotonic(), status
            return now

    def tick(self) -> bool:
        """Called by the refresher; returns whether to call it again."""
        return self._step(self._follow)

    def freeze(self) -> None:
        """Replace the live output by a static picture, which the notebook saves."""
        with self._lock:
            self.refresh(draw=True)
            self._picture = self._static()
            for place in self._places:
                place.freeze(self._picture, below=self._below())

    def close(self) -> None:
        """Remove the panel; the run goes on."""
        with self._lock:
            self.closed = True
            for task in (self, self._draw_task, self._picture_task, self._end_task):
                REFRESHER.remove(task)
            closing.close(self.view)

    def __repr__(self) -> str:
        return f"<RunPanel of {self._directory.name}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Bundle:
        if (picture := self._current_picture()) is not None:
            return picture
        return {**reference(self.view), **self._static()}

    def _ipython_display_(self) -> None:
        with self._lock:
            picture = self._current_picture()
            place = Shown(self.view, picture or self._in_words(), gone="")  # it says so itself
            self._places.append(place)
            if picture is not None:
                place.freeze(picture, below=self._below())
                self._start_tasks()  # only the check for the end goes on
            elif not self.closed:
                self._onlookers.expect()
                self._save_first_picture()

    # Following the run

    def _read_config(self) -> RunConfig:
        config_json = self._directory.read()["config"]
        if config_json != self._config_json:
            self._config, self._config_json = RunConfig.from_json(config_json), config_json
        return self._config

    def _version(self, status: RunStatus) -> tuple[Any, ...]:
        """Changes whenever the charts do."""
        axis = self.parts.axis.value
        return status.frames, status.updates, status.episodes, self._newest_event, status.state, axis

    def _step(self, action: Callable[[], None]) -> bool:
        """Run an action if a page shows the panel; returns whether to run it again."""
        with self._lock:
            if self.closed or self._still or not self._onlookers.present:
                return False
            try:
                action()
            except Exception as error:  # it must not end the thread of the other panels
                self._show_error(error)
            return not self._still

    def _follow(self) -> None:
        if self.refresh().ended:
            self._rest()

    def _draw_if_new(self) -> None:
        if self._version(self._status) != self._drawn_version:
            self.refresh(draw=True)

    def _save_picture_if_new(self) -> None:
        """Put a newer picture beside the live view, for a notebook that is saved meanwhile."""
        old = time.monotonic() - self._saved_at > PICTURE_PERIOD_S / 2
        if self._places and self._drawn_version != self._saved_version and old:
            self._save_picture()

    def _save_first_picture(self) -> None:
        """Save it now, or later where a server's page waits: a second of drawing would delay the charts there."""
        if "JPY_SESSION_NAME" not in os.environ:
            return self._save_picture()
        self._saved_at = time.monotonic()
        timer = threading.Timer(FIRST_PICTURE_AFTER_S, self._step, [self._save_picture])
        timer.daemon = True
        timer.start()

    def _save_picture(self) -> None:
        picture = self._static()
        for place in self._places:
            place.keep(picture)
        self._saved_version, self._saved_at = self._drawn_version, time.monotonic()

    def _static(self) -> Bundle:
        return static_render.bundle(dashboard.read(self._directory, status=self._run.status, history=self._history))

    def _in_words(self) -> Bundle:
        now = Snapshot(self._directory.name, self._config, self._status)
        return {"text/html": static_render.page(now, ""), "text/plain": static_render.text(now)}

    def _refresh_quietly(self, draw: bool) -> None:
        try:
            self.refresh(draw=draw)
        except Exception as error:  # the run's directory may be gone
            self._show_error(error)

    def _show_error(self, error: Exception) -> None:
        message = f"The panel could not be refreshed: {error}"
        if message != self._error:
            self._error = message
            self.parts.notes.say(message, bad=True)

    # The end of the run

    def _start_tasks(self) -> None:
        if self.closed:
            return
        REFRESHER.add(self)
        for task in (self._draw_task, self._picture_task, self._end_task):
            REFRESHER.add(task, period_s=task.period_s)

    def _check_end(self) -> bool:
        """Show the picture when the run has ended, also unseen, and the live output again when it is resumed."""
        with self._lock:
            if self.closed or (self._picture is not None and not self._resting):
                return False
            try:
                alive = stored_status(self._directory).alive
                if self._resting and alive:
                    self._wake()
                elif not self._still and not alive:
                    self._rest()
            except Exception as error:  # it must not end the thread of the other panels
                self._show_error(error)
                return not isinstance(error, RunNotFound)  # a deleted run does not come back
            return True

    @property
    def _still(self) -> bool:
        """Whether the panel does not follow the run: the run has ended, or a person froze the panel."""
        return self._resting or self._picture is not None

    def _current_picture(self) -> Bundle | None:
        """The picture in place of the live output, drawn on first use; None while the panel follows the run."""
        if self._resting and self._picture is None:
            self._picture = self._static()
        return self._picture

    def _below(self) -> Any:
        """The widget below the picture: what one does with a run that has ended; None while it goes on."""
        return self.parts.next_steps.view if not self._status.alive else None

    def _rest(self) -> None:
        if self._places:
            self.freeze()
        else:  # within another view, the widgets show how the run ended
            self.refresh(draw=True)
        self._resting = True

    def _wake(self) -> None:
        self.refresh(draw=True)
        picture = self._static() if self._places else {}
        self._picture, self._resting = None, False
        for place in self._places:
            place.revive(picture)
        self._onlookers.expect()

    def _on_pull(self) -> None:
        """A page has received nothing for seconds: nothing was new, or (Colab) only answers reach the page."""
        only_answers = "google.colab" in sys.modules
        recent = time.monotonic() - self._refreshed_at < END_PERIOD_S
        if self.closed or ((recent or self._still) and not only_answers):
            return
        if self._lock.acquire(blocking=False):  # else another thread refreshes the panel now
            try:
                self._refresh_quietly(True)
            finally:
                self._lock.release()
        if only_answers:
            for widget in self.parts.widgets():
                widget.send_state()

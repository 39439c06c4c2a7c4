"""The live panel of a run: state, progress, charts, buttons, actors, and one control per live hyperparameter.

The panel reads the run's directory in a thread shared by all panels, and asks the run for what its buttons and
controls want, one thing after the other in a thread of its own. While no front end shows it, it only looks whether the
run has ended; one that shows up gets all at once. When the run ends, or `freeze()` is called, the live output is
replaced by a picture that a saved notebook keeps; if the run is resumed, it comes back. Within another view (the table
of runs) it stays, and shows how the run ended.

CSS classes by which widgets are found, NAME a field such as learning_rate:
    workbench-panel, workbench-headline, workbench-progress, workbench-facts, workbench-charts, workbench-axis
    workbench-pause, -resume, -checkpoint, -stop, -confirm, -cancel (buttons), workbench-log (what became of them)
    workbench-toggle-hyperparameters, -toggle-actors, -toggle-history (open and close a section)
    workbench-control-NAME (a row) with workbench-field-NAME, workbench-slider-NAME, workbench-undo-NAME and
    workbench-error-NAME; NAME is "actors" for their number, which stands with the buttons
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
from typing import Any

from IPython import get_ipython

from workbench.config import RunConfig
from workbench.errors import RunNotFound
from workbench.metrics import History
from workbench.metrics.status import RunStatus
from workbench.rundir import RunDirectory
from workbench.running.connection import stored_status
from workbench.widgets.charts import static_render
from workbench.widgets.kernel import closing
from workbench.widgets.kernel.refresher import REFRESHER
from workbench.widgets.kernel.saved_view import Bundle, Shown
from workbench.widgets.panel import dashboard
from workbench.widgets.panel.commands import Commands, Steerable
from workbench.widgets.panel.layout import PanelView
from workbench.widgets.panel.snapshot import Snapshot

DRAW_PERIOD_S = 1.0  # the learner measures once a second
STILL_AFTER_S = 4.0  # of a new panel: its page has its charts by then
KEEP_PERIOD_S = 300.0  # a notebook that is saved meanwhile keeps a picture that is at most so old
VIGIL_PERIOD_S = 3.0
LOADING_S = 30.0  # for a page to say that it shows a new panel
PLACES = 4  # the newest that get new pictures: where a cell was run again, earlier ones are gone


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of a panel that is ticked at a pace of its own."""

    tick: Callable[[], bool]
    period_s: float


class RunPanel:
    """A run on the screen.

    Attributes:
        view: the ipywidgets box with everything.
        parts: the widgets in it.
        controls: one per live hyperparameter, by name, and that of the number of "actors".
        buttons: pause, resume, checkpoint, stop, confirm, cancel.
    """

    def __init__(self, run: Steerable) -> None:
        self._run = run
        self._directory = RunDirectory(run.path)
        self._history = History(self._directory.metrics)
        self._lock = threading.RLock()
        self._shown: deque[Shown] = deque(maxlen=PLACES)  # where it was displayed by itself
        self._frozen: Bundle | None = None  # what stands there instead
        self._resting = self._closed = self._counted = False
        self._complaint = ""
        self._stored: dict[str, Any] = {}  # run.json's configuration, of which `_config` was made
        self._drawn: tuple[Any, ...] = ()
        self._kept: tuple[Any, ...] = ()
        self._refreshed_at = self._displayed_at = self._kept_at = -KEEP_PERIOD_S
        self._displayed_in: int | None = None
        self._drawing = _Part(lambda: self._following(self._draw_if_new), DRAW_PERIOD_S)
        self._keeping = _Part(lambda: self._following(self._keep), KEEP_PERIOD_S)
        self._vigil = _Part(self._look_out, VIGIL_PERIOD_S)
        commands = Commands(run, lambda draw: self._refresh_quietly(draw=draw))
        self.parts = commands.view = PanelView(
            self._directory.name, self._read_config(), self._history, asked=commands, keeper=run, on_pull=self._pulled)
        self.view, self.controls, self.buttons = self.parts.box, self.parts.controls, self.parts.buttons.all
        self.view.observe(self._looked_at, names="_view_count")
        self.refresh(draw=True)

    def refresh(self, *, draw: bool = False) -> Snapshot:
        """Bring everything up to date, the charts if `draw`; returns what was read, without series."""
        with self._lock:
            status = self._run.status
            now = Snapshot(self._directory.name, self._read_config(), status)
            self._newest_event = self.parts.show(now)
            if draw:
                self.parts.draw(dashboard.read(self._directory, status=status, history=self._history))
                self._drawn = self._what_is_there(status)
            self._refreshed_at, self._status = time.monotonic(), status
            return now

    def tick(self) -> bool:
        """Called by the refresher; whether the panel wants to be called again."""
        return self._following(self._follow)

    def freeze(self) -> None:
        """Replace the live output by a static picture, which the notebook saves."""
        with self._lock:
            self.refresh(draw=True)
            self._frozen = self._static()
            for shown in self._shown:
                shown.freeze(self._frozen)

    def close(self) -> None:
        """Remove the panel; the run goes on."""
        with self._lock:
            self._closed = True
            for part in (self, self._drawing, self._keeping, self._vigil):
                REFRESHER.remove(part)
            closing.close(self.view)

    @property
    def closed(self) -> bool:
        """Whether it was removed for good."""
        return self._closed

    def __repr__(self) -> str:
        return f"<RunPanel of {self._directory.name}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Bundle:
        if (still := self._instead()) is not None:
            return still
        reference = {"version_major": 2, "version_minor": 0, "model_id": self.view.model_id}
        return {"application/vnd.jupyter.widget-view+json": reference, **self._static()}

    def _ipython_display_(self) -> None:
        with self._lock:
            still = self._instead()
            shown = Shown(self.view, still or self._in_words())
            self._shown.append(shown)
            if still is not None:
                shown.freeze(still)
                self._follow_all()  # of which the vigil stays
            elif not self._closed:
                self._expect_a_page()
                self._keep_first()

    # Following the run

    def _read_config(self) -> RunConfig:
        stored = self._directory.read()["config"]
        if stored != self._stored:
            self._config, self._stored = RunConfig.from_json(stored), stored
        return self._config

    def _what_is_there(self, status: RunStatus) -> tuple[Any, ...]:
        axis = self.parts.axis.value
        return status.frames, status.updates, status.episodes, self._newest_event, status.state, axis

    def _following(self, step: Callable[[], None]) -> bool:
        """Do a step if the panel is seen; whether another one is wanted."""
        with self._lock:
            if self._closed or self._still or not self._seen():
                return False
            try:
                step()
            except Exception as error:  # shown; it must not end the thread of the other panels
                self._complain(error)
            return not self._still

    def _follow(self) -> None:
        if self.refresh().ended:
            self._rest()

    def _draw_if_new(self) -> None:
        if self._what_is_there(self._status) != self._drawn:
            self.refresh(draw=True)

    def _keep(self) -> None:
        """Put a newer picture beside the live view, for a notebook that is saved meanwhile."""
        if self._shown and self._drawn != self._kept and time.monotonic() - self._kept_at > KEEP_PERIOD_S / 2:
            self._keep_now()

    def _keep_first(self) -> None:
        """Now, where no server's page looks on; else a little later: a second of drawing holds up its charts."""
        if "JPY_SESSION_NAME" not in os.environ:
            return self._keep_now()

        def keep() -> None:
            self._following(self._keep_now)

        self._kept_at = time.monotonic()
        timer = threading.Timer(STILL_AFTER_S, keep)
        timer.daemon = True
        timer.start()

    def _keep_now(self) -> None:
        still = self._static()
        for shown in self._shown:
            shown.keep(still)
        self._kept, self._kept_at = self._drawn, time.monotonic()

    def _static(self) -> Bundle:
        return static_render.bundle(dashboard.read(self._directory, status=self._run.status, history=self._history))

    def _in_words(self) -> Bundle:
        now = Snapshot(self._directory.name, self._config, self._status)
        return {"text/html": static_render.page(now, ""), "text/plain": static_render.text(now)}

    def _refresh_quietly(self, *, draw: bool = False) -> None:
        try:
            self.refresh(draw=draw)
        except Exception as error:  # the run's directory may be gone
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        line = f"The panel could not be refreshed: {error}"
        if line != self._complaint:
            self._complaint = line
            self.parts.notes.say(line, bad=True)

    # Being seen or not, and the run's end

    def _seen(self) -> bool:
        """Whether a front end shows the panel, or may do so and could not say it yet."""
        if self._counted:
            return bool(self.view._view_count)
        its_cell_runs = self._displayed_in is not None and self._displayed_in == _executing()
        return its_cell_runs or time.monotonic() - self._displayed_at < LOADING_S

    def _expect_a_page(self) -> None:
        """It was displayed just now; a page that shows it says so soon, but not before its cell ends in some."""
        self._counted = bool(self.view._view_count)
        self._displayed_at, self._displayed_in = time.monotonic(), _executing()
        self._follow_all()

    def _looked_at(self, change: dict[str, Any]) -> None:
        self._counted = True
        if change["new"] and not self._closed:
            self._follow_all()

    def _follow_all(self) -> None:
        REFRESHER.add(self)
        for part in (self._drawing, self._keeping, self._vigil):
            REFRESHER.add(part, period_s=part.period_s)

    def _look_out(self) -> bool:
        """Freeze when the run ends while nobody looks, and come back when it is resumed."""
        with self._lock:
            if self._closed or (self._frozen is not None and not self._resting):
                return False
            try:
                alive = stored_status(self._directory).alive
                if self._resting and alive:
                    self._wake()
                elif not self._still and not alive:
                    self._rest()
            except Exception as error:  # shown; it must not end the thread of the other panels
                self._complain(error)
                return not isinstance(error, RunNotFound)  # a run that was deleted does not come back
            return True

    @property
    def _still(self) -> bool:
        """Whether nothing moves: the run has ended, or a person froze the panel."""
        return self._resting or self._frozen is not None

    def _instead(self) -> Bundle | None:
        """The picture that stands in the panel's place, drawn when it is first wanted; None while the run goes on."""
        if self._resting and self._frozen is None:
            self._frozen = self._static()
        return self._frozen

    def _rest(self) -> None:
        if self._shown:
            self.freeze()
        else:  # within another view, whose widgets tell how it ended
            self.refresh(draw=True)
        self._resting = True

    def _wake(self) -> None:
        self.refresh(draw=True)
        still = self._static() if self._shown else {}
        self._frozen, self._resting = None, False
        for shown in self._shown:
            shown.revive(still)
        self._expect_a_page()

    def _pulled(self) -> None:
        """A page has heard nothing for seconds: nothing was new, or (Colab) only answers reach it."""
        only_answers = "google.colab" in sys.modules
        recent = time.monotonic() - self._refreshed_at < VIGIL_PERIOD_S
        if self._closed or ((recent or self._still) and not only_answers):
            return
        if self._lock.acquire(blocking=False):  # else it is being refreshed just now
            try:
                self._refresh_quietly(draw=True)
            finally:
                self._lock.release()
        if only_answers:
            for widget in self.parts.widgets():
                widget.send_state()


def _executing() -> int | None:
    """Number of the cell that runs, or runs next; None outside of IPython."""
    return getattr(get_ipython(), "execution_count", None)  # type: ignore[no-untyped-call, unused-ignore]

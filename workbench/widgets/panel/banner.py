"""The banner of a run whose return has collapsed: its best checkpoint, and a button that rescues it.

One click starts a new run from that checkpoint with half the learning rate (`Run.rescue`) and shows both runs in one
chart, which follows them. This run goes on: nothing of it is changed.

CSS classes: workbench-banner, workbench-banner-text; workbench-rescue, workbench-dismiss-banner (buttons);
workbench-banner-result, workbench-banner-comparison
"""

from __future__ import annotations

import html
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets

from workbench import checkpoints, imports
from workbench.checkpoints import Checkpoint
from workbench.errors import InvalidInput
from workbench.metrics import MetricsReader
from workbench.metrics.status_facts import FACTS
from workbench.rundir import RunDirectory
from workbench.tables import number
from workbench.widgets.kernel import closing
from workbench.widgets.kernel.message_line import message_line
from workbench.widgets.kernel.refresher import Actions
from workbench.widgets.panel.buttons import button
from workbench.widgets.panel.snapshot import Snapshot

if TYPE_CHECKING:
    from workbench.running.handle import Run
    from workbench.widgets.views.compare import Comparison

FOLLOW_S = 5.0  # between two drawings of the comparison
FIRST_EPISODE_S = 600.0  # for the rescued run to end one, before there is nothing to compare
_METRIC = "episode_return"


class Banner:
    """The banner; hidden unless the run has collapsed, and after `dismiss` until it collapses again.

    Attributes:
        view: the widget; empty before the first collapse, since most runs have none.
        rescue, dismiss: the buttons; there from then on.
    """

    rescue: Any
    dismiss: Any

    def __init__(self, run: Run) -> None:
        self._run, self._actions = run, Actions()
        self._collapse: int | None = None  # frames of the best mean that the run has collapsed from; None: it has not
        self._dismissed: int | None = None
        self._best: Checkpoint | None = None
        self._comparison: Comparison | None = None
        self._rescued: Run | None = None
        self._starting = False
        self._drawn_at = 0.0
        self.view = ipywidgets.VBox(layout={"display": "none"}).add_class("workbench-banner")

    def _fill(self) -> None:
        self._text, self._result = (
            ipywidgets.HTML().add_class(f"workbench-banner-{part}") for part in ("text", "result"))
        self.rescue = button("rescue", "Rescue", "life-ring", "start a new run from the best checkpoint, with half the "
                                                              "learning rate, and compare the two; this run goes on")
        self.dismiss = button("dismiss-banner", "Dismiss", "times", "hide this until the return collapses again")
        self.rescue.on_click(lambda _: self._press())
        self.dismiss.on_click(lambda _: self._hide())
        buttons = ipywidgets.HBox([self.rescue, self.dismiss])
        row = ipywidgets.HBox([self._text, buttons], layout={"flex_flow": "row wrap", "align_items": "center"})
        self._place = ipywidgets.VBox().add_class("workbench-banner-comparison")
        self.view.children = (row, self._result, self._place)

    def show(self, now: Snapshot) -> None:
        """Show, change or hide the banner as the run is now, and let the comparison follow both runs."""
        collapse = now.status.best_mean_frames if now.status.collapsed else None
        if collapse != self._collapse:
            self._collapse = collapse
            self._dismissed = self._dismissed if collapse is not None else None
        visible = self._rescued is not None or (collapse is not None and collapse != self._dismissed)
        if not self.view.children:
            if not visible:
                return
            self._fill()
        best = checkpoints.best_whole(checkpoints.every(self._checkpoints)) if visible else None
        self._best = best = None if best is None or checkpoints.is_collapsed(best, now.status) else best
        if visible and collapse is None:
            self._text.value = "The return is back from its collapse."
        elif visible:
            self._text.value = html.escape(" ".join(sentences(now, best)))
        self.rescue.disabled = best is None or self._starting or self._rescued is not None
        self.view.layout.display = "" if visible else "none"
        if self._comparison is not None and time.monotonic() - self._drawn_at > FOLLOW_S:
            self._drawn_at = time.monotonic()
            self._actions.submit(self._follow)

    @property
    def _checkpoints(self) -> Path:
        return RunDirectory(self._run.path).checkpoints

    def _hide(self) -> None:
        self._dismissed, self._rescued, self._comparison = self._collapse, None, None
        closing.put(self._place)
        self._result.value = ""
        self.view.layout.display = "none"

    def _press(self) -> None:
        self._starting = self.rescue.disabled = True
        self._say("Starting a run from the best checkpoint …")
        self._actions.submit(self._start)

    def _start(self) -> None:
        rescued = None
        try:
            self._rescued = rescued = self._run.rescue(progress=False)
            self._say(f"{rescued.name} goes on from {self._at()} with half the learning rate, "
                      f"{rescued.config.value('learning_rate'):.3g}; nothing of this run is changed. The new one: "
                      f"wb.attach({rescued.name!r})")
            self._starting = False
            self._compare(rescued)
        except Exception as error:  # of any kind: it is shown under the buttons
            if rescued is self._rescued:  # else it was dismissed meanwhile
                self._say(str(error) or type(error).__name__, bad=True)
        self._starting = False

    def _at(self) -> str:
        return FACTS["frames"].written(self._best.frames if self._best else 0, number, unit=True)

    def _compare(self, rescued: Run) -> None:
        """Show both runs in one chart once the new one has something to show."""
        reader, deadline = MetricsReader(rescued.directory.metrics), time.monotonic() + FIRST_EPISODE_S
        while not len(reader.series(_METRIC)["value"]):
            if self._rescued is not rescued:  # dismissed meanwhile
                return
            if time.monotonic() > deadline or not rescued.status.alive:
                raise InvalidInput(f"{rescued.name} has ended no episode yet. wb.compare([{self._run.path.name!r}, "
                                   f"{rescued.name!r}]) shows both once it has.")
            time.sleep(0.5)
        if self._rescued is rescued:  # else it was dismissed meanwhile
            self._comparison = _compared(self._run.path, rescued.path)
            closing.put(self._place, self._comparison.view)

    def _follow(self) -> None:
        shown, rescued = self._comparison, self._rescued
        if shown is not None and rescued is not None:
            shown.show_newer(_compared(self._run.path, rescued.path))

    def _say(self, text: str, *, bad: bool = False) -> None:
        self._result.value = message_line(text, bad=bad)


def sentences(now: Snapshot, best: Checkpoint | None) -> list[str]:
    """What has collapsed, and from which checkpoint the run can be rescued."""
    text = now.status.collapse_in(number)
    collapse = f"{text[:1].upper()}{text[1:]}."
    if best is None:
        return [collapse, "There is no checkpoint from before: a new run has to learn it again, with a smaller "
                          "learning rate."]
    at = FACTS["frames"].written(best.frames, number, unit=True)
    goes_on = "" if now.ended else " This run goes on."
    return [collapse, f"Its best checkpoint is at {at} ({checkpoints.standing(best)}). Fork it with half the learning "
                      f"rate?{goes_on}"]


def _compared(*paths: Path) -> Comparison:
    """Runs in one chart; loaded by its name, since its picture is made by the module that shows this banner, too."""
    comparison: Comparison = imports.widget("views.compare").compare(paths, _METRIC)
    return comparison

"""The time machine of the inspector: a run's return with a cursor, which checkpoint, hyperparameters and film follow.

The page gets the curve, the checkpoints and the values of all hyperparameters at once, and moves the cursor without
the kernel. The kernel hears where it comes to rest, selects that checkpoint, and shows its film: a few frames of the
nearest rollout that is stored. Everything is read from the run's files, so a dead run can be looked at, too.
"""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import numpy as np
import traitlets

from workbench.checkpoints import Checkpoint
from workbench.config import RunConfig
from workbench.errors import WorkbenchError
from workbench.metrics import MetricsReader
from workbench.metrics.schema import CHANGES
from workbench.playing import store
from workbench.playing.rollout import Rollout, load
from workbench.running.reading.checkpoint_list import Owner
from workbench.tables import as_json, number, plain
from workbench.widgets.episodes import player
from workbench.widgets.kernel import assets, closing
from workbench.widgets.panel.buttons import button
from workbench.widgets.views.run_rows import CURVES
from workbench.wire import columns

POINTS = 1000  # of the curve
_LARGEST = 1e15  # of a number that is written short
_BACK = ("restore", "fork")  # the run goes on from an earlier checkpoint, with the hyperparameters that it has by then


class Curve(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget is not typed
    """The curve with its cursor.

    Attributes:
        on_moved: called with the name of the checkpoint where the cursor came to rest.
    """

    _esm = assets.text("timemachine.js")
    _css = assets.text("timemachine.css")
    label = traitlets.Unicode("Time machine").tag(sync=True)

    def __init__(self, *, label: str, on_moved: Callable[[str], None]) -> None:
        super().__init__(label=label)
        self.on_moved = on_moved
        self._course: tuple[dict[str, Any], list[bytes]] | None = None
        self._at: int | None = None  # frames, of the cursor where it last came to rest
        self._lock = threading.Lock()
        self.on_msg(self._received)

    def _received(self, _: Any, content: dict[str, Any], __: Any) -> None:
        """What a page says; in the main thread or in a subshell's."""
        if content.get("type") == "hello":
            self._tell(content.get("view"))
        elif content.get("type") == "at" and content.get("checkpoint"):
            self.go(content["frames"], by=content.get("view"))
            self.on_moved(str(content["checkpoint"]))

    def show(self, course: dict[str, Any], curve: Mapping[str, Any]) -> None:
        """Shows checkpoints and fields (`course`) and the arrays of a curve, if they are others than before."""
        table, packed = columns.pack({name: np.asarray(curve[name], np.float64) for name in (
            "frames", "value", "time_s")})
        now = ({"type": "course", **course, "columns": table}, [packed])
        with self._lock:
            before, self._course = self._course, now
        if now != before:
            self._tell()

    def go(self, frames: int, *, by: str | None = None) -> None:
        """Moves the cursor on all pages, but for the one `by` which it was moved."""
        self._at = frames
        self.send({"type": "at", "frames": frames, "by": by})

    def _tell(self, view: str | None = None) -> None:
        if self._course is not None:
            content, buffers = self._course
            self.send({**content, "view": view, "at": self._at}, buffers)


class CheckpointFilm:
    """A few frames of the stored rollout that is nearest to a checkpoint, and its player.

    Attributes:
        view: the frames, in words what they are of, a button, and `more` widgets.
        stage: where the player is shown.
    """

    def __init__(self, owner: Owner, *more: Any) -> None:
        self._owner = owner
        self._shown: Path | None = None
        self.rollout: Rollout | None = None
        self.strip = ipywidgets.HTML().add_class("workbench-inspector-film")
        self.button = button("inspector-film-play", "Play the film", "",
                             "play this episode in the player, where other futures can be tried")
        self.button.disabled = True
        self.button.on_click(lambda _: self.play())
        self.stage = ipywidgets.VBox()
        row = ipywidgets.HBox([self.button, *more], layout={"flex_flow": "row wrap", "align_items": "flex-start"})
        self.view = ipywidgets.VBox([self.strip, row, self.stage])

    def show(self, checkpoint: Checkpoint | None, known: Mapping[str, Checkpoint]) -> None:
        """Shows the film of the checkpoint, or else of the nearest one that has one."""
        path = None if checkpoint is None else nearest(self._owner.directory.rollouts, checkpoint, known)
        if checkpoint is None or path is None:
            self.rollout, self._shown = None, None
            self._say("" if checkpoint is None else "No episode of this run is stored yet: record one.")
        else:
            if path != self._shown:
                closing.put(self.stage)
                self.rollout, self._shown = load(path), path
            self._picture(checkpoint)
        self.button.disabled = self.rollout is None

    def _picture(self, checkpoint: Checkpoint) -> None:
        assert self.rollout is not None
        own = self.rollout.checkpoint.name == checkpoint.path.name
        words = "Film of this checkpoint" if own else (
            f"This checkpoint has no film yet; the nearest one is of {self.rollout.checkpoint_frames:,} frames")
        text = html.escape(f"{words}: return {number(self.rollout.episode_return)}")
        self.strip.value = f"<div>{text}</div>{player.strip_of(self.rollout)}"

    def _say(self, text: str) -> None:
        closing.put(self.stage)
        self.strip.value = f"<div>{html.escape(text)}</div>"

    def play(self) -> None:
        """Opens the player of the film that is shown."""
        if self.rollout is not None:
            closing.put(self.stage, player.RolloutPlayer([self.rollout]))


def nearest(rollouts: Path, checkpoint: Checkpoint, known: Mapping[str, Checkpoint]) -> Path | None:
    """The folder of the newest rollout of the checkpoint, or of the `known` one that is nearest in frames; or None."""
    rated = []
    for record in rollouts.glob(f"[0-9]*/{store.RECORD}"):
        name = record.parent.name.partition("-seed")[0]
        if (other := known.get(name)) is not None:
            with suppress(OSError):
                rated.append((name != checkpoint.path.name, abs(other.frames - checkpoint.frames),
                              -record.stat().st_mtime, record.parent))
    return min(rated)[-1] if rated else None


class TimeMachine:
    """Curve and film.

    Attributes:
        view: both, with `more` widgets beside the film; hidden where there are no metrics.
    """

    def __init__(self, owner: Owner, *more: Any, on_moved: Callable[[str], None]) -> None:
        self._owner = owner
        self.curve = Curve(label=f"Time machine of {owner.name}", on_moved=on_moved)
        self.film = CheckpointFilm(owner, *more)
        self.view = ipywidgets.VBox([self.curve, self.film.view]).add_class("workbench-inspector-time")

    def refresh(self, known: Sequence[Checkpoint]) -> None:
        """Reads the run's curve and events again."""
        reader = MetricsReader(self._owner.directory.metrics)
        names = reader.names()
        self.view.layout.display = "" if names else "none"
        if not names:
            return
        name = next((name for name in CURVES if name in names), CURVES[0])
        saved = [{"name": each.path.name, "frames": each.frames, "value": as_json(each.episode_return)}
                 for each in sorted(known, key=lambda checkpoint: checkpoint.frames)]
        title = "mean return" if name == CURVES[0] else "return"
        course = {"saved": saved, "fields": fields_of(self._config(), reader.events()), "y": title}
        self.curve.show(course, reader.series(name, max_points=POINTS))

    def _config(self) -> RunConfig | None:
        with suppress(WorkbenchError, KeyError, TypeError, ValueError):
            return RunConfig.from_json(self._owner.directory.read()["config"])
        return None


def fields_of(config: RunConfig | None, events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The live hyperparameters: name, help, and values, each with the frames from which on it was in force.

    A run that goes back to a checkpoint keeps the values that it has by then: its frames are trained anew with these.
    """
    if config is None:
        return []
    steps: dict[str, list[tuple[int, Any, Any]]] = {}
    frames = 0
    for event in events:
        frames = event["frames"] if event["frames"] is not None else frames
        if event["kind"] in _BACK:
            steps = {name: [(min(at, frames), old, new) for at, old, new in changes] for name, changes in steps.items()}
        old, new_values = event["data"].get("old"), event["data"].get("new")
        if event["kind"] in CHANGES and isinstance(old, dict) and isinstance(new_values, dict):
            for name, new in new_values.items():
                steps.setdefault(str(name), []).append((frames, old.get(name), new))
    settings = {name: setting for name, setting in config.all_settings().items() if setting.live or name in steps}
    return [{"name": name, "help": f"{setting.help}{f', {setting.unit}' if setting.unit else ''}",
             "values": _values(config.value(name), steps.get(name, []))} for name, setting in settings.items()]


def _values(now: Any, changes: Sequence[tuple[int, Any, Any]]) -> list[tuple[int, str]]:
    """Values with the frames from which on they were in force; the last change at a frame holds."""
    values = {0: _text(changes[0][1] if changes else now)}
    for at, _, new in changes:
        values[at] = _text(new)
    ordered = sorted(values.items())
    return [ordered[0], *(entry for before, entry in zip(ordered[:-1], ordered[1:], strict=True)
                          if entry[1] != before[1])]


def _text(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST:
        return f"{value:g}" if abs(value) < 1e6 else number(value)
    return plain(f"{value!s:.100}")

"""The wall: up to 64 environments of a run live, each with its return and its action; a click opens one below.

The page draws pictures, sketches (`environments.sketches`), or bars of an observation's numbers.
"""

from __future__ import annotations

import time
import zlib
from typing import Any

import ipywidgets
import numpy as np

from workbench.errors import WorkbenchError
from workbench.playing.wall import Cell, Wall, WallLook
from workbench.playing.watch import Watching
from workbench.running.connection import Control
from workbench.tables import counted, evenly_spaced, number
from workbench.trajectory import Array
from workbench.widgets.episodes import filmstrip
from workbench.widgets.episodes.filmstrip import StripFrame
from workbench.widgets.episodes.live_widget import LiveWidget, Message
from workbench.widgets.episodes.watch_view import LiveView
from workbench.widgets.kernel import assets, closing
from workbench.widgets.kernel.saved_view import Bundle
from workbench.wire import columns


class WallView(LiveWidget):
    """Many environments of a run, live. `run.watch()` makes one.

    Attributes:
        box: this widget, with the live view of the environment that was clicked below it.
    """

    _esm = assets.text("wall.js")
    _css = assets.text("wall.css")

    def __init__(self, control: Control) -> None:
        self._control = control
        self._wall = Wall(control)
        self._cells: dict[int, Cell] = {}
        self._last = WallLook()
        self._error = ""
        super().__init__(self._wall.run)
        self.title = self._titled()
        self.box = ipywidgets.VBox([self])

    def _titled(self) -> str:
        shown, present = len(self._wall.envs), self._wall.number
        which = counted(present, "environments") if shown == present else f"{shown} of {present} environments"
        return f"{self._wall.run}, {which}"

    @property
    def opened(self) -> LiveView | None:
        """The live view of the environment that was clicked last, or None."""
        views = [widget for widget in self.box.children if isinstance(widget, LiveView)]
        return views[0] if views else None

    def show_alone(self, env: int) -> None:
        """Show environment `env` alone, below the wall. Raises OutOfBounds, RunNotAlive."""
        view = LiveView(Watching(self._control, env))
        self.hide_alone()
        self.box.children = (self, view)

    def hide_alone(self) -> None:
        """Close the view below the wall."""
        if (view := self.opened) is not None:
            self.box.children = (self,)
            closing.close(view)

    def close(self) -> None:
        """Close the wall and the view below it."""
        if self.comm is not None:
            self.hide_alone()
        super().close()

    def _look(self) -> Message:
        look = self._wall.look()
        with self._lock:
            self._last, self.title = look, self._titled()
            if look.cells:
                self._news_at = time.monotonic()
                now = self._cells | {cell.env: cell for cell in look.cells}
                self._cells = {env: now[env] for env in self._wall.envs if env in now}
            return self._message(look.cells)

    def _everything(self, view: str | None) -> Message:
        return self._message(list(self._cells.values()), view)

    def _message(self, cells: list[Cell], view: str | None = None) -> Message:
        """These steps, for all pages or for `view` alone."""
        packed = b""
        table: list[dict[str, Any]] = []
        if cells:
            pictures = {"picture": np.stack([cell.picture for cell in cells])}
            if cells[0].pose is not None:
                pictures["pose"] = np.stack([_flat(cell.pose) for cell in cells])
            table, data = columns.pack(pictures)
            packed = zlib.compress(data, 1)
        opened = self.opened
        message = {
            "type": "wall", "view": view, "title": self.title, "envs": self._wall.envs, "columns": table,
            "sketch": cells[0].sketch.to_json() if cells and cells[0].sketch is not None else None,
            "ranges": cells[0].sketch.ranges if cells and cells[0].sketch is not None else [],
            "cells": [{"env": cell.env, "return": number(cell.episode_return), "step": cell.episode_step,
                       "action": cell.action} for cell in cells],
            "opened": None if opened is None else opened.env,
            "over": self.over, "note": self._error or (self._last.note if self._quiet else ""),
        }
        return message, [packed]

    def _received(self, widget: Any, content: dict[str, Any], buffers: Any) -> None:
        if content.get("type") == "open":
            self._on_click(content.get("env"))
        super()._received(widget, content, buffers)

    def _on_click(self, env: Any) -> None:
        """Open that environment below, or close it if it is open."""
        opened, self._error = self.opened, ""
        try:
            if opened is not None and opened.env == env:
                self.hide_alone()
            elif env in self._wall.envs:
                self.show_alone(env)
        except WorkbenchError as error:
            self._error = str(error)
        with self._lock:
            self.send(*self._message([]))

    def still(self) -> Bundle:
        """A strip of some environments, and how many there are."""
        with self._lock:
            cells = [self._cells[env] for env in sorted(self._cells)]
        facts = {"seen": time.strftime("%Y-%m-%d %H:%M:%S") if cells else self._last.note or "nothing yet"}
        if cells:
            mean = float(np.mean([cell.episode_return for cell in cells]))
            facts["mean return of the episodes so far"] = number(mean)
        if self._last.note:
            facts["then"] = self._last.note
        return filmstrip.bundle(self.title, facts, [
            StripFrame(f"{cell.env}: {number(cell.episode_return)}", picture)
            for cell in (cells[at] for at in evenly_spaced(len(cells), most=filmstrip.MOST_FRAMES))
            if (picture := filmstrip.picture_of(cell.picture, cell.sketch)) is not None
        ] if cells else [])

    def _ipython_display_(self) -> None:
        self._show(self.box)


def _flat(pose: Array | None) -> Array:
    return np.zeros(0, np.float32) if pose is None else pose.ravel()

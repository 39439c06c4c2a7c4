"""The live view: the current observations of one environment of a run, with the policy beside them.

New steps are forwarded to the page, still compressed, and it plays them a little later.
"""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from typing import Any

import numpy as np
import traitlets

from workbench.playing import action_words
from workbench.playing.action_bars import domain_of, strip
from workbench.playing.watch import Look, Watching
from workbench.tables import evenly_spaced, number
from workbench.widgets.episodes import filmstrip
from workbench.widgets.episodes.filmstrip import StripFrame
from workbench.widgets.episodes.live_widget import LiveWidget, Message
from workbench.widgets.episodes.player import policy_header
from workbench.widgets.kernel import assets
from workbench.widgets.kernel.saved_view import Bundle


class LiveView(LiveWidget):
    """One environment of a run, live. `run.watch(env)` makes one."""

    _esm = assets.text("player.js")
    _css = assets.text("player.css")
    mode = traitlets.Unicode("live").tag(sync=True)

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._looks: deque[Look] = deque()
        self._last = Look()
        super().__init__(f"{watching.run}, environment {watching.env} ({watching.role})")

    @property
    def env(self) -> int:
        """The environment's number in its run."""
        return self._watching.env

    def _look(self) -> Message:
        look = self._watching.look()
        with self._lock:
            self._keep(look)
            return self._message([look] if look.steps else [])

    def _everything(self, view: str | None) -> Message:
        return self._message(list(self._looks), view)

    def _keep(self, look: Look) -> None:
        self._last = look
        if not look.steps:
            return
        self._news_at = time.monotonic()
        if self._looks and (look.life != self._looks[-1].life or look.missed):
            self._looks.clear()
        self._looks.append(look)
        while sum(kept.steps for kept in self._looks) - self._looks[0].steps > filmstrip.KEPT_STEPS:
            self._looks.popleft()

    def _message(self, looks: list[Look], view: str | None = None) -> Message:
        """Steps for all pages, or for `view` alone: a message and its buffers, one for each look."""
        chunks = [{"life": look.life, "first": look.first, "kind": look.kind, "columns": look.table} for look in looks]
        message = {"type": "live", "view": view, "header": self._header(), "chunks": chunks, "over": self._last.over,
                   "note": self._last.note if self._quiet else ""}
        return message, [look.packed for look in looks]

    def _header(self) -> dict[str, Any] | None:
        """The facts that a page needs before the first step; None before there is one."""
        if not self._looks:
            return None
        latest = self._looks[-1]
        shape = next(column["shape"][1:] for column in latest.table if column["name"] == "observation")
        entries = list(latest.entries) or [f"x[{at}]" for at in range(shape[0] if len(shape) == 1 else 0)]
        return {"title": self.title, "label": f"Live view: {self.title}", "kind": latest.kind, "fps": 0.0,
                **policy_header(latest.action_spec, latest.action_names), "picture": None, "shape": shape,
                "entries": entries, "saliency": None, "note": "", **_drawing(latest)}

    # --- what a saved notebook keeps ------------------------------------------------------------------------------

    def still(self) -> Bundle:
        """A strip of the latest frames, and the latest facts."""
        with self._lock:
            looks = list(self._looks)
        if not looks:
            return filmstrip.bundle(self.title, {"seen": self._last.note or "nothing yet"}, [])
        last = looks[-1].columns
        facts = {
            "seen": f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(float(last['time_s'][-1])))}",
            "return of the episode so far": number(last["episode_return"][-1]),
            "steps of the episode": f"{last['episode_step'][-1]:,}", "value": number(last["value"][-1]),
            "action": action_words.in_words(looks[-1].action_spec, looks[-1].action_names, last["action"][-1]),
            **({"then": self._last.note} if self._last.note else {}),
        }
        return filmstrip.bundle(self.title, facts, _few_frames(looks))


def _drawing(look: Look) -> dict[str, Any]:
    """How the page draws the environment from its numbers, and the ranges of these; {} without a sketch."""
    return {} if look.sketch is None else {"sketch": look.sketch.to_json(), "ranges": look.sketch.ranges}


def _few_frames(looks: list[Look]) -> list[StripFrame]:
    names = ("observation", "episode_step", "scores", "action")
    columns = {name: np.concatenate([look.columns[name] for look in looks]) for name in names}
    actions = looks[-1].action_spec
    domain = domain_of(actions, columns["scores"] if looks[-1].kind == "q_value" else None)
    moments = []
    for at in evenly_spaced(len(columns["action"]), most=filmstrip.MOST_FRAMES):
        frame = filmstrip.picture_of(columns["observation"][at], looks[-1].sketch)
        policy = partial(strip, actions, columns["scores"][at], columns["action"][at], domain=domain)
        if frame is not None:
            moments.append(StripFrame(f"step {columns['episode_step'][at]}", frame, policy))
    return moments

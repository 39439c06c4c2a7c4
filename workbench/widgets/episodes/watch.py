"""The live view: the current observations of one environment of a run, with the policy beside them.

About twice a second a thread asks the run for new steps and forwards them, still compressed, to the page, which plays
them a little later. A page that receives nothing asks itself (Colab delivers only answers). When no page has been
visible for a while, the requests end, and the learner's tap ends by itself.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial
from typing import Any

import anywidget
import numpy as np
import traitlets

from workbench.playing import action_words
from workbench.playing.action_bars import domain_of, strip
from workbench.playing.watch import Look, Watching
from workbench.tables import number
from workbench.widgets.episodes import filmstrip
from workbench.widgets.episodes.filmstrip import Moment
from workbench.widgets.episodes.player import policy_header
from workbench.widgets.kernel import assets
from workbench.widgets.kernel.refresher import REFRESHER, Actions
from workbench.widgets.kernel.saved_view import Bundle, Shown

UNSEEN_S = 120.0  # without a message of a page; a visible page sends one every ten seconds
QUIET_S = 1.5  # without a new step until the view shows the reason
KEPT_STEPS = 600  # for a page that is opened or refreshed
STILL_S = (3.0, 60.0)  # until the first picture for the saved notebook, and between pictures


class LiveView(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget is not typed
    """One environment of a run, live. `run.watch(env)` makes one."""

    _esm = assets.text("player.js")
    _css = assets.text("player.css")
    mode = traitlets.Unicode("live").tag(sync=True)
    label = traitlets.Unicode("Live view").tag(sync=True)

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self.title = f"{watching.run}, environment {watching.env} ({watching.role}), live"
        super().__init__(label=f"Live view: {self.title}")
        self._lock = threading.RLock()
        self._looking = threading.Lock()
        self._actions = Actions()
        self._looks: deque[Look] = deque()
        self._last = Look()
        self._contact_at = self._news_at = self._started_at = time.monotonic()
        self._still_at = self._started_at + STILL_S[0]
        self._outputs: list[Shown] = []
        self.on_msg(self._received)

    def __repr__(self) -> str:
        return f"<LiveView of {self.title}>"

    def tick(self) -> bool:
        """Asks for new steps in another thread. Returns whether to be called again."""
        if self.comm is None or self._last.over or time.monotonic() - self._contact_at > UNSEEN_S:
            return False
        if not self._looking.locked():
            self._actions.submit(self.look)
        return True

    def look(self) -> None:
        """Asks for new steps now and sends them to the pages; does nothing while another look is under way."""
        if not self._looking.acquire(blocking=False):
            return
        try:
            look = self._watching.look()
            with self._lock:
                self._keep(look)
                self.send(*self._message([look] if look.steps else []))
                self._renew_still()
        finally:
            self._looking.release()

    def _keep(self, look: Look) -> None:
        self._last = look
        if not look.steps:
            return
        self._news_at = time.monotonic()
        if self._looks and (look.life != self._looks[-1].life or look.missed):
            self._looks.clear()
        self._looks.append(look)
        while sum(kept.steps for kept in self._looks) - self._looks[0].steps > KEPT_STEPS:
            self._looks.popleft()

    def _message(self, looks: list[Look], view: str | None = None) -> tuple[dict[str, Any], list[bytes]]:
        """Steps for all pages, or for `view` alone: a message and its buffers, one for each look."""
        chunks = [{"life": look.life, "first": look.first, "kind": look.kind, "columns": look.table} for look in looks]
        quiet = time.monotonic() - self._news_at > QUIET_S or self._last.over
        message = {"type": "live", "view": view, "header": self._header(), "chunks": chunks, "over": self._last.over,
                   "note": self._last.note if quiet else ""}
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
                "entries": entries, "saliency": None, "note": ""}

    def _received(self, _: Any, content: dict[str, Any], __: Any) -> None:
        """Handles a page's message, in the main thread or in a subshell's."""
        self._contact_at = time.monotonic()
        kind = content.get("type")
        if kind == "pull":
            self.look()
        if kind in ("hello", "pull"):  # a page that pulls may have received nothing from the refresher's thread
            with self._lock:
                self.send(*self._message(list(self._looks), content.get("view")))
        REFRESHER.add(self)

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

    def _renew_still(self) -> None:
        now = time.monotonic()
        if not self._outputs or not (self._last.over or (self._looks and now >= self._still_at)):
            return
        self._still_at = now + STILL_S[1]
        still = self.still()
        for output in self._outputs:
            output.keep(still)

    def _ipython_display_(self) -> None:
        self._contact_at = time.monotonic()
        self._outputs.append(Shown(self, self.still()))
        REFRESHER.add(self)


def _few_frames(looks: list[Look]) -> list[Moment]:
    names = ("observation", "episode_step", "scores", "action")
    columns = {name: np.concatenate([look.columns[name] for look in looks]) for name in names}
    actions = looks[-1].action_spec
    domain = domain_of(actions, columns["scores"] if looks[-1].kind == "q_value" else None)
    moments = []
    for at in filmstrip.evenly_spaced(len(columns["action"])):
        frame = filmstrip.picture_of(columns["observation"][at])
        policy = partial(strip, actions, columns["scores"][at], columns["action"][at], domain=domain)
        if frame is not None:
            moments.append(Moment(f"step {columns['episode_step'][at]}", frame, policy))
    return moments

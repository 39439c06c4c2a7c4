"""The live view: what one environment of a run sees now, with the policy beside it.

About twice a second a thread asks the run what is new and sends it to the page as it came, still compressed; the page
plays it a little later. A page that hears nothing asks for itself (in Colab nothing comes unasked). Where no page says
for a while that somebody looks, nothing is asked any more, and the learner's tap ends by itself.
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

UNSEEN_S = 120.0  # a page says every ten seconds that it is looked at
QUIET_S = 1.5  # without a new step until the view says why
KEPT_STEPS = 600  # for a page that is opened or refreshed
STILL_S = (3.0, 60.0)  # when a first picture for the saved notebook is made, and how long it lasts


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
        self._kept: deque[Look] = deque()
        self._last = Look()
        self._heard = self._news = self._begun = time.monotonic()
        self._still_at = self._begun + STILL_S[0]
        self._shown: list[Shown] = []
        self.on_msg(self._received)

    def __repr__(self) -> str:
        return f"<LiveView of {self.title}>"

    def tick(self) -> bool:
        """Ask for news, in a thread of its own; whether to be called again."""
        if self.comm is None or self._last.over or time.monotonic() - self._heard > UNSEEN_S:
            return False
        if not self._looking.locked():
            self._actions.submit(self.look)
        return True

    def look(self) -> None:
        """Ask for news now and send them to the pages; nothing happens while another look is under way."""
        if not self._looking.acquire(blocking=False):
            return
        try:
            seen = self._watching.look()
            with self._lock:
                self._keep(seen)
                self.send(*self._message([seen] if seen.steps else []))
                self._renew_still()
        finally:
            self._looking.release()

    def _keep(self, seen: Look) -> None:
        self._last = seen
        if not seen.steps:
            return
        self._news = time.monotonic()
        if self._kept and (seen.life != self._kept[-1].life or seen.missed):
            self._kept.clear()
        self._kept.append(seen)
        while sum(one.steps for one in self._kept) - self._kept[0].steps > KEPT_STEPS:
            self._kept.popleft()

    def _message(self, looks: list[Look], view: str | None = None) -> tuple[dict[str, Any], list[bytes]]:
        """Steps for the pages, or for the one that asked: a message and its buffers, one for each look."""
        chunks = [{"life": one.life, "first": one.first, "kind": one.kind, "columns": one.table} for one in looks]
        quiet = time.monotonic() - self._news > QUIET_S or self._last.over
        message = {"type": "live", "view": view, "header": self._header(), "chunks": chunks, "over": self._last.over,
                   "note": self._last.note if quiet else ""}
        return message, [one.packed for one in looks]

    def _header(self) -> dict[str, Any] | None:
        """What the page must know before it shows a first step; None before there is one."""
        if not self._kept:
            return None
        latest = self._kept[-1]
        shape = next(one["shape"][1:] for one in latest.table if one["name"] == "observation")
        entries = list(latest.entries) or [f"x[{at}]" for at in range(shape[0] if len(shape) == 1 else 0)]
        return {"title": self.title, "label": f"Live view: {self.title}", "kind": latest.kind, "fps": 0.0,
                **policy_header(latest.action_spec, latest.action_names), "picture": None, "shape": shape,
                "entries": entries, "saliency": None, "note": ""}

    def _received(self, _: Any, content: dict[str, Any], __: Any) -> None:
        """What a page says; in the main thread or in a subshell's."""
        self._heard = time.monotonic()
        asked = content.get("type")
        if asked == "pull":
            self.look()
        if asked in ("hello", "pull"):  # who pulls may have got nothing that the refresher's thread has sent
            with self._lock:
                self.send(*self._message(list(self._kept), content.get("view")))
        REFRESHER.add(self)

    # --- what a saved notebook keeps ------------------------------------------------------------------------------

    def still(self) -> Bundle:
        """A strip of the frames that were seen last, and what was last known."""
        with self._lock:
            kept = list(self._kept)
        if not kept:
            return filmstrip.bundle(self.title, {"seen": self._last.note or "nothing yet"}, [])
        last = kept[-1].columns
        facts = {
            "seen": f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(float(last['time_s'][-1])))}",
            "return of the episode so far": number(last["episode_return"][-1]),
            "steps of the episode": f"{last['episode_step'][-1]:,}", "value": number(last["value"][-1]),
            "action": action_words.in_words(kept[-1].action_spec, kept[-1].action_names, last["action"][-1]),
            **({"then": self._last.note} if self._last.note else {}),
        }
        return filmstrip.bundle(self.title, facts, _few_frames(kept))

    def _renew_still(self) -> None:
        now = time.monotonic()
        if not self._shown or not (self._last.over or (self._kept and now >= self._still_at)):
            return
        self._still_at = now + STILL_S[1]
        still = self.still()
        for one in self._shown:
            one.keep(still)

    def _ipython_display_(self) -> None:
        self._heard = time.monotonic()
        self._shown.append(Shown(self, self.still()))
        REFRESHER.add(self)


def _few_frames(looks: list[Look]) -> list[Moment]:
    names = ("observation", "episode_step", "scores", "action")
    seen = {name: np.concatenate([one.columns[name] for one in looks]) for name in names}
    actions = looks[-1].action_spec
    domain = domain_of(actions, seen["scores"] if looks[-1].kind == "q_value" else None)
    found = []
    for at in filmstrip.chosen(len(seen["action"])):
        frame = filmstrip.seen(seen["observation"][at])
        said = partial(strip, actions, seen["scores"][at], seen["action"][at], domain=domain)
        if frame is not None:
            found.append(Moment(f"step {seen['episode_step'][at]}", frame, said))
    return found

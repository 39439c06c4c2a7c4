"""A game to play in a page: the picture with the agent's advice beside it, steered by keys.

The page sends held keys and pressed buttons; the game's process keeps the time, and a thread forwards its messages to
the pages. Colab delivers only answers, so there the page asks while time runs. A game that nobody looks at is ended,
and its episode is kept.
"""

from __future__ import annotations

import io
import sys
import threading
import time
from collections import deque
from typing import Any

import anywidget
import numpy as np
import traitlets
from PIL import Image

from workbench.errors import WorkbenchError
from workbench.playing.by_hand.game import SPEEDS, Game
from workbench.playing.by_hand.keyboard import RESERVED
from workbench.playing.by_hand.moment import AGENT
from workbench.tables import number
from workbench.widgets.episodes import filmstrip
from workbench.widgets.episodes.filmstrip import StripFrame
from workbench.widgets.episodes.player import policy_header
from workbench.widgets.kernel import assets
from workbench.widgets.kernel.refresher import REFRESHER
from workbench.widgets.kernel.saved_view import Bundle, Shown

UNSEEN_S = 600.0  # without a message of a page; a visible page sends one every ten seconds
STILL_S = 60.0  # between pictures for the saved notebook


class GameView(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget is not typed
    """A game in a page. `wb.play` shows one; closing it ends the game."""

    _esm = assets.text("game.js")
    _css = assets.text("player.css")
    label = traitlets.Unicode("Game").tag(sync=True)

    def __init__(self, game: Game) -> None:
        self.game = game
        super().__init__(label=f"Game: {game.title}")
        self._lock = threading.RLock()
        self._states: deque[dict[str, Any]] = deque(maxlen=filmstrip.KEPT_STEPS)
        self._contact_at = time.monotonic()
        self._still_at = 0.0
        self._outputs: list[Shown] = []
        self._pulled = "google.colab" in sys.modules
        self._keep(game._process.latest[0]["state"])
        game.listen(self._on_message)
        self.on_msg(self._received)

    def __repr__(self) -> str:
        return f"<GameView of {self.game!r}>"

    def close(self) -> None:
        """Removes the view from the pages and ends the game; an unfinished episode is kept."""
        super().close()
        self.game.close()

    def tick(self) -> bool:
        """Ends a game that nobody looks at, and renews the saved picture. Returns whether to be called again."""
        if self.comm is None or not self.game.alive:
            return False
        if time.monotonic() - self._contact_at > UNSEEN_S:
            self.game.close()
            self._problem("Nobody looked at this for ten minutes: the game has ended, and its episode is kept. Run the "
                          "cell again.")
            return False
        if self._outputs and time.monotonic() >= self._still_at:
            self._still_at = time.monotonic() + STILL_S
            for output in self._outputs:
                output.keep(self.still())
        return True

    # --- from the game --------------------------------------------------------------------------------------------

    def _on_message(self, message: dict[str, Any], picture: bytes) -> None:
        """Forwards a message of the game's process to the pages; called in a thread of the game."""
        if "ended" in message:
            self._problem(f"{message['ended']} {self._rescue()}" if message["code"] else "The game has ended.")
            return
        with self._lock:
            self._keep(message["state"])
            if not self._pulled:
                self.send(*self._message(message, picture))
            if message["id"] is None and "error" in message:  # from a step by the clock
                self._problem(message["error"]["message"])

    def _rescue(self) -> str:
        journal = self.game.journal
        return "" if journal is None else f"The episode is not lost: {self.game._going_on(journal)} goes on with it."

    def _keep(self, state: dict[str, Any]) -> None:
        last = self._states[-1] if self._states else None
        if last is not None and (state["episode"], state["step"]) == (last["episode"], last["step"]):
            self._states.pop()
        elif last is not None and state["episode"] != last["episode"]:
            self._states.clear()
        self._states.append(state)

    def _message(self, message: dict[str, Any], picture: bytes) -> tuple[dict[str, Any], list[bytes]]:
        return {"type": "moments", "states": [message["state"]], "mime": message["mime"]}, [picture]

    def _problem(self, text: str) -> None:
        self.send({"type": "problem", "text": text})

    # --- from the page --------------------------------------------------------------------------------------------

    def _received(self, _: Any, content: dict[str, Any], __: Any) -> None:
        """Handles a page's message, in the main thread or in a subshell's."""
        self._contact_at = time.monotonic()
        kind = content.get("type")
        if kind == "hello":
            self._welcome(str(content.get("view", "")))
        elif kind in ("press", "keys", "do", "pace"):
            try:
                getattr(self, f"_{kind}")(content)
            except WorkbenchError as error:
                self._problem(str(error))
        if self._pulled and kind not in ("hello", "seen"):
            self.send(*self._message(*self.game._process.latest))

    def _welcome(self, view: str) -> None:
        """Sends everything to a new page."""
        REFRESHER.add(self)
        with self._lock:
            latest, picture = self.game._process.latest
            message, buffers = self._message(latest, picture)
            self.send({**message, "states": list(self._states), "view": view, "header": self._header(picture)}, buffers)
            if not self.game.alive:
                self._problem(f"The game has ended. {self._rescue()}".strip())

    def _press(self, content: dict[str, Any]) -> None:
        self.game.press(*_names(content))

    def _keys(self, content: dict[str, Any]) -> None:
        """Holds keys down; the first key takes over from the agent and starts the time."""
        self.game.hold(*_names(content))
        if content.get("begin"):
            self.game.take_over()
            if not self.game.moment.running:
                self.game.run()

    def _do(self, content: dict[str, Any]) -> None:
        name = content.get("name")
        if name == "agent":
            now = self.game.moment
            if now.playing == AGENT:
                self.game.take_over()
            else:
                self.game.hand_over()
        elif name == "advice":
            self.game.step()
        elif name in ("run", "pause", "restart", "keep"):
            getattr(self.game, name)()

    def _pace(self, content: dict[str, Any]) -> None:
        self.game.pace(speed=content.get("speed", 1), turns=bool(content.get("turns")))

    def _header(self, picture: bytes) -> dict[str, Any]:
        """The fixed facts that a page needs first."""
        game = self.game
        size = Image.open(io.BytesIO(picture)).size if picture else (0, 0)
        return {
            "title": game.title, "label": f"Game: {game.title}", "kind": _kind(self._states), "fps": game.usual_rate,
            **policy_header(game.spec.actions, game.action_names), "agent": game.has_agent,
            "picture": {"mime": "", "width": size[0], "height": size[1]} if picture else None,
            "shape": [] if picture else [len(self._states[-1]["observation"])], "entries": list(game.entries),
            "saliency": None, "note": game.note, "frames_per_step": game.spec.frames_per_step, "speeds": SPEEDS,
            "keys": list(game.keys.meanings), "legend": game.keys.table, "reserved": RESERVED, "pulled": self._pulled,
        }

    # --- what a saved notebook keeps ------------------------------------------------------------------------------

    def still(self) -> Bundle:
        """The last frame, and the game's facts."""
        now = self.game.moment
        facts = {
            "step": f"{now.step:,} ({now.by_person:,} by a person)", "frames": f"{now.frames:,}",
            "return": number(now.episode_return), **({"over": now.over} if now.over else {}),
            **({} if now.kept is None else {"kept": str(now.kept)}),
        }
        frames = []
        if now.picture:
            frames = [StripFrame(f"step {now.step}", np.asarray(Image.open(io.BytesIO(now.picture)).convert("RGB")))]
        return filmstrip.bundle(self.game.title, facts, frames)

    def _ipython_display_(self) -> None:
        self._contact_at = time.monotonic()
        self._outputs.append(Shown(self, self.still()))
        REFRESHER.add(self)


def _names(content: dict[str, Any]) -> list[str]:
    """The held keys in a page's message."""
    return [str(key) for key in content.get("held", ())]


def _kind(states: deque[dict[str, Any]]) -> str:
    """The kind of the agent's scores; "probability" before the first advice, or without an agent."""
    return next((str(state["advice"]["kind"]) for state in states if state["advice"]), "probability")

"""What all live views have in common: they ask the run about twice a second while a page looks, and keep a still.

A page that receives nothing asks itself (Colab delivers only answers). When no page has been visible for a while, the
requests end, and what the learner keeps for them ends by itself.
"""

from __future__ import annotations

import math
import threading
import time
from abc import abstractmethod
from typing import Any

import anywidget
import traitlets

from workbench.playing.wall import WallLook
from workbench.playing.watch import Look
from workbench.widgets.kernel.refresher import REFRESHER, Actions
from workbench.widgets.kernel.saved_view import Bundle, Shown

UNSEEN_S = 120.0  # without a message of a page; a visible page sends one every ten seconds
OVER_S = 5.0  # between questions whether a run that has ended goes on
QUIET_S = 1.5  # without a new step until the view shows the reason
STILL_S = (3.0, 60.0)  # until the first picture for the saved notebook, and between pictures

Message = tuple[dict[str, Any], list[bytes]]  # for a page: content and buffers


class LiveWidget(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget is not typed
    """A view that follows a running run."""

    label = traitlets.Unicode("Live view").tag(sync=True)
    _last: Look | WallLook

    def __init__(self, title: str) -> None:
        self.title = title
        super().__init__(label=f"Live view: {title}")
        self._lock = threading.RLock()
        self._looking = threading.Lock()
        self._actions = Actions()
        self._contact_at = self._news_at = self._started_at = self._looked_at = time.monotonic()
        self._still_at = self._started_at + STILL_S[0]
        self._outputs: list[Shown] = []
        self.on_msg(self._received)

    @abstractmethod
    def still(self) -> Bundle:
        """What a saved notebook keeps."""

    @abstractmethod
    def _look(self) -> Message:
        """Asks the run; returns the news for all pages."""

    @abstractmethod
    def _everything(self, view: str | None) -> Message:
        """All that a page needs which has nothing yet."""

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self._last.over

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.title}>"

    def tick(self) -> bool:
        """Asks for new steps in another thread, of a run that has ended seldom: it may go on. Returns whether to be
        called again."""
        now = time.monotonic()
        if self.comm is None or now - self._contact_at > UNSEEN_S:
            return False
        if not self._looking.locked() and not (self.over and now - self._looked_at < OVER_S):
            self._looked_at = now
            self._actions.submit(self.look)
        return True

    def look(self) -> None:
        """Asks for new steps now and sends them to the pages; does nothing while another look is under way."""
        if not self._looking.acquire(blocking=False):
            return
        try:
            self._send_look()
        finally:
            self._looking.release()

    def _send_look(self) -> None:
        message = self._look()
        with self._lock:
            self.send(*message)
            self._renew_still()

    @property
    def _quiet(self) -> bool:
        """Whether it is time to say why nothing comes."""
        return self.over or time.monotonic() - self._news_at > QUIET_S

    def _received(self, _: Any, content: dict[str, Any], __: Any) -> None:
        """Handles a page's message, in the main thread or in a subshell's."""
        self._contact_at = time.monotonic()
        kind = content.get("type")
        if kind == "pull":
            self.look()
        if kind in ("hello", "pull"):  # a page that pulls may have received nothing from the refresher's thread
            with self._lock:
                self.send(*self._everything(content.get("view")))
        REFRESHER.add(self)

    def _renew_still(self) -> None:
        now = time.monotonic()
        if not self.over:
            self._still_at = min(self._still_at, now + STILL_S[1])
        if not self._outputs or now < self._still_at and not self.over or self._still_at == math.inf:
            return
        self._still_at = math.inf if self.over else now + STILL_S[1]
        still = self.still()
        for output in self._outputs:
            output.keep(still)

    def _ipython_display_(self) -> None:
        self._show(self)

    def _show(self, view: Any) -> None:
        """Show `view`, which is this widget or holds it, in the cell that runs."""
        self._contact_at = time.monotonic()
        self._outputs.append(Shown(view, self.still()))
        REFRESHER.add(self)

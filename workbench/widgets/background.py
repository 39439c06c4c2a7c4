"""What runs beside a notebook's cells: one thread that refreshes all panels of a kernel, and actions in order.

Both end by themselves when there is nothing to do, and neither keeps a kernel from ending.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

PERIOD_S = 1.0


class Refreshable(Protocol):
    """Something on a screen that follows a run."""

    def tick(self) -> bool:
        """Bring it up to date; whether it wants to be ticked again. Never raises."""


class Refresher:
    """Ticks everything that was added about once a second, in one daemon thread, until nothing wants it any more."""

    def __init__(self, *, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._changed = threading.Condition()
        self._shown: list[Refreshable] = []
        self._thread: threading.Thread | None = None

    def add(self, one: Refreshable) -> None:
        """Tick `one` from now on; nothing happens if it is ticked already."""
        with self._changed:
            if one not in self._shown:
                self._shown.append(one)
                self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="workbench-panels", daemon=True)
                self._thread.start()

    def remove(self, one: Refreshable) -> None:
        """Tick `one` no more."""
        with self._changed:
            self._shown = [other for other in self._shown if other is not one]
            self._changed.notify()

    @property
    def running(self) -> bool:
        """Whether there is a thread."""
        with self._changed:
            return self._thread is not None

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._shown:
                    self._thread = None
                    return
                shown = list(self._shown)
            for one in shown:
                if not one.tick():
                    self.remove(one)
            with self._changed:
                if self._shown:
                    self._changed.wait(self._period_s)


REFRESHER = Refresher()


class Actions:
    """Does what it is given one after the other, in a thread of its own, so that a callback returns at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._working = False

    def submit(self, action: Callable[[], None]) -> None:
        """Do `action` after those that wait already. It must handle its own errors."""
        with self._lock:
            self._waiting.append(action)
            if self._working:
                return
            self._working = True
        threading.Thread(target=self._drain, name="workbench-actions", daemon=True).start()

    def _drain(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._working = False
                    return
                action = self._waiting.popleft()
            action()

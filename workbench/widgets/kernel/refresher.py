"""What runs beside a notebook's cells: one thread that refreshes all widgets of a kernel, and actions in order.

Both end by themselves when there is nothing to do, and neither keeps a kernel from ending.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

PERIOD_S = 0.5
SHARE = 0.04  # of a core that all ticks may take together; what they send costs other threads a little more
_LIGHT = 0.1  # of the share: who takes less does not count
_LOG = logging.getLogger(__name__)


class Refreshable(Protocol):
    """Something on a screen that follows a run."""

    def tick(self) -> bool:
        """Bring it up to date; whether it wants to be ticked again. Never raises."""


@dataclass
class _Followed:
    one: Refreshable
    period_s: float
    due: float = 0.0  # on the monotonic clock
    load: float = 0.0  # CPU seconds of the last tick, per second of its period


class Refresher:
    """Ticks everything that was added, each at most every `period_s`, in one daemon thread that ends with the last.

    Those whose ticks are expensive wait longer, so that all together take at most `share` of a core.
    """

    def __init__(self, *, period_s: float = PERIOD_S, share: float = SHARE) -> None:
        self._period_s, self._share = period_s, share
        self._changed = threading.Condition()
        self._followed: list[_Followed] = []
        self._thread: threading.Thread | None = None

    def add(self, one: Refreshable, *, period_s: float | None = None) -> None:
        """Tick `one` at once and from then on; one that is ticked already is only ticked at once."""
        with self._changed:
            found = [entry for entry in self._followed if entry.one is one]
            if found:
                found[0].due = 0.0
            else:
                self._followed.append(_Followed(one, self._period_s if period_s is None else period_s))
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="workbench-panels", daemon=True)
                self._thread.start()

    def remove(self, one: Refreshable) -> None:
        """Tick `one` no more."""
        with self._changed:
            self._followed = [entry for entry in self._followed if entry.one is not one]
            self._changed.notify()

    @property
    def running(self) -> bool:
        """Whether there is a thread."""
        with self._changed:
            return self._thread is not None

    def _run(self) -> None:
        while (entry := self._next()) is not None:
            started = time.thread_time()
            if self._ticked(entry.one):
                self._pace(entry, time.thread_time() - started)
            else:
                self._drop(entry)

    def _ticked(self, one: Refreshable) -> bool:
        try:
            return one.tick()
        except Exception:  # it must not end the thread of all the others
            _LOG.exception("%r could not be refreshed, and is not followed any more", one)
            return False

    def _next(self) -> _Followed | None:
        """The one that is due next, once it is; None when there is none left."""
        with self._changed:
            while self._followed:
                entry = min(self._followed, key=lambda one: one.due)
                wait_s = entry.due - time.monotonic()
                if wait_s <= 0:
                    entry.due = float("inf")  # until `_pace`, or until somebody adds it anew
                    return entry
                self._changed.wait(wait_s)
            self._thread = None
            return None

    def _pace(self, entry: _Followed, cost_s: float) -> None:
        with self._changed:
            entry.load = cost_s / max(entry.period_s, 1e-6)
            heavy = sum(one.load > _LIGHT * self._share for one in self._followed)
            wait_s = max(entry.period_s, cost_s * max(heavy, 1) / self._share)
            entry.due = min(entry.due, time.monotonic() + wait_s)

    def _drop(self, entry: _Followed) -> None:
        """Tick it no more, unless it was added anew while it was ticked."""
        with self._changed:
            if entry.due > 0:
                self._followed = [one for one in self._followed if one is not entry]


REFRESHER = Refresher()


class Actions:
    """Does what it is given one after the other, in a thread of its own, so that a callback returns at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._working = False

    def submit(self, action: Callable[[], None]) -> None:
        """Do `action` after those that wait already. It must handle its own errors: what it raises is only logged."""
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
            try:
                action()
            except Exception:  # those that wait must still be done
                _LOG.exception("something that was asked for could not be done")

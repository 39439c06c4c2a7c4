"""Threads beside a notebook's cells: one refreshes all widgets of a kernel, others run actions in order.

All end by themselves when there is nothing to do, and none keeps a kernel from ending.
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
SHARE = 0.04  # of a core for all ticks together; other threads need a little more to send the messages
_LIGHT = 0.1  # of the share: a lighter widget does not count as heavy
_LOG = logging.getLogger(__name__)


class Refreshable(Protocol):
    """Something on a screen that follows a run."""

    def tick(self) -> bool:
        """Brings it up to date and returns whether to be ticked again. Never raises."""


@dataclass
class _Schedule:
    view: Refreshable
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
        self._followed: list[_Schedule] = []
        self._thread: threading.Thread | None = None

    def add(self, view: Refreshable, *, period_s: float | None = None) -> None:
        """Ticks `view` at once and regularly from then on; if it is ticked already, its next tick comes at once."""
        with self._changed:
            entries = [entry for entry in self._followed if entry.view is view]
            if entries:
                entries[0].due = 0.0
            else:
                self._followed.append(_Schedule(view, self._period_s if period_s is None else period_s))
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="workbench-panels", daemon=True)
                self._thread.start()

    def remove(self, view: Refreshable) -> None:
        """Ends the ticks of `view`."""
        with self._changed:
            self._followed = [entry for entry in self._followed if entry.view is not view]
            self._changed.notify()

    @property
    def running(self) -> bool:
        """Whether the thread is running."""
        with self._changed:
            return self._thread is not None

    def _run(self) -> None:
        while (entry := self._next()) is not None:
            started = time.thread_time()
            if self._ticked(entry.view):
                self._pace(entry, time.thread_time() - started)
            else:
                self._drop(entry)

    def _ticked(self, view: Refreshable) -> bool:
        try:
            return view.tick()
        except Exception:  # it must not end the thread of all the others
            _LOG.exception("%r could not be refreshed, and is not followed any more", view)
            return False

    def _next(self) -> _Schedule | None:
        """Waits for the next view that is due and returns its schedule; None when no view is left."""
        with self._changed:
            while self._followed:
                entry = min(self._followed, key=lambda other: other.due)
                wait_s = entry.due - time.monotonic()
                if wait_s <= 0:
                    entry.due = float("inf")  # until `_pace` or `add` sets it
                    return entry
                self._changed.wait(wait_s)
            self._thread = None
            return None

    def _pace(self, entry: _Schedule, cost_s: float) -> None:
        with self._changed:
            entry.load = cost_s / max(entry.period_s, 1e-6)
            heavy = sum(other.load > _LIGHT * self._share for other in self._followed)
            wait_s = max(entry.period_s, cost_s * max(heavy, 1) / self._share)
            entry.due = min(entry.due, time.monotonic() + wait_s)

    def _drop(self, entry: _Schedule) -> None:
        """Ends its ticks, unless it was added again during the last tick."""
        with self._changed:
            if entry.due > 0:
                self._followed = [other for other in self._followed if other is not entry]


REFRESHER = Refresher()


class Actions:
    """Runs actions one after another in a separate thread, so that callbacks return at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Callable[[], object], Callable[[str], object] | None]] = deque()
        self._working = False

    def submit(self, action: Callable[[], object], failed: Callable[[str], object] | None = None) -> None:
        """Queues `action`. If it fails, `failed` is called with the error in words; without `failed` it is logged."""
        with self._lock:
            self._waiting.append((action, failed))
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
                action, failed = self._waiting.popleft()
            try:
                carry_out(action, failed)
            except Exception:  # the waiting actions must still run
                _LOG.exception("an action failed")


def carry_out(action: Callable[[], object], failed: Callable[[str], object] | None = None) -> None:
    """Calls `action` at once. If it fails, `failed` is called with the error in words; without `failed` it is raised.
    """
    try:
        action()
    except Exception as error:  # of any kind: `failed` shows it
        if failed is None:
            raise
        failed(str(error) or type(error).__name__)

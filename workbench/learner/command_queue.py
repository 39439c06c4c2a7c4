"""Commands of other threads, which the main thread runs between two updates."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from workbench.errors import RunNotAlive, WorkbenchError

_TIMEOUT_S = 25.0  # less than the supervisor waits, so that its caller learns whether the command was dropped


class Commands:
    """A queue of actions. An action that timed out never runs later; none waits after `close`."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._pending = threading.Event()

    def do(self, action: Callable[[], Any]) -> Any:
        """The result of `action` in the main thread. Raises what it raises, or RunNotAlive when the learner ends."""
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise RunNotAlive("the learner is ending.")
            self._waiting.append((action, future))
            self._pending.set()
        try:
            return future.result(timeout=_TIMEOUT_S)
        except FutureTimeout:
            if future.cancel():
                raise WorkbenchError(f"the learner was busy for {_TIMEOUT_S:g} s; nothing was changed.") from None
            return future.result()  # it has just begun

    def run_pending(self) -> None:
        """Run the actions that wait. Called by the main thread."""
        self._pending.clear()
        while self._waiting:
            action, future = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(action())
            except BaseException as error:
                future.set_exception(error)

    def wait(self, seconds: float) -> None:
        """Wait for an action, at most `seconds`."""
        self._pending.wait(seconds)

    def close(self) -> None:
        """Refuse the actions that wait, and all later ones."""
        with self._lock:
            self._closed = True
        while self._waiting:
            _, future = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                future.set_exception(RunNotAlive("the learner is ending."))

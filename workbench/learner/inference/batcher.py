"""Dynamic batching: groups of environments wait here until an inference batch is worth running.

A batch runs when it has `max_batch` environments, when `timeout_s` has passed since its first group arrived, or when no
other environment may send anything. Groups are never split. Partial batches are normal, so a dead actor stalls nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from workbench.trajectory import Array
from workbench.wire.messages import GroupActions, GroupStep


@dataclass
class Request:
    """A group that waits for actions.

    Attributes:
        env_ids: rows of the learner's tables, int [N].
        run_id: of the life of the actor that sent it.
        reply: called with the actions, from the inference thread.
        is_alive: returns False once the actor's stream has ended.
        arrived: time of arrival, from time.perf_counter().
    """

    env_ids: Array
    run_id: int
    message: GroupStep
    reply: Callable[[GroupActions], None]
    is_alive: Callable[[], bool]
    arrived: float

    @property
    def size(self) -> int:
        """Environments in the group."""
        return len(self.env_ids)


class Batcher:
    """Collects requests into batches; `close` ends it, `pause` holds batches back."""

    def __init__(self, *, max_batch: int, timeout_s: float) -> None:
        self.max_batch = max_batch
        self.timeout_s = timeout_s
        self._waiting: deque[Request] = deque()
        self._size = 0
        self._expected = 0
        self._changed = threading.Condition()
        self._paused = False
        self._closed = False

    def put(self, request: Request) -> None:
        """Add a group. Thread-safe."""
        with self._changed:
            self._waiting.append(request)
            self._size += request.size
            self._changed.notify()

    def expect(self, environments: int) -> None:
        """Add to (or, if negative, subtract from) the number of environments that may send something."""
        with self._changed:
            self._expected += environments
            self._changed.notify()

    def pause(self, paused: bool) -> None:
        """Hold batches back, or let them go."""
        with self._changed:
            self._paused = paused
            self._changed.notify()

    def close(self) -> None:
        """End: `next_batch` returns an empty batch from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def next_batch(self) -> list[Request]:
        """Wait for the next batch. Empty when closed."""
        with self._changed:
            while not self._closed:
                wait_s = self._seconds_to_wait()
                if wait_s == 0.0:
                    return self._take()
                self._changed.wait(wait_s)
            return []

    def whole(self, environments: int, run_ids: Collection[int], *, timeout_s: float) -> list[Request]:
        """Wait for groups of `environments` environments, and return them in order; [] after `timeout_s` or if closed.

        Only lives with these `run_ids` count; the groups of others are dropped.
        """

        def complete() -> bool:
            self._waiting = deque(group for group in self._waiting if group.run_id in run_ids and group.is_alive())
            self._size = sum(group.size for group in self._waiting)
            return self._closed or self._size >= environments

        with self._changed:
            if not self._changed.wait_for(complete, timeout_s) or self._closed:
                return []
            batch = sorted(self._waiting, key=lambda group: int(group.env_ids[0]))
            self._waiting.clear()
            self._size = 0
            return batch

    def _seconds_to_wait(self) -> float | None:
        """0: run now; None: until something changes."""
        if self._paused or not self._waiting:
            return None
        if self._size >= min(self.max_batch, self._expected):
            return 0.0
        return max(0.0, self._waiting[0].arrived + self.timeout_s - time.perf_counter())

    def _take(self) -> list[Request]:
        batch = [self._waiting.popleft()]
        size = batch[0].size
        while self._waiting and size + self._waiting[0].size <= self.max_batch:
            batch.append(self._waiting.popleft())
            size += batch[-1].size
        self._size -= size
        return batch

"""The bounded queue of finished unrolls. The bound slows the actors of a slow learner, instead of increasing the policy
lag.
"""

from __future__ import annotations

import threading
from collections import deque

from workbench.trajectory import Unroll


class UnrollQueue:
    """First in, first out; `put` waits while `capacity` unrolls wait. Only one thread may call `take`."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._unrolls: deque[Unroll] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._awaited = 0  # unrolls for which `take` waits; fewer do not wake it

    def __len__(self) -> int:
        return len(self._unrolls)

    def put(self, *unrolls: Unroll) -> bool:
        """Add unrolls, and wait for room where there is none. Returns False if the queue was closed instead."""
        waiting = deque(unrolls)
        with self._changed:
            while waiting:
                self._changed.wait_for(lambda: self._closed or len(self._unrolls) < self.capacity)
                if self._closed:
                    return False
                while waiting and len(self._unrolls) < self.capacity:
                    self._unrolls.append(waiting.popleft())
                if len(self._unrolls) >= self._awaited:
                    self._changed.notify_all()
            return True

    def take(self, count: int, *, timeout_s: float) -> list[Unroll]:
        """The `count` oldest unrolls; [] if there are fewer after `timeout_s`, or if closed."""
        with self._changed:
            self._awaited = count
            in_time = self._changed.wait_for(lambda: self._closed or len(self._unrolls) >= count, timeout_s)
            self._awaited = 0
            if self._closed or not in_time:
                return []
            unrolls = [self._unrolls.popleft() for _ in range(count)]
            self._changed.notify_all()
        for unroll in unrolls:
            if unroll.flight is not None:
                unroll.flight.ends("queue")
        return unrolls

    def resize(self, capacity: int) -> None:
        """Let `capacity` unrolls wait; if more do, no other comes until they are taken."""
        if capacity != self.capacity:
            with self._changed:
                self.capacity = capacity
                self._changed.notify_all()

    def close(self) -> None:
        """End: waiting calls return."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

"""The bounded queue of finished unrolls, and the batches of V-trace, which come straight from it.

A slow learner slows the actors instead of growing the policy lag.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from workbench.algorithms.batch import Batch, collate
from workbench.algorithms.interface import Loss
from workbench.trajectory import Array, Unroll


class UnrollQueue:
    """First in, first out; `put` waits while `capacity` unrolls wait. One thread takes."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._unrolls: deque[Unroll] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._awaited = 0  # unrolls that `take` waits for; it is not woken for fewer

    def __len__(self) -> int:
        return len(self._unrolls)

    def put(self, unroll: Unroll) -> bool:
        """Add an unroll, waiting for room. False if the queue was closed instead."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._unrolls) < self.capacity)
            if self._closed:
                return False
            self._unrolls.append(unroll)
            if len(self._unrolls) >= self._awaited:
                self._changed.notify_all()
            return True

    def take(self, count: int, *, timeout_s: float) -> list[Unroll]:
        """The `count` oldest unrolls; empty if there are not so many after `timeout_s`, or if closed."""
        with self._changed:
            self._awaited = count
            in_time = self._changed.wait_for(lambda: self._closed or len(self._unrolls) >= count, timeout_s)
            self._awaited = 0
            if self._closed or not in_time:
                return []
            taken = [self._unrolls.popleft() for _ in range(count)]
            self._changed.notify_all()
            return taken

    def close(self) -> None:
        """End: waiting calls return."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Fresh:
    """Every unroll once, in the order in which they were finished. See `batch_source.Experience`."""

    filling = ""
    kept = None

    def __init__(self, queue: UnrollQueue, *, pin_memory: bool = False) -> None:
        self.queue = queue
        self._pin_memory = pin_memory

    def next(self, config: Any, *, timeout_s: float) -> Batch | None:
        """See `batch_source.Experience`."""
        unrolls = self.queue.take(config.batch_size, timeout_s=timeout_s)
        return collate(unrolls, pin_memory=self._pin_memory) if unrolls else None

    def learnt(self, batch: Batch, loss: Loss | None) -> None:
        """Nothing to do."""

    def look(self) -> tuple[dict[str, float], dict[str, Any]]:
        """See `batch_source.Experience`."""
        return {}, {}

    def arrays(self, config: Any, *, asked: bool | None = None) -> dict[str, Array]:
        """Nothing: an unroll that waits is not worth keeping."""
        return {}

    def load(self, arrays: Mapping[str, Array]) -> int:
        """Nothing to do."""
        return 0

    def close(self) -> None:
        """See `batch_source.Experience`."""
        self.queue.close()

"""Dynamic batching: groups of environments wait here until an inference batch is worth running.

A batch runs when it has `max_batch` environments, when `timeout_s` has passed since its first group arrived, or when no
other environment may send anything. Groups are never split. Partial batches are normal, so a dead actor stalls nothing.

Groups come in two ways: other threads `put` them, and the thread that waits for a batch reads them itself from sockets
that it was told to `watch`, so that no thread has to hand them over.
"""

from __future__ import annotations

import math
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

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
    """Collects requests into batches; `close` ends it, `pause` holds batches back. One thread takes the batches."""

    def __init__(self, *, max_batch: int, timeout_s: float) -> None:
        self.max_batch = max_batch
        self.timeout_s = timeout_s
        self._waiting: deque[Request] = deque()
        self._size = 0
        self._expected = 0
        self._paused = self._closed = False
        self._lock = threading.Lock()
        # While the thread that takes batches sleeps, until a socket or `_wake` wakes it: the size that is worth it.
        self._wakes_at: float | None = None
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, self._slept)

    def put(self, request: Request) -> None:
        """Add a group. Thread-safe."""
        with self._changing(always_wakes=False):
            self._waiting.append(request)
            self._size += request.size

    def expect(self, environments: int) -> None:
        """Add to (or, if negative, subtract from) the number of environments that may send something."""
        with self._changing():
            self._expected += environments

    def configure(self, *, max_batch: int, timeout_s: float) -> None:
        """Make batches of another size, or after another time."""
        with self._changing():
            self.max_batch, self.timeout_s = max_batch, timeout_s

    def pause(self, paused: bool) -> None:
        """Hold batches back, or let them go."""
        with self._changing():
            if self._paused and not paused:
                for request in self._waiting:  # until now for the pause to end, and not for a batch
                    request.arrived = time.perf_counter()
            self._paused = paused

    def close(self) -> None:
        """End: `next_batch` returns an empty batch from now on."""
        with self._changing():
            self._closed = True

    def watch(self, connection: socket.socket, read: Callable[[], bool]) -> None:
        """Let the thread that takes batches call `read` when something has come on `connection`, which is then ours.

        `read` returns whether more may come; otherwise the connection is closed.
        """
        self._selector.register(connection, selectors.EVENT_READ, read)

    def next_batch(self) -> list[Request]:
        """Wait for the next batch. Empty when closed."""
        self._receive(0.0)
        while True:
            with self._lock:
                if self._closed:
                    return []
                wait_s = self._seconds_to_wait()
                if wait_s == 0.0:
                    return self._take()
                # The first group sets the time; others wait for it, or for the batch to be full.
                full = min(self.max_batch, self._expected) if self._waiting else 1
                self._wakes_at = math.inf if self._paused else full
            self._receive(wait_s)

    def whole(self, environments: int, run_ids: Collection[int], *, timeout_s: float) -> list[Request]:
        """Wait for groups of `environments` environments, and return them in order; [] after `timeout_s` or if closed.

        Only lives with these `run_ids` count; the groups of others are dropped.
        """
        deadline = time.monotonic() + timeout_s
        self._receive(0.0)
        while True:
            with self._lock:
                if self._closed:
                    return []
                self._waiting = deque(group for group in self._waiting if group.run_id in run_ids and group.is_alive())
                self._size = sum(group.size for group in self._waiting)
                if self._size >= environments:
                    batch = sorted(self._waiting, key=lambda group: int(group.env_ids[0]))
                    self._waiting.clear()
                    self._size = 0
                    return batch
                self._wakes_at = environments
            if (left_s := deadline - time.monotonic()) <= 0:
                return []
            self._receive(left_s)

    @contextmanager
    def _changing(self, *, always_wakes: bool = True) -> Iterator[None]:
        """Change something for which the other thread may wait, and wake it, always or where the size is worth it."""
        with self._lock:
            yield
            wakes = self._wakes_at is not None and (always_wakes or self._size >= self._wakes_at)
            if wakes:
                self._wakes_at = None
        if wakes:
            self._wake.send(b"!")

    def _receive(self, timeout_s: float | None) -> None:
        """Read all that has come, up to a batch, or comes within `timeout_s`; None: however long it takes.

        Each look reads one step of each connection, so one look would leave the batch of a late thread nearly empty.
        """
        while ready := self._selector.select(timeout_s):
            self._wakes_at = None
            for key, _ in ready:
                if not key.data():
                    self._selector.unregister(key.fileobj)
                    cast(socket.socket, key.fileobj).close()
            if self._size >= self.max_batch:
                break
            timeout_s = 0.0
        self._wakes_at = None

    def _slept(self) -> bool:
        """Forget that this thread was woken."""
        self._woken.recv(4096)
        return True

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

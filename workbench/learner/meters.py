"""Sums of what happened since the last look: seconds spent, sizes seen. Thread-safe and cheap."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Meters:
    """Named sums and numbers of additions, emptied by `drain`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def add(self, name: str, value: float) -> None:
        """Add `value` to the sum of `name`."""
        with self._lock:
            entry = self._sums[name]
            entry[0] += value
            entry[1] += 1

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Add the seconds that the block takes."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - started)

    def drain(self) -> Sums:
        """What was added since the last call."""
        with self._lock:
            drained, self._sums = self._sums, defaultdict(lambda: [0.0, 0.0])
        return Sums({name: (total, int(number)) for name, (total, number) in drained.items()})


class Sums:
    """Drained sums; names that nothing was added to are 0."""

    def __init__(self, entries: dict[str, tuple[float, int]]) -> None:
        self._entries = entries

    def total(self, name: str) -> float:
        """The sum."""
        return self._entries.get(name, (0.0, 0))[0]

    def mean(self, name: str) -> float | None:
        """The mean of what was added, None if nothing was."""
        total, number = self._entries.get(name, (0.0, 0))
        return total / number if number else None

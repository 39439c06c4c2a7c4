"""Sums of what happened since the last look: seconds spent, sizes seen. Thread-safe and cheap."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


class Meters:
    """Named sums and numbers of additions, emptied by `drain`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = defaultdict(_Entry)
        self._open: dict[object, tuple[str, float]] = {}  # blocks that are timed now: name, and since when

    def add(self, name: str, value: float) -> None:
        """Add `value` to the sum of `name`."""
        with self._lock:
            self._entries[name].add(value)

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Add the seconds that the block takes; a look meanwhile sees those that have passed."""
        block, started = object(), time.perf_counter()
        with self._lock:
            self._open[block] = name, started
        try:
            yield
        finally:
            now = time.perf_counter()
            with self._lock:
                _, since = self._open.pop(block)
                self._entries[name].add(now - started, already=since - started)

    def drain(self) -> Sums:
        """What was added since the last call."""
        with self._lock:
            now = time.perf_counter()
            for block, (name, since) in self._open.items():
                self._entries[name].total += now - since
                self._open[block] = name, now
            drained, self._entries = self._entries, defaultdict(_Entry)
        return Sums(drained)


@dataclass
class _Entry:
    total: float = 0.0  # of all that was seen so far
    complete: float = 0.0  # of what has ended
    number: int = 0  # of what has ended

    def add(self, value: float, *, already: float = 0.0) -> None:
        """Add what has ended; `already`: the part of it that an earlier look has seen."""
        self.total += value - already
        self.complete += value
        self.number += 1


class Sums:
    """Drained sums; names that nothing was added to are 0."""

    def __init__(self, entries: Mapping[str, _Entry]) -> None:
        self._entries = dict(entries)

    def plain(self) -> dict[str, list[float]]:
        """As JSON takes them; `joined` reads them."""
        return {name: [entry.total, entry.complete, entry.number] for name, entry in self._entries.items()}

    @classmethod
    def joined(cls, several: Iterable[Mapping[str, Sequence[float]]]) -> Sums:
        """The sums of several meters together."""
        entries: dict[str, _Entry] = defaultdict(_Entry)
        for one in several:
            for name, (total, complete, number) in one.items():
                entry = entries[name]
                entry.total, entry.complete = entry.total + total, entry.complete + complete
                entry.number += int(number)
        return cls(entries)

    def total(self, name: str) -> float:
        """The sum."""
        return self._entries.get(name, _Entry()).total

    def mean(self, name: str) -> float | None:
        """The mean of what was added, None if nothing was."""
        entry = self._entries.get(name, _Entry())
        return entry.complete / entry.number if entry.number else None

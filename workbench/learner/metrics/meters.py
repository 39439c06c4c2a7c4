"""Sums of what happened since the last `drain`: seconds spent, sizes of batches. Thread-safe and cheap."""

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
        self._meters: dict[str, _Meter] = defaultdict(_Meter)
        self._open: dict[object, tuple[str, float]] = {}  # blocks being timed: name, and the time counted up to

    def add(self, name: str, value: float) -> None:
        """Add `value` to the sum of `name`."""
        with self._lock:
            self._meters[name].add(value)

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Add the seconds that the block takes; a `drain` meanwhile counts the seconds so far."""
        block, started = object(), time.perf_counter()
        with self._lock:
            self._open[block] = name, started
        try:
            yield
        finally:
            now = time.perf_counter()
            with self._lock:
                _, since = self._open.pop(block)
                self._meters[name].add(now - started, drained=since - started)

    def drain(self) -> Sums:
        """The sums since the last call."""
        with self._lock:
            now = time.perf_counter()
            for block, (name, since) in self._open.items():
                self._meters[name].total += now - since
                self._open[block] = name, now
            meters, self._meters = self._meters, defaultdict(_Meter)
        return Sums(meters)


@dataclass
class _Meter:
    total: float = 0.0  # with the parts so far of blocks being timed
    complete: float = 0.0  # of values and blocks that have ended
    number: int = 0  # of values and blocks that have ended

    def add(self, value: float, *, drained: float = 0.0) -> None:
        """Add a value; `drained`: the part of it that an earlier `drain` has counted."""
        self.total += value - drained
        self.complete += value
        self.number += 1


class Sums:
    """Drained sums; a name to which nothing was added has the sum 0."""

    def __init__(self, meters: Mapping[str, _Meter]) -> None:
        self._meters = dict(meters)

    def plain(self) -> dict[str, list[float]]:
        """Total, complete and number by name, for JSON and `joined`."""
        return {name: [meter.total, meter.complete, meter.number] for name, meter in self._meters.items()}

    @classmethod
    def joined(cls, several: Iterable[Mapping[str, Sequence[float]]]) -> Sums:
        """The sums of several `plain` ones."""
        meters: dict[str, _Meter] = defaultdict(_Meter)
        for plain in several:
            for name, (total, complete, number) in plain.items():
                meter = meters[name]
                meter.total, meter.complete = meter.total + total, meter.complete + complete
                meter.number += int(number)
        return cls(meters)

    def total(self, name: str) -> float:
        """The sum, with the parts so far of blocks that are still being timed."""
        return self._meters.get(name, _Meter()).total

    def mean(self, name: str) -> float | None:
        """The mean of the values that were added, None if there are none."""
        meter = self._meters.get(name, _Meter())
        return meter.complete / meter.number if meter.number else None

"""A run's history in memory, kept up to date: after the first call, only new rows are read.

Each call reads the last known row again: if it has changed or is missing, the file is another run's.
Series are thinned out as they grow, to a bounded size: they keep every extreme, and all parts are equally fine.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Container
from pathlib import Path
from typing import Any

import numpy as np

from workbench.metrics import series
from workbench.metrics.reader import MetricsReader
from workbench.metrics.schema import COUNTERS
from workbench.metrics.series import Array, Series


class History:
    """Series and events of one run; reads all anew if another run's file has replaced it.

    Attributes:
        reader: reads everything else in the file.
    """

    def __init__(self, path: Path, *, most_points: int = 2000):
        self.reader = MetricsReader(path)
        self._max_points = most_points
        self._lock = threading.Lock()
        self._series: dict[str, Series] = {}
        self._numbers: dict[str, Array] = {}
        self._events: list[dict[str, Any]] = []

    def series(self, names: Container[str]) -> dict[str, Series]:
        """Arrays frames, steps, updates, time_s, value of the named series with rows, at most `most_points` each, and
        count and mean of the rows that each point stands for (`metrics.series.newer`)."""
        with self._lock:
            stored = [name for name in self.reader.names() if name in names]
            if not self._follow(stored):
                self._forget()
                self._follow(stored)
            return {name: self._series[name] for name in stored if name in self._series}

    def events(self) -> list[dict[str, Any]]:
        """All events, oldest first, as MetricsReader.events returns them."""
        with self._lock:
            last = self._events[-1:]
            new = self.reader.events(since_id=last[0]["id"] - 1 if last else 0)
            if last and [event["time"] for event in new[:1]] != [last[0]["time"]]:
                self._forget()
                last, new = [], self.reader.events()
            if len(new) > len(last):
                self._events = [*self._events[:-1], *new]
            return self._events

    def _follow(self, names: Collection[str]) -> bool:
        """Add new rows. Returns False, and adds nothing, if a last row has changed: the file is another run's."""
        since = {name: int(self._numbers[name][-1]) if name in self._numbers else 0 for name in names}
        newer = self.reader.newer(since, max_points=self._max_points)
        if not all(_continues(self._series[name], newer[name][0]) for name in names if name in self._series):
            return False
        for name, (rows, numbers) in newer.items():
            start = int(name in self._series)  # its last row comes again
            if len(numbers) > start:
                self._add(name, {column: values[start:] for column, values in rows.items()}, numbers[start:])
        return True

    def _forget(self) -> None:
        self._series, self._numbers, self._events = {}, {}, []

    def _add(self, name: str, rows: Series, numbers: Array) -> None:
        """Append rows; if there are too many then, thin out to half of the bound, so that this happens rarely."""
        if name in self._series:
            numbers = np.concatenate([self._numbers[name], numbers])
            rows = {column: np.concatenate([self._series[name][column], values]) for column, values in rows.items()}
        if len(numbers) > self._max_points:
            indices = series.thinned(numbers, rows["value"], max_points=self._max_points // 2)
            numbers, rows = numbers[indices], series.merged(rows, indices)
        self._series[name], self._numbers[name] = rows, numbers


def _continues(before: Series, after: Series) -> bool:
    """Whether `after` begins with the last row of `before`."""
    return all(np.array_equal(before[name][-1:], after[name][:1], equal_nan=True) for name in (*COUNTERS, "value"))

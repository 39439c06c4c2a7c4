"""A run's history kept in memory and followed: after the first look, only new rows are read.

The last row known is read again each time: where it has changed or gone, the file is another run's.
Series are thinned out as they grow, so that every extreme is kept and the whole is equally fine, however long it runs.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from workbench.metrics import series
from workbench.metrics.reader import MetricsReader
from workbench.metrics.series import Array, Series

_ROW = ("frames", "steps", "updates", "time_s", "value")


class History:
    """Series and events of one run; of a file that was replaced by another run's, all is read anew.

    Attributes:
        reader: of everything else that the file holds.
    """

    def __init__(self, path: Path, *, most_points: int = 2000):
        self.reader = MetricsReader(path)
        self._most = most_points
        self._lock = threading.Lock()
        self._series: dict[str, Series] = {}
        self._numbers: dict[str, Array] = {}
        self._events: list[dict[str, Any]] = []

    def series(self, names: Collection[str]) -> dict[str, Series]:
        """Arrays frames, steps, updates, time_s, value of those that have rows, each of at most `most_points`, and
        count and mean of the rows that each stands for (`metrics.series.newer`)."""
        with self._lock:
            known = [name for name in self.reader.names() if name in names]
            if not self._follow(known):
                self._forget()
                self._follow(known)
            return {name: self._series[name] for name in known if name in self._series}

    def events(self) -> list[dict[str, Any]]:
        """All events, oldest first, as MetricsReader.events returns them."""
        with self._lock:
            last = self._events[-1:]
            new = self.reader.events(since_id=last[0]["id"] - 1 if last else 0)
            if last and [one["time"] for one in new[:1]] != [last[0]["time"]]:
                self._forget()
                last, new = [], self.reader.events()
            if len(new) > len(last):
                self._events = [*self._events[:-1], *new]
            return self._events

    def _follow(self, names: Collection[str]) -> bool:
        """Add what is new; False, and nothing is added, where a last row is not as it was: the file is another's."""
        since = {name: int(self._numbers[name][-1]) if name in self._numbers else 0 for name in names}
        found = self.reader.newer(since, max_points=self._most)
        if not all(_goes_on(self._series[name], found[name][0]) for name in names if name in self._series):
            return False
        for name, (new, numbers) in found.items():
            known = int(name in self._series)
            if len(numbers) > known:
                self._add(name, {column: more[known:] for column, more in new.items()}, numbers[known:])
        return True

    def _forget(self) -> None:
        self._series, self._numbers, self._events = {}, {}, []

    def _add(self, name: str, new: Series, numbers: Array) -> None:
        """Append rows; where they are too many, thin out to half as many, so that it seldom happens."""
        if name in self._series:
            numbers = np.concatenate([self._numbers[name], numbers])
            new = {column: np.concatenate([self._series[name][column], more]) for column, more in new.items()}
        if len(numbers) > self._most:
            kept = series.thinned(numbers, new["value"], max_points=self._most // 2)
            numbers, new = numbers[kept], series.joined(new, kept)
        self._series[name], self._numbers[name] = new, numbers


def _goes_on(before: Series, after: Series) -> bool:
    """Whether `after` begins with the last row of `before`."""
    return all(np.array_equal(before[name][-1:], after[name][:1], equal_nan=True) for name in _ROW)

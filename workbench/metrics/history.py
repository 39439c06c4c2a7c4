"""A run's history kept in memory and followed: after the first look, only new rows are read.

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


class History:
    """Series and events of one run; of a file that was replaced by another run's, all is read anew.

    Attributes:
        reader: of everything else that the file holds.
    """

    def __init__(self, path: Path, *, most_points: int = 2000):
        self.reader = MetricsReader(path)
        self._path = path
        self._most = most_points
        self._lock = threading.Lock()
        self._inode = 0
        self._series: dict[str, Series] = {}
        self._numbers: dict[str, Array] = {}
        self._events: list[dict[str, Any]] = []

    def series(self, names: Collection[str]) -> dict[str, Series]:
        """Arrays frames, steps, updates, time_s, value of those that have rows, each of at most `most_points`."""
        with self._lock:
            self._look_whose()
            known = [name for name in self.reader.names() if name in names]
            since = {name: int(self._numbers[name][-1]) + 1 if name in self._numbers else 0 for name in known}
            for name, (new, numbers) in self.reader.newer(since, max_points=self._most).items():
                if len(numbers):
                    self._add(name, new, numbers)
            return {name: self._series[name] for name in known if name in self._series}

    def events(self) -> list[dict[str, Any]]:
        """All events, oldest first, as MetricsReader.events returns them."""
        with self._lock:
            self._look_whose()
            new = self.reader.events(since_id=self._events[-1]["id"] if self._events else 0)
            if new:
                self._events = [*self._events, *new]
            return self._events

    def _look_whose(self) -> None:
        inode = self._path.stat().st_ino if self._path.exists() else 0
        if inode != self._inode:
            self._inode, self._series, self._numbers, self._events = inode, {}, {}, []

    def _add(self, name: str, new: Series, numbers: Array) -> None:
        """Append rows; where they are too many, thin out to half as many, so that it seldom happens."""
        if name in self._series:
            numbers = np.concatenate([self._numbers[name], numbers])
            new = {column: np.concatenate([self._series[name][column], more]) for column, more in new.items()}
        if len(numbers) > self._most:
            kept = series.thinned(numbers, new["value"], max_points=self._most // 2)
            numbers, new = numbers[kept], {column: whole[kept] for column, whole in new.items()}
        self._series[name], self._numbers[name] = new, numbers

"""The value of a trial: a mean of its run's metric before marks that all runs of a sweep share.

A run has 27 marks at equal distances in frames; the last is its end. Successive halving with a reduction factor of 3
compares runs at marks 3, 9 and 27. The value at a mark depends on the run's history alone, not on when it was read, so
an interrupted sweep judges as an uninterrupted one does.
"""

from __future__ import annotations

import numpy as np

from workbench.metrics import MetricsReader
from workbench.metrics.series import Array
from workbench.rundir import RunDirectory

MARKS = 27
SHARE = 0.1  # of a run's frames: the window before a mark over which the mean is taken
LEAST_ROWS = 20  # the window's least number of rows
EACH_COMMIT = "frames_per_second"  # the metric whose row ends each commit of a learner


class MetricCurve:
    """The metric of one run, read as it grows.

    Attributes:
        covered: frames up to which all rows are on disk; None: not known, since the run has committed no row.
    """

    def __init__(self, run: RunDirectory, metric: str, total_frames: int) -> None:
        self._reader, self._metric, self._total = MetricsReader(run.metrics), metric, total_frames
        self._forget()

    def _forget(self) -> None:
        self._frames: Array = np.zeros(0)
        self._values: Array = np.zeros(0)
        self._next, self._next_commit = 0, 0
        self.covered: int | None = None

    def follow(self) -> None:
        """Read the new rows; all, where a learner began again from before the last one. Raises StorageFailed."""
        last = max(0, self._next - 1)
        series = self._reader.newer({EACH_COMMIT: self._next_commit, self._metric: last}, max_points=2**31)
        if not series:
            return
        rows, numbers = series[self._metric]
        if self._next and (not len(numbers) or numbers[0] != last):
            self._forget()
            self.follow()
            return
        commits, of_commits = series[EACH_COMMIT]
        if len(of_commits):
            self.covered, self._next_commit = int(commits["frames"][-1]), int(of_commits[-1]) + 1
        new = numbers >= self._next
        if not new.any():
            return
        self._next = int(numbers[-1]) + 1
        new &= np.isfinite(rows["value"])
        self._frames = np.concatenate([self._frames, rows["frames"][new].astype(np.float64)])
        self._values = np.concatenate([self._values, rows["value"][new]])

    def names(self) -> list[str]:
        """Metrics that the run has recorded."""
        return self._reader.names()

    def value(self, mark: int | None = None, *, since: int = 0) -> float | None:
        """The mean before a mark (1 to 27), or before the last row if `mark` is None. Returns None without a row.

        Args:
            since: frames up to which rows do not count.
        """
        end = float(self._frames.max(initial=0.0)) if mark is None else mark * self._total / MARKS
        counts = (self._frames <= end) & (self._frames > since)
        before, near = self._values[counts], self._values[counts & (self._frames > end - SHARE * self._total)]
        averaged = near if len(near) >= LEAST_ROWS else before[-LEAST_ROWS:]
        return float(averaged.mean()) if len(averaged) else None


def passed(frames: int, total_frames: int) -> int:
    """The number of marks that a run has passed at `frames`."""
    return min(MARKS, frames * MARKS // total_frames)

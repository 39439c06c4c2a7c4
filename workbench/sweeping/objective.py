"""What a trial is worth: a mean of its run's metric near marks that all runs of a sweep have in common.

A run has 27 marks, at equal distances in frames; the last is its end. Successive halving with a reduction factor of 3
looks at 3, 9 and (the end) 27 of them. The value at a mark depends on the run's history alone, not on when somebody
looked, so that a sweep that was interrupted judges as one that was not.
"""

from __future__ import annotations

import numpy as np

from workbench.metrics import MetricsReader
from workbench.metrics.series import Array
from workbench.rundir import RunDirectory

MARKS = 27
SHARE = 0.1  # of a run's frames, before the mark, that the mean is over
LEAST_ROWS = 20  # or so many rows, if there are fewer in it
EACH_COMMIT = "frames_per_second"  # has a row, the last of all, in whatever a learner commits


class Curve:
    """The metric of one run, read as it grows.

    Attributes:
        covered: frames up to which all rows are on disk; None: not known, as the run has none or an older version's.
    """

    def __init__(self, run: RunDirectory, metric: str, total_frames: int) -> None:
        self._reader, self._metric, self._total = MetricsReader(run.metrics), metric, total_frames
        self._frames: Array = np.zeros(0)
        self._values: Array = np.zeros(0)
        self._next, self._next_look = 0, 0
        self.covered: int | None = None

    def follow(self) -> None:
        """Read the rows that are new. Raises StorageFailed."""
        found = self._reader.newer({self._metric: self._next, EACH_COMMIT: self._next_look}, max_points=2**31)
        if not found:
            return
        looks, numbers = found[EACH_COMMIT]
        if len(numbers):
            self.covered, self._next_look = int(looks["frames"][-1]), int(numbers[-1]) + 1
        rows, numbers = found[self._metric]
        if not len(numbers):
            return
        self._next = int(numbers[-1]) + 1
        finite = np.isfinite(rows["value"])
        self._frames = np.concatenate([self._frames, rows["frames"][finite].astype(np.float64)])
        self._values = np.concatenate([self._values, rows["value"][finite]])

    def names(self) -> list[str]:
        """Metrics that the run has recorded."""
        return self._reader.names()

    def value(self, mark: int | None = None) -> float | None:
        """The mean before that mark (1 to 27); None: before the last row; None where there is no row."""
        end = float(self._frames.max(initial=0.0)) if mark is None else mark * self._total / MARKS
        before = self._values[self._frames <= end]
        near = self._values[(self._frames <= end) & (self._frames > end - SHARE * self._total)]
        chosen = near if len(near) >= LEAST_ROWS else before[-LEAST_ROWS:]
        return float(chosen.mean()) if len(chosen) else None


def passed(frames: int, total_frames: int) -> int:
    """How many marks a run has behind it at so many frames."""
    return min(MARKS, frames * MARKS // total_frames)

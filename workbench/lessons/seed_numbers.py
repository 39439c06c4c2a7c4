"""What the seeds of one kind of run came to, in numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.running.handle import Run


def late(run: Run) -> float:
    """Mean of the mean return over the last tenth of the frames of the run; NaN if it has no row there."""
    table = run.metrics("episode_return_mean").dropna()
    return float(table[table.frames >= 0.9 * table.frames.max()].value.mean())


def spread(numbers: Sequence[float], digits: int = 0) -> str:
    """The mean, and the range of the seeds: "120 (90 to 150)"."""
    return (f"{np.mean(numbers):.{digits}f} ({min(numbers):.{digits}f} to {max(numbers):.{digits}f})"
            if len(numbers) > 1 else f"{np.mean(numbers):.{digits}f} (one seed)")

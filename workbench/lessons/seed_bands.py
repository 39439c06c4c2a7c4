"""What several seeds of each kind of run came to: a chart with a band, and a line of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.running.handle import Run

_RETURN = "episode_return_mean"
_POINTS = 20  # of each curve


def band(runs: Mapping[str, Sequence[Run]], title: str, *, metric: str = _RETURN) -> Any:
    """An Altair chart of a metric against frames, by kind of run: its mean over the runs, and a band over all."""
    import altair as alt

    rows = pd.concat([at_common_frames([run.metrics(metric) for run in several]).assign(run=kind)
                      for kind, several in runs.items()])
    base = alt.Chart(rows, title=title, width=500, height=180).encode(
        x=alt.X("frames", title="frames"), color=alt.Color("run", sort=list(runs), title=None))
    area = base.mark_area(opacity=0.2).encode(y=alt.Y("min(value)", title=None), y2="max(value)")
    return area + base.mark_line().encode(y="mean(value)")


def at_common_frames(curves: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Rows (seed, frames, value) of some curves, interpolated: each point has a value of every curve.

    The points go from the first to the last frame that all curves reach. A curve without a value is left out.
    """
    kept = {seed: rows for seed, curve in enumerate(curves) if len(rows := curve.dropna())}
    first = max((rows.frames.min() for rows in kept.values()), default=0)
    last = min((rows.frames.max() for rows in kept.values()), default=0)
    frames = np.linspace(first, last, _POINTS if first <= last else 0)
    return pd.DataFrame([(seed, *point) for seed, rows in kept.items()
                         for point in zip(frames, np.interp(frames, rows.frames, rows.value), strict=True)],
                        columns=["seed", "frames", "value"])


def late(run: Run) -> float:
    """Mean of the mean return over the last tenth of the frames of the run; NaN if it has no row there."""
    table = run.metrics(_RETURN).dropna()
    return float(table[table.frames >= 0.9 * table.frames.max()].value.mean())


def spread(numbers: Sequence[float], digits: int = 0) -> str:
    """The mean, and the range of the seeds: "120 (90 to 150)"."""
    return (f"{np.mean(numbers):.{digits}f} ({min(numbers):.{digits}f} to {max(numbers):.{digits}f})"
            if len(numbers) > 1 else f"{np.mean(numbers):.{digits}f} (one seed)")

"""What several seeds of each kind of run came to: a chart with a band, and a line of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.running.handle import Run

_METRIC = "episode_return_mean"
_POINTS = 20


def band(runs: Mapping[str, Sequence[Run]], title: str) -> Any:
    """An Altair chart of the mean return against frames, by kind: its mean over the runs, and a band over all.

    Each run is averaged over twentieths of the longest run, so that the seeds are compared at equal frames.
    """
    import altair as alt

    rows = pd.concat([run.metrics(_METRIC).dropna().assign(run=kind, seed=seed)
                      for kind, several in runs.items() for seed, run in enumerate(several)])
    width = max(rows.frames.max(), 1) / _POINTS
    rows["frames"] = (rows.frames / width).round() * width
    means = rows.groupby(["run", "seed", "frames"]).value.mean().reset_index()
    base = alt.Chart(means, title=title, width=500, height=180).encode(
        x=alt.X("frames", title="frames"), color=alt.Color("run", sort=list(runs), title=None))
    area = base.mark_area(opacity=0.2).encode(y=alt.Y("min(value)", title=None), y2="max(value)")
    return area + base.mark_line().encode(y="mean(value)")


def late(run: Run) -> float:
    """Mean of the mean return over the last tenth of the frames of the run; NaN if it has no row there."""
    table = run.metrics(_METRIC).dropna()
    return float(table[table.frames >= 0.9 * table.frames.max()].value.mean())


def spread(numbers: Sequence[float], digits: int = 0) -> str:
    """The mean, and the range of the seeds: "120 (90 to 150)"."""
    return (f"{np.mean(numbers):.{digits}f} ({min(numbers):.{digits}f} to {max(numbers):.{digits}f})"
            if len(numbers) > 1 else f"{np.mean(numbers):.{digits}f} (one seed)")

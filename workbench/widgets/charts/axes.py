"""The axes of charts: what runs along x, how numbers are written, and where a logarithmic axis begins and ends.

Domains are rounded to 1, 2, 5, 10, ..., so that an axis, and with it the chart, stays the same while data comes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from workbench.widgets.charts.altair import alt

Axis = Literal["frames", "updates", "hours"]
AXES: tuple[Axis, ...] = get_args(Axis)
BARS = 40  # of a histogram; more cost time and show nothing new

Array = npt.NDArray[Any]
Series = Mapping[str, Array]  # frames, steps, updates, time_s, value, as MetricsReader.series returns them

# A number on an axis: 12.5k, 950, 0.25, 3e-5.
NUMBER = (
    "abs(datum.value) >= 1000 ? format(datum.value, '~s') : "
    "datum.value && abs(datum.value) < 0.001 ? format(datum.value, '~e') : format(datum.value, '~r')"
)
SHOWN = (1e-300, 1e300)  # on a logarithmic axis; beyond, its round numbers would be 0 or infinite
READ = ",.4~r"  # a number that is read off: 12,350, 0.03125


def along(series: Series, axis: Axis) -> Array:
    """Where the rows of a series stand on the axis, float64."""
    return series["time_s"] / 3600 if axis == "hours" else series[axis].astype(np.float64)


def x_axis(axis: Axis, field: str = "x") -> alt.X:
    """A field as an axis of time."""
    ticks = alt.Axis(labelExpr=NUMBER, tickCount=4, labelFlush=True)
    return alt.X(f"{field}:Q", title=axis, axis=ticks, scale=alt.Scale(nice=False, zero=False))


def x_tip(axis: Axis, field: str = "x") -> alt.Tooltip:
    """What a tooltip says of the place."""
    return alt.Tooltip(f"{field}:Q", title=axis, format=".3f" if axis == "hours" else ",.0f")


def log_domain(values: Array, *, pad: float = 1.1) -> tuple[float, float]:
    """The ends of a logarithmic axis for positive values: 1, 2 or 5 times a power of ten, beyond all that are SHOWN.

    `pad`: factor that at least lies between the outermost values and the ends.
    """
    shown = np.clip(values, *SHOWN)
    low, high = float(shown.min()) / pad, float(shown.max()) * pad
    below = max(one for one in _round_numbers(low) if one <= low * (1 + 1e-9))
    above = min(one for one in _round_numbers(high) if one >= high * (1 - 1e-9))
    return below, above if above > below else 2 * below


def _round_numbers(near: float) -> list[float]:
    ten = 10.0 ** math.floor(math.log10(near))
    return [ten / 2, ten, 2 * ten, 5 * ten, 10 * ten, 20 * ten]


def log_axis(low: float, high: float) -> tuple[alt.Scale, alt.Axis]:
    """A logarithmic scale between these ends, and an axis with few round ticks."""
    tens = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    for digits in ((1,), (1, 3), (1, 2, 5), range(1, 10)):
        ticks = [digit * ten for ten in tens for digit in digits if low <= digit * ten <= high]
        if len(ticks) > 2:
            break
    ticks = ticks[:: 1 + len(ticks) // 7]
    return alt.Scale(type="log", domain=[low, high], nice=False), alt.Axis(labelExpr=NUMBER, values=ticks, grid=False)


def binned(
    edges: Sequence[float] | Array, counts: Sequence[float] | Array, *, bars: int = BARS
) -> tuple[Array, Array, bool]:
    """Edges and counts of at most `bars` bars of equal width, and whether on a logarithmic axis.

    Bins that are not equal on the axis, or too many, are divided anew as if each were filled evenly. Empty bins at
    the end are left out, on a logarithmic axis also those at the start; there, a first bin that begins at 0 is as
    wide as the second. What is in a bin without width or without an end is counted in the one beside it.
    """
    places, parts = _bounded(np.array(edges, np.float64), np.array(counts, np.float64))
    filled = np.flatnonzero(parts) if parts.any() else np.zeros(1, int)
    places, parts = places[: filled[-1] + 2], parts[: filled[-1] + 1]
    log = _logarithmic(places)
    if log:
        if places[0] == 0:
            places[0] = places[1] * (places[1] / places[2])
        places, parts = np.log(places[filled[0] :]), parts[filled[0] :]
    width = float(np.median(np.diff(places)))
    reach = float(places[-1] - places[0])
    width *= max(1, math.ceil(reach / width / bars - 1e-6))
    new = places[0] + width * np.arange(math.ceil(reach / width - 1e-6) + 1)
    below = np.interp(new, places, np.concatenate([[0.0], np.cumsum(parts)]))
    return np.exp(new) if log else new, np.diff(below), log


def _bounded(edges: Array, counts: Array) -> tuple[Array, Array]:
    """Finite edges that grow, with all of the counts between them; one edge alone is in the middle of a bin."""
    places, at = np.unique(np.where(np.isfinite(edges), edges, np.nan), return_index=True)
    places, at = places[np.isfinite(places)], at[np.isfinite(places)]
    if len(places) < 2:
        middle = places[0] if len(places) else 0.0
        return middle + max(0.5, abs(middle) / 10) * np.array([-1.0, 1.0]), counts.sum(keepdims=True)
    below = np.concatenate([[0.0], np.cumsum(counts)])[at]
    below[0], below[-1] = 0.0, counts.sum()
    return places, np.diff(below)


def _logarithmic(edges: Array) -> bool:
    """Whether the edges, but for a first one of 0, are rather evenly spaced by factors than by differences."""
    above = edges[1:] if edges[0] == 0 else edges
    if len(above) < 3 or above[0] <= 0:
        return False
    linear, logarithmic = np.diff(above), np.diff(np.log(above))
    return bool(logarithmic.std() / logarithmic.mean() < linear.std() / linear.mean() * (1 - 1e-6))

"""The axes of charts: the quantity along x, number formats, and the ends of a logarithmic axis.

Domains are rounded to 1, 2, 5, 10, ..., so that an axis, and with it the chart, stays the same as data arrives.
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
BARS = 40  # of a histogram; more would take time and show nothing new

Array = npt.NDArray[Any]
Series = Mapping[str, Array]  # frames, steps, updates, time_s, value, as MetricsReader.series returns them

# A number on an axis: 12.5k, 950, 0.25, 3e-5.
NUMBER = (
    "abs(datum.value) >= 1000 ? format(datum.value, '~s') : "
    "datum.value && abs(datum.value) < 0.001 ? format(datum.value, '~e') : format(datum.value, '~r')"
)
SHOWN = (1e-300, 1e300)  # on a logarithmic axis; beyond, its round numbers would be 0 or infinite
READ = ",.4~r"  # the format of a tooltip's numbers: 12,350, 0.03125


def along(series: Series, axis: Axis) -> Array:
    """Positions of the rows of a series on the axis, float64."""
    return series["time_s"] / 3600 if axis == "hours" else series[axis].astype(np.float64)


def x_axis(axis: Axis, field: str = "x", *, titled: bool = True) -> alt.X:
    """A field as an axis of time."""
    ticks = alt.Axis(labelExpr=NUMBER, tickCount=4, labelFlush=True, labelSeparation=8)
    return alt.X(f"{field}:Q", title=axis if titled else None, axis=ticks, scale=alt.Scale(nice=False, zero=False))


def x_tip(axis: Axis, field: str = "x") -> alt.Tooltip:
    """The tooltip's entry for the position on the axis."""
    return alt.Tooltip(f"{field}:Q", title=axis, format=".3f" if axis == "hours" else ",.0f")


def log_domain(values: Array, *, pad: float = 1.1) -> tuple[float, float]:
    """The ends of a logarithmic axis for positive values: 1, 2 or 5 times a power of ten, beyond all values in SHOWN.

    `pad`: smallest factor between the outermost values and the ends.
    """
    visible = np.clip(values, *SHOWN)
    low, high = float(visible.min()) / pad, float(visible.max()) * pad
    below = max(number for number in _round_numbers(low) if number <= low * (1 + 1e-9))
    above = min(number for number in _round_numbers(high) if number >= high * (1 - 1e-9))
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


def binned(edges: Sequence[float] | Array, counts: Sequence[float] | Array) -> tuple[Array, Array, bool]:
    """Edges and counts of at most BARS bars of equal width, and whether the axis is logarithmic.

    Bins that are unequal on the axis, or too many, are divided anew as if each were filled evenly. Empty bins at the
    end are dropped, on a logarithmic axis also those at the start; there, a first bin that begins at 0 becomes as wide
    as the second. The count of a bin without width or without an end moves to its neighbour.
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
    width *= max(1, math.ceil(reach / width / BARS - 1e-6))
    new = places[0] + width * np.arange(math.ceil(reach / width - 1e-6) + 1)
    below = np.interp(new, places, np.concatenate([[0.0], np.cumsum(parts)]))
    return np.exp(new) if log else new, np.diff(below), log


def _bounded(edges: Array, counts: Array) -> tuple[Array, Array]:
    """Increasing finite edges, with all of the counts between them; a single edge becomes the middle of a bin."""
    places, at = np.unique(np.where(np.isfinite(edges), edges, np.nan), return_index=True)
    places, at = places[np.isfinite(places)], at[np.isfinite(places)]
    if len(places) < 2:
        middle = places[0] if len(places) else 0.0
        return middle + max(0.5, abs(middle) / 10) * np.array([-1.0, 1.0]), counts.sum(keepdims=True)
    below = np.concatenate([[0.0], np.cumsum(counts)])[at]
    below[0], below[-1] = 0.0, counts.sum()
    return places, np.diff(below)


def _logarithmic(edges: Array) -> bool:
    """Whether the edges, except a first edge of 0, are spaced more evenly by factors than by differences."""
    above = edges[1:] if edges[0] == 0 else edges
    if len(above) < 3 or above[0] <= 0:
        return False
    linear, logarithmic = np.diff(above), np.diff(np.log(above))
    return bool(logarithmic.std() / logarithmic.mean() < linear.std() / linear.mean() * (1 - 1e-6))

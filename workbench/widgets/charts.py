"""Altair charts of a run: pure functions of data frames, which know nothing of how a chart is shown.

A series has the columns frames, steps, updates, time_s, value (see `workbench.metrics`); x is always frames.
Colours are given as `Ink`, so that one chart fits a notebook of any theme, a page and a picture.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt
import pandas as pd

POINTS = 240  # per series in a picture 250 px wide; more cost time and show nothing new
BARS = 40  # of a histogram, likewise

Array = npt.NDArray[Any]
Events = Sequence[Mapping[str, Any]]  # as MetricsReader.events returns them

EMPTY = pd.DataFrame({"frames": [], "value": []})  # a series without points
COLOURS = ("#4c8dd6", "#e0853d", "#4aa564", "#b06fc4", "#d0564f")
EVENT_COLOURS = {
    "tune": "#e0853d", "checkpoint": "#4aa564", "pause": "#999999", "resume": "#4c8dd6", "scale": "#b06fc4",
    "restart": "#d0564f", "error": "#d0564f", "failed": "#d0564f", "skipped": "#d0564f",
}
PARTS = {  # shares in status["bottleneck"] and how a person would say them, in the order that data travels
    "environments": "actors stepping", "wire": "wire, actor busy", "batch_wait": "waiting for batch",
    "inference": "inference", "queue_blocked": "queue full", "training": "training", "training_wait": "training waits",
}


@dataclass(frozen=True)
class Ink:
    """Colour of text and axes. `currentColor` takes the notebook's own; grey is readable on white and on black."""

    text: str


THEME_INK = Ink("currentColor")
GREY_INK = Ink("#7d838c")


def thinned(series: pd.DataFrame, *, points: int = POINTS) -> pd.DataFrame:
    """At most `points` rows: the mean of each stretch of equally many rows, so that nothing is left out of the line."""
    if len(series) <= points:
        return series
    stretch = np.arange(len(series)) * points // len(series)
    return series.groupby(stretch).mean(numeric_only=True)


def sampled(series: pd.DataFrame, *, points: int = POINTS) -> pd.DataFrame:
    """At most `points` of the rows themselves, evenly spaced, the first and the last among them."""
    if len(series) <= points:
        return series
    return series.iloc[np.linspace(0, len(series) - 1, points).astype(int)]


def lines(
    series: Mapping[str, pd.DataFrame], *, title: str, zero: bool = False, log: bool = False, stepped: bool = False,
    share: bool = False, asked: float | None = None,
) -> alt.LayerChart:
    """One line per named series over frames, with a legend where there are several.

    Args:
        zero: the y axis starts there.
        log: it is logarithmic, unless a value is 0 or less.
        stepped: a value holds until the next one.
        share: values are shares of a whole; the y axis goes from 0 to 100 %.
        asked: a value that was asked for, as a dashed line.
    """
    data = _long(series, sampled if stepped else thinned)
    scale, axis = alt.Scale(zero=zero), alt.Axis(labelExpr=_NUMBER, tickCount=5)
    if share:
        scale, axis = alt.Scale(domain=[0, 1]), alt.Axis(format="%", tickCount=5)
    elif log and len(data) and (data["value"] > 0).all():
        scale, axis = _log_axis(data["value"].tolist())
    y = alt.Y("value:Q", title=None, axis=axis, scale=scale)
    names = list(series)
    colour = alt.Scale(domain=names, range=list(COLOURS[: len(names)]))
    # Both marks of a layer, so that a series of a single row is visible too.
    base = alt.Chart(data).encode(
        x=_frames_axis(), y=y, color=alt.Color("series:N", legend=_LEGEND if len(names) > 1 else None, scale=colour)
    )
    dots = base.transform_filter(_alone(data)).mark_point(size=18)
    layers = [base.mark_line(strokeWidth=1.5, interpolate="step-after" if stepped else "linear"), dots]
    if asked is not None:
        layers += _asked(asked, y)
    return alt.layer(*layers).properties(title=title)


def episode_returns(
    episodes: pd.DataFrame, mean: pd.DataFrame, events: Events = (), *, evaluation: pd.DataFrame | None = None,
    evaluation_mean: pd.DataFrame | None = None, title: str = "Episode return",
) -> alt.LayerChart:
    """Faint dots, one per episode, the line of their running mean, and a dashed line per event.

    Evaluation episodes, where there are any, are diamonds with a line of their own, and a legend says which is which.
    Grey, orange and blue stay apart where red, green or blue is not seen.
    """
    kinds = {"training": GREY_INK.text, "training mean": COLOURS[1], "evaluation": COLOURS[0]}
    evaluation, evaluation_mean = (EMPTY if one is None else one for one in (evaluation, evaluation_mean))
    legend = _LEGEND if len(evaluation) + len(evaluation_mean) else None
    scale = alt.Scale(domain=list(kinds), range=list(kinds.values()))
    y = alt.Y("value:Q", title=None, axis=alt.Axis(labelExpr=_NUMBER, tickCount=5), scale=alt.Scale(zero=False))

    def layer(kind: str, series: pd.DataFrame) -> alt.Chart:
        data = series[["frames", "value"]].assign(kind=kind)
        return alt.Chart(data).encode(x=_frames_axis(), y=y, color=alt.Color("kind:N", scale=scale, legend=legend))

    layers = [layer("training", sampled(episodes)).mark_circle(size=9, opacity=0.4),
              layer("training mean", thinned(mean)).mark_line(strokeWidth=2)]
    if legend:
        diamond = {"shape": "diamond", "size": 16, "strokeWidth": 1, "opacity": 1}
        layers += [layer("evaluation", sampled(evaluation)).mark_point(**diamond),
                   layer("evaluation", thinned(evaluation_mean)).mark_line(strokeWidth=2)]
    marks = event_marks(events)  # their colours mean something else
    return alt.layer(alt.layer(*layers), *marks).resolve_scale(color="independent").properties(title=title)


def histogram(edges: Sequence[float], counts: Sequence[float], *, title: str, x: str) -> alt.Chart:
    """Bars of the share of each bin; `edges` has one more entry than `counts`.

    The x axis is logarithmic where the edges are, and a first bin that begins at 0 is as wide there as the second.
    Empty bins at the end are left out, on a logarithmic axis also those at the start.
    """
    edges, counts, log = binned(edges, counts)
    total = max(float(sum(counts)), 1.0)
    data = pd.DataFrame({"low": edges[:-1], "high": edges[1:], "share": [count / total for count in counts]})
    if log:
        scale, axis = _log_axis(edges, pad=1.0)
    else:
        stride = next((one for one in (1, 2, 5, 10) if len(counts) <= 6 * one), 20)
        scale, axis = alt.Scale(), alt.Axis(labelExpr=_NUMBER, values=edges[::stride])
    axis.grid = False
    return alt.Chart(data, title=title).mark_bar(color=COLOURS[0], binSpacing=1).encode(
        x=alt.X("low:Q", bin="binned", title=x, axis=axis, scale=scale), x2="high:Q",
        y=alt.Y("share:Q", title=None, axis=alt.Axis(format="%", tickCount=4)),
    )


def binned(
    edges: Sequence[float], counts: Sequence[float], *, bars: int = BARS
) -> tuple[list[float], list[float], bool]:
    """Edges and counts of at most `bars` bars of equal width, and whether on a logarithmic axis.

    Bins that are not equal on the axis, or too many, are divided anew as if each were filled evenly.
    """
    places, parts = np.array(edges, np.float64), np.array(counts, np.float64)
    filled = np.flatnonzero(parts) if parts.any() else np.zeros(1, int)
    places, parts = places[: filled[-1] + 2], parts[: filled[-1] + 1]
    log = _logarithmic(places)
    if log:
        if places[0] == 0:
            places[0] = places[1] ** 2 / places[2]
        places, parts = np.log(places[filled[0] :]), parts[filled[0] :]
    width = float(np.median(np.diff(places)))
    reach = float(places[-1] - places[0])
    width *= max(1, math.ceil(reach / width / bars - 1e-6))
    new = places[0] + width * np.arange(math.ceil(reach / width - 1e-6) + 1)
    below = np.interp(new, places, np.concatenate([[0.0], np.cumsum(parts)]))
    new = np.exp(new) if log else new
    return new.tolist(), np.diff(below).tolist(), log


def nothing(why: str, *, title: str) -> alt.Chart:
    """A chart that has no data yet, and says why."""
    text = textwrap.wrap(why, 30)
    return alt.Chart(pd.DataFrame({"why": [0]}), title=title).mark_text(text=text, fontSize=11)


def bottleneck(shares: Mapping[str, float], *, title: str = "Where the time goes") -> alt.LayerChart:
    """One bar per part of the pipeline, of the share of time that it is busy or waits."""
    known = [(label, float(shares[part])) for part, label in PARTS.items() if part in shares]
    data = pd.DataFrame(known, columns=["part", "share"])
    base = alt.Chart(data).encode(
        y=alt.Y("part:N", title=None, sort=list(PARTS.values()), axis=alt.Axis(ticks=False, domain=False)),
        x=alt.X("share:Q", title=None, axis=None, scale=alt.Scale(domain=[0, 1.15])),
    )
    text = base.mark_text(align="left", dx=4).encode(text=alt.Text("share:Q", format=".0%"))
    return alt.layer(base.mark_bar(color=COLOURS[0], height={"band": 0.65}), text).properties(title=title)


def event_marks(events: Events) -> list[alt.Chart]:
    """A layer with a dashed line per event that has a place on the frames axis, coloured by kind; [] without any."""
    rows = [(float(one["frames"]), str(one["kind"])) for one in events
            if one.get("frames") is not None and one["kind"] in EVENT_COLOURS]
    if not rows:
        return []
    data = pd.DataFrame(rows, columns=["frames", "kind"])
    kinds = [kind for kind in EVENT_COLOURS if kind in set(data["kind"])]
    scale = alt.Scale(domain=kinds, range=[EVENT_COLOURS[kind] for kind in kinds])
    rule = alt.Chart(data).mark_rule(strokeDash=[3, 3], opacity=0.8)
    return [rule.encode(x=_frames_axis(), color=alt.Color("kind:N", scale=scale, legend=_LEGEND))]


def theme(ink: Ink) -> dict[str, Any]:
    """Vega-Lite's config for a transparent background, with axes and text in `ink`."""
    axis = {"gridColor": ink.text, "gridOpacity": 0.15, "domainColor": ink.text, "domainOpacity": 0.4,
            "tickColor": ink.text, "tickOpacity": 0.4, "labelColor": ink.text, "titleColor": ink.text,
            "titleFontWeight": "normal", "labelFontSize": 10, "titleFontSize": 10}
    return {
        "background": "transparent", "font": "sans-serif", "axis": axis, "view": {"stroke": None},
        "text": {"color": ink.text}, "title": {"color": ink.text, "fontSize": 12, "anchor": "start", "offset": 6},
        "legend": {"labelColor": ink.text, "labelFontSize": 10, "columnPadding": 8,
                   "layout": {"top": {"direction": "vertical", "anchor": "start"}}},
    }


# A number on an axis: 12.5k, 950, 0.25, 3e-5.
_NUMBER = (
    "abs(datum.value) >= 1000 ? format(datum.value, '~s') : "
    "datum.value && abs(datum.value) < 0.001 ? format(datum.value, '~e') : format(datum.value, '~r')"
)
_LEGEND = alt.Legend(title=None, orient="top", symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2, padding=0,
                     offset=4, columns=4)


def _frames_axis() -> alt.X:
    axis = alt.Axis(labelExpr=_NUMBER, tickCount=4, labelFlush=True)
    return alt.X("frames:Q", title="frames", axis=axis, scale=alt.Scale(nice=False))


def _long(series: Mapping[str, pd.DataFrame], fewer: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
    """All series below each other, each made `fewer`, with their names in the column `series`."""
    parts = [fewer(one)[["frames", "value"]].assign(series=name) for name, one in series.items() if len(one)]
    return pd.concat(parts) if parts else EMPTY.assign(series=[])


def _alone(data: pd.DataFrame) -> alt.FieldOneOfPredicate:
    """The filter for series that have a single row, which a line would not show."""
    counts = data["series"].value_counts()
    return alt.FieldOneOfPredicate(field="series", oneOf=[str(name) for name in counts[counts == 1].index])


def _asked(value: float, y: alt.Y) -> list[alt.Chart]:
    """A dashed line across the chart, and its meaning below it at the right."""
    base = alt.Chart(pd.DataFrame({"value": [value]})).encode(y=y)
    text = base.mark_text(align="right", baseline="top", dy=5, fontSize=10, text=f"asked for {value:g}")
    return [base.mark_rule(strokeDash=[5, 4], strokeWidth=1.5, color=COLOURS[1]), text.encode(x=alt.value("width"))]


def _log_axis(values: Sequence[float], *, pad: float = 1.1) -> tuple[alt.Scale, alt.Axis]:
    """A logarithmic scale that holds the values, wide enough to have a tick, and an axis with few round ticks.

    `pad`: factor between the outermost values and the ends.
    """
    low, high = float(min(values)) / pad, float(max(values)) * pad
    if high < 2.25 * low:
        low, high = math.sqrt(low * high) / 1.5, math.sqrt(low * high) * 1.5
    tens = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    for digits in ((1,), (1, 3), (1, 2, 5), range(1, 10)):
        ticks = [digit * ten for ten in tens for digit in digits if low <= digit * ten <= high]
        if len(ticks) > 2:
            break
    ticks = ticks[:: 1 + len(ticks) // 7]
    return alt.Scale(type="log", domain=[low, high], nice=False), alt.Axis(labelExpr=_NUMBER, values=ticks)


def _logarithmic(edges: Array) -> bool:
    """Whether the edges, but for a first one of 0, are rather evenly spaced by factors than by differences."""
    above = edges[1:] if edges[0] == 0 else edges
    if len(above) < 3 or above[0] <= 0:
        return False
    linear, logarithmic = np.diff(above), np.diff(np.log(above))
    return bool(logarithmic.std() / logarithmic.mean() < linear.std() / linear.mean() * (1 - 1e-6))

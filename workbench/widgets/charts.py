"""Altair charts of a run: pure functions of data frames, which know nothing of how a chart is shown.

A series has the columns frames, steps, updates, time_s, value (see `workbench.metrics`); x is always frames.
Colours are given as `Ink`, so that one chart fits a notebook of any theme, a page and a picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

POINTS = 240  # per series in a picture 250 px wide; more cost time and show nothing new

Events = Sequence[Mapping[str, Any]]  # as MetricsReader.events returns them

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


def lines(series: Mapping[str, pd.DataFrame], *, title: str, zero: bool = False, log: bool = False) -> alt.LayerChart:
    """One line per named series over frames, with a legend where there are several.

    `zero`: the y axis starts there. `log`: it is logarithmic, unless a value is 0.
    """
    data = _long(series)
    log = log and len(data) > 0 and bool((data["value"] > 0).all())
    scale = alt.Scale(type="log") if log else alt.Scale(zero=zero)
    axis = alt.Axis(format=".0e", tickCount=3) if log else alt.Axis(format="~s" if zero else "~r", tickCount=5)
    names = list(series)
    legend = _LEGEND if len(names) > 1 else None
    # Both marks of a layer, so that a series of a single row is visible too.
    base = alt.Chart(data).encode(
        x=_frames_axis(), y=alt.Y("value:Q", title=None, axis=axis, scale=scale),
        color=alt.Color("series:N", legend=legend, scale=alt.Scale(domain=names, range=list(COLOURS[: len(names)]))),
    )
    dots = base.transform_filter(_alone(data)).mark_point(size=18)
    line = base.mark_line(strokeWidth=1.5, interpolate="step-after" if log else "linear")
    return alt.layer(line, dots).properties(title=title)


def episode_returns(
    episodes: pd.DataFrame, mean: pd.DataFrame, events: Events = (), *, title: str = "Episode return"
) -> alt.LayerChart:
    """Faint dots, one per episode, the line of their running mean, and a dashed line per event."""
    each, running = sampled(episodes)[["frames", "value"]], thinned(mean)[["frames", "value"]]
    dots = alt.Chart(each).mark_circle(size=9, opacity=0.35, color=COLOURS[0])
    line = alt.Chart(running).mark_line(strokeWidth=2, color=COLOURS[1])
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False))
    layers = [one.encode(x=_frames_axis(), y=y) for one in (dots, line)]
    return alt.layer(*layers, *event_marks(events)).properties(title=title)


def histogram(edges: Sequence[float], counts: Sequence[float], *, title: str, x: str) -> alt.Chart:
    """Bars of the share of each bin; `edges` has one more entry than `counts`. Empty bins at the end are left out."""
    last = max((i for i, count in enumerate(counts) if count), default=0) + 1
    total = max(float(sum(counts)), 1.0)
    ticks = [float(edge) for edge in edges[: last + 1 : 1 + last // 6]]
    data = pd.DataFrame({
        "low": [float(edge) for edge in edges[:last]], "high": [float(edge) for edge in edges[1 : last + 1]],
        "share": [count / total for count in counts[:last]],
    })
    return alt.Chart(data, title=title).mark_bar(color=COLOURS[0], binSpacing=1).encode(
        x=alt.X("low:Q", bin="binned", title=x, axis=alt.Axis(values=ticks, format="~r")), x2="high:Q",
        y=alt.Y("share:Q", title=None, axis=alt.Axis(format="%", tickCount=4)),
    )


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
        "legend": {"labelColor": ink.text, "labelFontSize": 10, "columnPadding": 8},
    }


_LEGEND = alt.Legend(title=None, orient="top", symbolType="stroke", padding=0, offset=4)


def _frames_axis() -> alt.X:
    axis = alt.Axis(format="~s", tickCount=4, labelFlush=True)
    return alt.X("frames:Q", title="frames", axis=axis, scale=alt.Scale(nice=False))


def _long(series: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """All series below each other, thinned, with their names in the column `series`."""
    parts = [thinned(one)[["frames", "value"]].assign(series=name) for name, one in series.items() if len(one)]
    return pd.concat(parts) if parts else pd.DataFrame({"frames": [], "value": [], "series": []})


def _alone(data: pd.DataFrame) -> alt.FieldOneOfPredicate:
    """The filter for series that have a single row, which a line would not show."""
    counts = data["series"].value_counts()
    return alt.FieldOneOfPredicate(field="series", oneOf=[str(name) for name in counts[counts == 1].index])

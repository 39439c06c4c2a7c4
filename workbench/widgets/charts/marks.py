"""Layers of the charts of time: the strip of events, a readout of the values under the pointer, and common ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.widgets.charts.altair import alt
from workbench.widgets.charts.axes import READ, Array, Axis, Series, along, x_axis, x_tip
from workbench.widgets.charts.live import Table, over_table

STRETCHES = 80  # of the x axis, each with its own tooltip
MESSAGE = 120  # characters of an event in its tooltip

Events = Sequence[Mapping[str, Any]]  # as MetricsReader.events returns them
Points = tuple[Array, ...]  # x and value, float64; where values are means of several rows, also the numbers of rows

@dataclass(frozen=True)
class EventMark:
    """How a kind of event looks in the strip: its lane, a shape as an SVG path between -1 and 1, and a colour."""

    lane: str
    shape: str
    colour: str


_DIAMOND, _SQUARE = "M0,-1L1,0L0,1L-1,0Z", "M-0.8,-0.8H0.8V0.8H-0.8Z"
_CIRCLE = "M-0.9,0A0.9,0.9,0,1,1,0.9,0A0.9,0.9,0,1,1,-0.9,0Z"
_UP, _DOWN = "M0,-0.9L0.95,0.8H-0.95Z", "M0,0.9L0.95,-0.8H-0.95Z"
_RIGHT, _LEFT = "M0.9,0L-0.8,0.95V-0.95Z", "M-0.9,0L0.8,0.95V-0.95Z"
_BARS = "M-0.8,-0.9H-0.2V0.9H-0.8ZM0.2,-0.9H0.8V0.9H0.2Z"
_PLUS = "M-0.3,-1H0.3V-0.3H1V0.3H0.3V1H-0.3V0.3H-1V-0.3H-0.3Z"
_CROSS = "M-1,-0.7L-0.7,-1L0,-0.3L0.7,-1L1,-0.7L0.3,0L1,0.7L0.7,1L0,0.3L-0.7,1L-1,0.7L-0.3,0Z"
_VIOLET, _GREEN, _BLUE, _RED, _GREY = "#9a4fc0", "#009e73", "#2a80c4", "#d32f3f", "#8a8f98"
# Kinds of one lane differ in their shape; no colour is that of the curve of returns. What a person did is no fault.
EVENT_MARKS = {
    "tune": EventMark("steering", _DIAMOND, _VIOLET), "scale": EventMark("steering", _SQUARE, _VIOLET),
    "pause": EventMark("steering", _BARS, _GREY), "resume": EventMark("steering", _RIGHT, _GREY),
    "kill": EventMark("steering", _PLUS, _GREY),
    "checkpoint": EventMark("checkpoints", _UP, _GREEN),
    "restart": EventMark("processes", _CIRCLE, _BLUE), "restore": EventMark("processes", _LEFT, _BLUE),
    "fork": EventMark("processes", _DOWN, _BLUE), "threads": EventMark("processes", _UP, _GREY),
    "error": EventMark("faults", _CROSS, _RED),
    "failed": EventMark("faults", _SQUARE, _RED), "collapse": EventMark("faults", _DOWN, _RED),
    "recovered": EventMark("faults", _UP, _BLUE),
}
LANES = tuple(dict.fromkeys(mark.lane for mark in EVENT_MARKS.values()))


def event_table(events: Events, axis: Axis) -> Table:
    """x, kind, lane and message of the events that have a position on the axis and a mark."""
    placed = [event for event in events if event.get("frames") is not None and event["kind"] in EVENT_MARKS]
    names = ("frames", "updates", "time_s")
    places = {name: np.array([event.get(name) or 0 for event in placed], np.float64) for name in names}
    messages = [str(event["message"] or "").partition("\n")[0] for event in placed]
    return {"x": along(places, axis), "kind": [str(event["kind"]) for event in placed],
            "lane": [EVENT_MARKS[event["kind"]].lane for event in placed],
            "message": [text if len(text) <= MESSAGE else text[: MESSAGE - 1] + "…" for text in messages]}


def event_strip(axis: Axis) -> list[alt.Chart]:
    """Layers with a lane for each group of kinds, and a mark with a tooltip for each event of the table `events`."""
    scales = {name: alt.Scale(domain=list(EVENT_MARKS), range=[getattr(mark, name) for mark in EVENT_MARKS.values()])
              for name in ("shape", "colour")}
    lanes = alt.Axis(ticks=False, domain=False, grid=True)
    y = alt.Y("lane:N", title=None, axis=lanes, scale=alt.Scale(domain=list(LANES)), sort=list(LANES))
    tips = [alt.Tooltip("kind:N", title="event"), alt.Tooltip("message:N", title="what"), x_tip(axis)]
    base = over_table("events").encode(x=x_axis(axis, titled=False), y=y, tooltip=tips)
    return [
        base.mark_point(size=350, opacity=0),  # easier to point at
        base.mark_point(size=75, filled=True, opacity=1, strokeWidth=1.5).encode(
            shape=alt.Shape("kind:N", scale=scales["shape"], legend=None),
            color=alt.Color("kind:N", scale=scales["colour"], legend=None)),
    ]


def event_rules() -> alt.Chart:
    """A layer over frames with a thin grey line per event of the table `events`, for a chart without a strip."""
    tips = [alt.Tooltip("kind:N", title="event"), alt.Tooltip("message:N", title="what"), x_tip("frames")]
    events = over_table("events").transform_filter("datum.kind !== 'checkpoint'")
    return events.mark_rule(strokeDash=[4, 3], color=_GREY).encode(x=x_axis("frames"), tooltip=tips)


def span_layer(axis: Axis) -> alt.Chart:
    """An invisible layer over the table `span`, whose two positions are the ends of the axis of all charts of time."""
    return over_table("span").mark_point(opacity=0, size=0).encode(x=x_axis(axis))


def spanning(ends: tuple[float, float] | None) -> Table:
    """The table `span`; None: each chart's axis has its own ends."""
    return {"x": np.array(ends or (), np.float64)}


def averaged(series: Series, axis: Axis) -> Points:
    """Points of a series for `readout`; of a thinned series, the means at the centres of the rows that they average."""
    x = along(series, axis)
    if "count" not in series:
        return x, series["value"]
    count = series["count"]
    back = (1 - 1 / np.maximum(count, 1)) / 2  # of the way to the row before: the centre of the averaged rows
    return x - back * np.diff(x, prepend=x[:1]), series["mean"], count


def readout(points: Sequence[Points]) -> Table:
    """Stretches of the x axis: x, x2, middle, and for each series v0, v1, ..., its mean there, or its line's height if
    it has no row there; NaN before its first row and after its last."""
    places = [x[np.isfinite(value)] for x, value, *_ in points]
    finite = np.concatenate(places) if places else np.zeros(0)
    if not len(finite) or finite.min() == finite.max():
        return {name: np.zeros(0) for name in ("x", "x2", "middle", *(f"v{at}" for at in range(len(points))))}
    edges = np.linspace(finite.min(), finite.max(), STRETCHES + 1)
    middle = (edges[:-1] + edges[1:]) / 2
    values = {f"v{at}": _means(edges, middle, *point) for at, point in enumerate(points)}
    return {"x": edges[:-1], "x2": edges[1:], "middle": middle, **values}


def _means(edges: Array, middle: Array, x: Array, value: Array, count: Array | None = None) -> Array:
    finite = np.isfinite(value)
    x, value, weight = x[finite], value[finite], np.ones(finite.sum()) if count is None else count[finite]
    if not len(x):
        return np.full(len(middle), np.nan)
    stretch = np.clip(((x - edges[0]) / (edges[-1] - edges[0]) * len(middle)).astype(int), 0, len(middle) - 1)
    number = np.bincount(stretch, weight, minlength=len(middle))
    means = np.bincount(stretch, weight * value, minlength=len(middle)) / np.maximum(number, 1)
    order = np.argsort(x, kind="stable")
    between = np.interp(middle, x[order], value[order], left=np.nan, right=np.nan)
    return np.where(number > 0, means, between)


def readout_layer(names: Sequence[str], axis: Axis) -> alt.Chart:
    """A layer that is visible only under the pointer; its tooltip has the position and a value for each series."""
    hover = alt.selection_point(name="hover", on="pointerover", clear="pointerout")
    # Vega writes what is missing as 0 in a tooltip.
    texts = {f"t{at}": f"isValid(datum.v{at}) ? format(datum.v{at}, '{READ}') : '–'" for at in range(len(names))}
    tips = [x_tip(axis, "middle"), *(alt.Tooltip(f"t{at}:N", title=name) for at, name in enumerate(names))]
    lit = alt.OpacityValue(0, condition={"param": "hover", "empty": False, "value": 0.18})
    layer = over_table("readout").transform_calculate(**texts).mark_rect(fill="#8a8f98")
    return layer.add_params(hover).encode(x=x_axis(axis), x2="x2:Q", opacity=lit, tooltip=tips)

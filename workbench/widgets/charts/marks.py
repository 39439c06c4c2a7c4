"""Layers over every chart of time: marks of events, and a readout of the values under the pointer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.widgets.charts.altair import alt
from workbench.widgets.charts.axes import READ, Array, Axis, Series, along, x_axis, x_tip
from workbench.widgets.charts.live import Table

STRETCHES = 80  # of the x axis, each with its own tooltip
MESSAGE = 120  # characters of an event in its tooltip

Events = Sequence[Mapping[str, Any]]  # as MetricsReader.events returns them
Points = tuple[Array, ...]  # x and value, float64; where values are means of several rows, also the numbers of rows

# Okabe and Ito's colours, which the colour-blind can tell apart; similar events share one.
EVENT_COLOURS = {
    "tune": "#e69f00", "checkpoint": "#009e73", "pause": "#8a8f98", "resume": "#56b4e9", "scale": "#cc79a7",
    "restart": "#d55e00", "error": "#d55e00", "failed": "#d55e00", "restore": "#0072b2", "fork": "#0072b2",
}


def event_table(events: Events, axis: Axis) -> dict[str, Table]:
    """The tables `events` and `checkpoints`: x, kind, message of events with a position on the axis and a colour."""
    placed = [event for event in events if event.get("frames") is not None and event["kind"] in EVENT_COLOURS]
    saved = [event for event in placed if event["kind"] == "checkpoint"]
    return {"events": _events([event for event in placed if event["kind"] != "checkpoint"], axis),
            "checkpoints": _events(saved, axis)}


def _events(events: Events, axis: Axis) -> Table:
    names = ("frames", "updates", "time_s")
    places = {name: np.array([event.get(name) or 0 for event in events], np.float64) for name in names}
    lines = [str(event["message"] or "").partition("\n")[0] for event in events]
    return {"x": along(places, axis), "kind": [str(event["kind"]) for event in events],
            "message": [line if len(line) <= MESSAGE else line[: MESSAGE - 1] + "…" for line in lines]}


def event_marks(axis: Axis, legend: alt.Legend | None = None) -> list[alt.Chart]:
    """Layers with a dashed line per event and a small triangle on the axis per checkpoint, each with a tooltip."""
    scale = alt.Scale(domain=list(EVENT_COLOURS), range=list(EVENT_COLOURS.values()))
    tips = [alt.Tooltip("kind:N", title="event"), alt.Tooltip("message:N", title="what"), x_tip(axis)]
    lines, saved = (alt.Chart(alt.NamedData(name)).encode(x=x_axis(axis)) for name in ("events", "checkpoints"))
    triangle = {"shape": "triangle-up", "size": 45, "filled": True, "yOffset": -3, "color": EVENT_COLOURS["checkpoint"]}
    return [
        lines.mark_rule(strokeDash=[4, 3], strokeWidth=1.5, opacity=0.9)
        .encode(stroke=alt.Stroke("kind:N", scale=scale, legend=legend)),  # the series have color's scale
        lines.mark_rule(strokeWidth=9, opacity=0).encode(tooltip=tips),  # easier to point at
        saved.mark_point(opacity=0.9, **triangle).encode(y=alt.YValue("height"), tooltip=tips),
    ]


def event_kinds(events: Events) -> tuple[str, ...]:
    """The kinds of events that have a mark, in the order of EVENT_COLOURS."""
    kinds = {event["kind"] for event in events if event.get("frames") is not None}
    return tuple(kind for kind in EVENT_COLOURS if kind in kinds)


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
    layer = alt.Chart(alt.NamedData("readout")).transform_calculate(**texts).mark_rect(fill="#8a8f98")
    return layer.add_params(hover).encode(x=x_axis(axis), x2="x2:Q", opacity=lit, tooltip=tips)

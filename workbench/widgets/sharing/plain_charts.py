"""The charts of a run as JSON data, which widgets/src/plots.js draws without Vega."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from workbench.tables import plain
from workbench.widgets.charts.axes import AXES, Array, Axis
from workbench.widgets.charts.charts import COLOURS, GREY
from workbench.widgets.charts.live import Figure
from workbench.widgets.charts.marks import EVENT_MARKS, LANES
from workbench.widgets.panel import dashboard
from workbench.widgets.panel.snapshot import Snapshot

DIGITS = 6  # of a number
_RETURNS = {  # tables of a chart of returns: label, colour and style of what is drawn of each
    "training": ("episodes", GREY, "dots"), "evaluation": ("evaluation episodes", COLOURS[0], "dots"),
    "mean": ("mean", COLOURS[1], "strong"), "evaluation_mean": ("evaluation mean", COLOURS[0], "strong"),
}

ByAxis = Mapping[Axis, Figure]  # one chart over each axis


def charts(now: Snapshot) -> dict[str, Any]:
    """All charts of a run: the axes, the ends of each, and every chart with its points on each."""
    by_axis = {axis: dashboard.figures(now, axis=axis) for axis in AXES}
    drawn: list[ByAxis] = [{axis: by_axis[axis][key] for axis in AXES} for key in by_axis["frames"]]
    spans = {axis: _numbers(next(one.tables["span"]["x"] for one in figures.values() if dashboard.over_time(one)))
             for axis, figures in by_axis.items()}
    marks = {kind: {"shape": mark.shape, "colour": mark.colour} for kind, mark in EVENT_MARKS.items()}
    return {"axes": list(AXES), "spans": spans, "marks": marks, "lanes": list(LANES),
            "charts": [_chart(figures) for figures in drawn]}


def _chart(figures: ByAxis) -> dict[str, Any]:
    figure = figures["frames"]
    how, tables = figure.plain, figure.tables
    chart: dict[str, Any] = {"title": figure.title, "group": figure.group, "kind": how.kind, "wide": figure.wide,
                             "log": how.log, "zero": how.zero, "percent": how.share}
    if how.kind == "lines":
        asked = list(tables["asked"]["value"])
        return chart | {"kind": "lines", "lines": _lines(figures), "asked": _numbers(asked)}
    if how.kind == "returns":
        lines = [_line(figures, table, *look) for table, look in _RETURNS.items() if len(tables[table]["x"])]
        return chart | {"kind": "lines", "lines": lines, "asked": []}
    if how.kind == "bars":
        return chart | {"x": how.x, **{name: _numbers(tables["bars"][name]) for name in ("low", "high", "share")}}
    if how.kind == "parts":
        return chart | {"part": list(tables["parts"]["part"]), "share": _numbers(tables["parts"]["share"]),
                        "text": list(tables["parts"]["text"]),
                        "most": [kind == "most" for kind in tables["parts"]["kind"]]}
    if how.kind == "events":
        events = tables["events"]
        return chart | {"x": {axis: _numbers(one.tables["events"]["x"]) for axis, one in figures.items()},
                        "event": list(events["kind"]), "lane": list(events["lane"]),
                        "message": [plain(str(message)) for message in events["message"]]}
    return chart | {"kind": "nothing", "text": _reason(figure)}


def _lines(figures: ByAxis) -> list[dict[str, Any]]:
    """A thin line of each series with its mean over it; a line of steps has no mean."""
    how, lines = figures["frames"].plain, []
    for at, name in enumerate(how.names):
        colour = COLOURS[at % len(COLOURS)]
        lines.append(_line(figures, f"line{at}", name, colour, "step" if how.stepped else "thin"))
        if not how.stepped and len(figures["frames"].tables["readout"]["x"]):
            lines.append(_line(figures, "readout", name, colour, "strong", x="middle", y=f"v{at}"))
    return lines


def _line(
    figures: ByAxis, table: str, name: str, colour: str, style: str, *, x: str = "x", y: str = "value"
) -> dict[str, Any]:
    return {"name": name, "colour": colour, "style": style,
            "x": {axis: _numbers(figure.tables[table][x]) for axis, figure in figures.items()},
            "y": {axis: _numbers(figure.tables[table][y]) for axis, figure in figures.items()}}


def _numbers(values: Array | list[Any]) -> list[float | None]:
    """Values with few digits, which a page of text needs; None for those that are not finite."""
    return [float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in map(float, values)]


def _reason(figure: Figure) -> str:
    """Why a chart has nothing to draw, from the chart that says so."""
    text = figure.spec()["mark"]["text"]
    return plain(" ".join(text) if isinstance(text, list) else str(text))

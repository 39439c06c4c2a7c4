"""Charts of a run: pure functions from arrays to figures, independent of any display.

Each function fills tables; a cached builder makes the chart over them from a few plain parameters, so that new data
needs no Altair. The colour-blind can tell the colours apart, and they are visible on white and on black.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from workbench.metrics.flights import STAGES, brief
from workbench.widgets.charts.altair import alt
from workbench.widgets.charts.axes import NUMBER, READ, Array, Axis, Series, along, binned, log_axis, log_domain, x_axis
from workbench.widgets.charts.live import Figure, PlainChart, Table, over_table
from workbench.widgets.charts.marks import (
    EVENT_MARKS,
    LANES,
    Events,
    averaged,
    event_strip,
    event_table,
    readout,
    readout_layer,
    span_layer,
    spanning,
)

COLOURS = ("#2a80c4", "#d55e00", "#009e73", "#b03a9a", "#8a8f98")
GREY = "#8a8f98"
PARTS = {  # shares in status["bottleneck"] and their labels, in the order in which data travels
    "environments": "environments", "wire": "wire", "batch_wait": "batch wait", "inference": "inference",
    "queue_blocked": "queue full", "training": "training", "training_wait": "training waits",
}
WORK = ("environments", "wire", "batch_wait", "inference", "training")  # one of these is the bottleneck

EMPTY: dict[str, Array] = {name: np.zeros(0) for name in ("frames", "steps", "updates", "time_s", "value")}
CARD = 230  # px across the narrowest card
PART_LABELS = 0.62  # room for the names of parts, left of the bars, as a share of the longest bar
STRIP, LANE = 26, 17  # px of the strip of events: of its axis, and of each of its lanes
_LEGEND = {"title": None, "symbolType": "stroke", "symbolOpacity": 1, "symbolStrokeWidth": 2, "padding": 0, "offset": 4}


def lines(
    series: Mapping[str, Series], *, title: str, axis: Axis = "frames", zero: bool = False, log: bool = False,
    stepped: bool = False, share: bool = False, asked: float | None = None, wide: bool = False,
) -> Figure:
    """One faint line per named series over the axis, its mean drawn over it, and a legend where there are several.

    Args:
        zero: the y axis starts at 0.
        log: the y axis is logarithmic, unless a value is 0 or less.
        stepped: a value holds until the next one.
        share: values are shares of a whole; the y axis goes from 0 to 100 %.
        asked: the requested value, as a dashed line.
    """
    points = [(along(rows, axis), rows["value"]) for rows in series.values()]
    values = np.concatenate([value[np.isfinite(value)] for _, value in points])
    domain = log_domain(values) if log and len(values) and values.min() > 0 else None
    requested = [] if asked is None else [asked]
    tables: dict[str, Table] = {
        **{f"line{at}": {"x": x, "value": value} for at, (x, value) in enumerate(points)},
        "alone": _alone(dict(zip(series, points, strict=True))),
        "readout": readout([averaged(rows, axis) for rows in series.values()]),
        "asked": {"value": np.array(requested), "text": [f"asked for {value:g}" for value in requested]},
        "span": spanning(None),
    }
    plain = PlainChart("lines", tuple(series), log=domain is not None, zero=zero, stepped=stepped, share=share)
    chart = _lines(tuple(series), title, axis, zero, domain, stepped, share)
    return Figure(title, chart, tables, wide, plain=plain)


@lru_cache(256)
def _lines(
    names: tuple[str, ...], title: str, axis: Axis, zero: bool, domain: tuple[float, float] | None, stepped: bool,
    share: bool,
) -> alt.LayerChart:
    scale, ticks = alt.Scale(zero=zero), alt.Axis(labelExpr=NUMBER, tickCount=5)
    if share:
        scale, ticks = alt.Scale(domain=[0, 1]), alt.Axis(format="%", tickCount=5)
    elif domain:
        scale, ticks = log_axis(*domain)
    y = alt.Y("value:Q", title=None, axis=ticks, scale=scale)
    # A share jumps between 0 and 1 all the time: at the usual opacity its line would hide everything else.
    faint = {"strokeWidth": 1, "strokeOpacity": 0.12 if share else 0.4}
    how = {"strokeWidth": 2, "interpolate": "step-after"} if stepped else faint
    # More series than colours: the same colours again, dashed.
    dash = [{"strokeDash": [6, 3]} if at >= len(COLOURS) else {} for at in range(len(names))]
    layers = [over_table(f"line{at}").mark_line(**how, **dash[at]).encode(
                  x=x_axis(axis), y=y, color=alt.ColorDatum(name)) for at, name in enumerate(names)]
    if not stepped:
        x = x_axis(axis, "middle")
        layers += [over_table("readout").mark_line(strokeWidth=2, **dash[at]).encode(
                       x=x, y=alt.Y(f"v{at}:Q", title=None, axis=ticks, scale=scale), color=alt.ColorDatum(name))
                  for at, name in enumerate(names)]
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}
    alone = _alone_layer(colours, y, axis, legend=len(names) > 1)
    rule = over_table("asked").mark_rule(strokeDash=[5, 4], strokeWidth=1.5, color=COLOURS[1]).encode(y=y)
    text = over_table("asked").mark_text(align="right", baseline="top", dy=5).encode(
        y=y, x=alt.XValue("width"), text="text:N")
    return _over_time([*layers, alone, rule, text], names, axis, title=title,
                      description=f"Lines of {', '.join(names)} over {axis}")


def _alone(points: Mapping[str, tuple[Array, Array]]) -> dict[str, Any]:
    """The series with a single row, which a line would not show."""
    single = [(name, x[0], value[0]) for name, (x, value) in points.items() if len(x) == 1]
    names, x, values = zip(*single, strict=True) if single else ((), (), ())
    return {"x": np.array(x), "value": np.array(values), "series": list(names)}


def _alone_layer(
    colours: Mapping[str, str], y: alt.Y, axis: Axis, *, legend: bool, across: int = CARD
) -> alt.Chart:
    """Points of `_alone`, with the colours and the legend of all layers that name a series by datum."""
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    fitting = max(1, min(4, int(across / (35 + 7.5 * max(map(len, colours))))))
    top = alt.Legend(**_LEGEND, orient="top", columns=fitting) if legend else None
    colour = alt.Color("series:N", scale=scale, legend=top)
    return over_table("alone").mark_point(size=30).encode(x=x_axis(axis), y=y, color=colour)


def episode_returns(
    episodes: Series, mean: Series, *, evaluation: Series, evaluation_mean: Series, title: str, axis: Axis, wide: bool,
    what: str,
) -> Figure:
    """Faint dots, one per episode, and the line of their running mean; also for scores.

    Evaluation episodes, if any, are diamonds with their own line; a legend then names both kinds.
    """
    series = {"training": episodes, "mean": mean, "evaluation": evaluation, "evaluation_mean": evaluation_mean}
    points = {name: (along(rows, axis), rows["value"]) for name, rows in series.items()}
    evaluated = bool(len(evaluation["value"]) + len(evaluation_mean["value"]))
    means = [averaged(rows, axis) for rows in ([mean, evaluation_mean] if evaluated else [mean])]
    tables = {**{name: {"x": x, "value": value} for name, (x, value) in points.items()},
              "alone": _alone({"training mean": points["mean"], "evaluation": points["evaluation_mean"]}),
              "readout": readout(means), "span": spanning(None)}
    plain = PlainChart("returns", tuple(series))
    return Figure(title, _returns(title, axis, evaluated, wide, what), tables, wide, plain=plain)


@lru_cache(64)
def _returns(title: str, axis: Axis, evaluated: bool, wide: bool, what: str) -> alt.LayerChart:
    colours = {"training": GREY, "training mean": COLOURS[1], "evaluation": COLOURS[0]}
    y = alt.Y("value:Q", title=None, axis=alt.Axis(labelExpr=NUMBER, tickCount=5), scale=alt.Scale(zero=False))

    def layer(table: str, kind: str) -> alt.Chart:
        return over_table(table).encode(x=x_axis(axis), y=y, color=alt.ColorDatum(kind))

    layers = [layer("training", "training").mark_circle(size=12, fillOpacity=0.4, opacity=1),
             layer("mean", "training mean").mark_line(strokeWidth=2.5),
             _alone_layer(colours, y, axis, legend=evaluated, across=2 * CARD if wide else CARD)]
    if evaluated:
        diamond = {"shape": "diamond", "size": 24, "strokeWidth": 1, "opacity": 1}
        layers += [layer("evaluation", "evaluation").mark_point(**diamond),
                  layer("evaluation_mean", "evaluation").mark_line(strokeWidth=2.5)]
    names = [f"mean {what}", "evaluation"] if evaluated else [f"mean {what}"]
    return _over_time(layers, names, axis, title=title,
                      description=f"The {what} of every episode and its running mean over {axis}")


def events_strip(events: Events, *, title: str, axis: Axis) -> Figure:
    """One strip with a mark per event, in lanes of similar kinds; a tooltip says what it was."""
    return Figure(title, _events_strip(title, axis), {"events": event_table(events, axis), "span": spanning(None)},
                  row=True, plain=PlainChart("events"))


@lru_cache(8)
def _events_strip(title: str, axis: Axis) -> alt.LayerChart:
    kinds = ", ".join(EVENT_MARKS)
    return alt.layer(*event_strip(axis), span_layer(axis), title=title, height=STRIP + LANE * len(LANES),
                     description=f"Events over {axis}, a mark for each: {kinds}")


def histogram(edges: Sequence[float] | Array, counts: Sequence[float] | Array, *, title: str, x: str) -> Figure:
    """Bars of the share of each bin; `edges` has one more entry than `counts`. The x axis is logarithmic where the
    edges are."""
    edges, counts, log = binned(edges, counts)
    domain = log_domain(edges, pad=1.0) if log else None
    bars = {"low": edges[:-1], "high": edges[1:], "share": counts / max(counts.sum(), 1e-12)}
    whole = bool((edges == np.round(edges)).all())
    return Figure(title, _histogram(title, x, domain, whole), {"bars": bars}, plain=PlainChart("bars", log=log, x=x))


@lru_cache(64)
def _histogram(title: str, x: str, domain: tuple[float, float] | None, whole: bool) -> alt.Chart:
    scale, axis = log_axis(*domain) if domain else (alt.Scale(nice=False), alt.Axis(
        labelExpr=NUMBER, grid=False, tickCount=6, **({"tickMinStep": 1} if whole else {})))
    tips = [alt.Tooltip("low:Q", title="from", format=READ), alt.Tooltip("high:Q", title="to", format=READ),
            alt.Tooltip("share:Q", format=".1%")]
    return over_table("bars").mark_bar(color=COLOURS[0], binSpacing=1).encode(
        x=alt.X("low:Q", bin="binned", title=x, axis=axis, scale=scale), x2="high:Q",
        y=alt.Y("share:Q", title=None, axis=alt.Axis(format="%", tickCount=4)), tooltip=tips,
    ).properties(title=title, description=f"Histogram of {x}")


def bottleneck(shares: Mapping[str, float], *, title: str = "Where the time goes") -> Figure:
    """One bar per part of the pipeline: the share of time that it is busy or waits. The bottleneck stands out."""
    parts = {part: min(1.0, max(0.0, float(shares[part]))) for part in PARTS if part in shares}
    most = max((part for part in WORK if part in parts), key=lambda part: parts[part], default="")
    kinds = ["most" if part == most else "work" if part in WORK else "wait" for part in parts]
    return _parts(title, [PARTS[part] for part in parts], list(parts.values()), kinds,
                  [f"{share:.0%}" for share in parts.values()],
                  "Share of time that each part of the pipeline is busy or waits")


def life(seconds: Mapping[str, float], *, title: str) -> Figure:
    """One bar per stage of an observation's life (`metrics.flights.STAGES`), with its time. The longest stands out."""
    stages = {stage: seconds[stage] for stage in STAGES if stage in seconds}
    whole, most = sum(stages.values()) or 1.0, max(stages, key=lambda stage: stages[stage])
    kinds = ["most" if stage == most else "wait" if STAGES[stage].waits else "work" for stage in stages]
    return _parts(title, [STAGES[stage].label for stage in stages], [one / whole for one in stages.values()], kinds,
                  [brief(one) for one in stages.values()],
                  "Time of each stage of an observation's life, from the step that made it to its training")


def _parts(
    title: str, names: list[str], shares: list[float], kinds: list[str], texts: list[str], description: str
) -> Figure:
    table: Table = {"part": names, "share": np.array(shares), "kind": kinds, "text": texts}
    return Figure(title, _parts_chart(title, tuple(names), description), {"parts": table}, plain=PlainChart("parts"))


@lru_cache(8)
def _parts_chart(title: str, names: tuple[str, ...], description: str) -> alt.LayerChart:
    colours = alt.Scale(domain=["most", "work", "wait"], range=[COLOURS[1], COLOURS[0], GREY])
    base = over_table("parts").encode(
        y=alt.Y("part:N", axis=None, sort=list(names)),
        tooltip=[alt.Tooltip("part:N", title="part"), alt.Tooltip("share:Q", title="share of time", format=".1%")],
    )
    x = alt.X("share:Q", axis=None, scale=alt.Scale(domain=[-PART_LABELS, 1.18]))
    bars = base.mark_bar(height={"band": 0.65}).encode(x=x, color=alt.Color("kind:N", scale=colours, legend=None))
    names = base.mark_text(align="right", dx=-5).encode(x=alt.XDatum(0, type="quantitative", axis=None), text="part:N")
    text = base.mark_text(align="left", dx=4).encode(x=x, text="text:N")
    return alt.layer(bars, names, text, title=title, description=description)


def nothing(why: str, *, title: str, wide: bool = False) -> Figure:
    """An empty chart with the reason why it has no data yet."""
    return Figure(title, _nothing(title, why), {"nothing": {"x": np.zeros(1)}}, wide)


@lru_cache(64)
def _nothing(title: str, why: str) -> alt.Chart:
    text = over_table("nothing").mark_text(text=textwrap.wrap(why, 34), fontSize=13)
    return text.properties(title=title, description=f"{title}: {why}")


def _over_time(
    layers: Sequence[alt.Chart], names: Sequence[str], axis: Axis, *, title: str, description: str
) -> alt.LayerChart:
    """The layers over the ends of the common axis, with the readout above them."""
    return alt.layer(*layers, readout_layer(names, axis), span_layer(axis), title=title, description=description)

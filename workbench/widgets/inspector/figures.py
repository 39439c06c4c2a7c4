"""Figures and table rows of a checkpoint inspector: pure functions of checkpoints, layers and evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from workbench.checkpoints import Checkpoint, standing
from workbench.checkpoints.layer_statistics import Difference, Layer
from workbench.playing.evaluating.evaluation_log import LoggedEvaluation
from workbench.running.reading.checkpoint_list import why_written
from workbench.tables import number, plain
from workbench.widgets.charts.altair import alt
from workbench.widgets.charts.axes import NUMBER, READ, Array, Series, along, x_axis, x_tip
from workbench.widgets.charts.charts import COLOURS, GREY
from workbench.widgets.charts.live import Figure, over_table
from workbench.widgets.charts.marks import Events, event_rules, event_table, readout, readout_layer
from workbench.widgets.views.table import Column

CHECKPOINTS = (
    Column("name", "Checkpoint"),
    Column("frames", "Frames", "number"),
    Column("updates", "Updates", "number"),
    Column("return", "Return", "number", help="mean of the last training episodes when it was written"),
    Column("evaluation", "Evaluation", "number", help="mean return of the latest evaluation"),
    Column("interval", "95 % interval", help="confidence interval of that mean, and the number of its episodes"),
    Column("created", "Written", "ago"),
    Column("why", "Why"),
    Column("size", "Size", "number", unit="MiB"),
)
_GRADIENT = "root mean square over about the last 1/(1-β) updates, from the optimizer's mean of squares (clipped)"
LAYERS = (
    Column("name", "Layer"),
    Column("shape", "Shape"),
    Column("norm", "Norm ‖w‖", "number"),
    Column("rms", "RMS", "number", help="root mean square of the weights"),
    Column("low", "Min", "number"),
    Column("high", "Max", "number"),
    Column("zeros", "Zeros", "number", unit="%", help="share of weights that are exactly 0"),
    Column("dead", "Dead units", "number", unit="%",
           help="share of units that get no gradient, or have no weights but 0"),
    Column("gradient", "Gradient norm", "number", help=f"norm of the layer's gradient: {_GRADIENT}"),
    Column("gradient_rms", "Gradient RMS", "number", help=f"of one number of the gradient: {_GRADIENT}"),
)
DIFFERENCES = (
    Column("name", "Layer"),
    Column("shape", "Shape"),
    Column("norm", "‖w‖", "number", help="of the first checkpoint"),
    Column("other", "‖w'‖", "number", help="of the second"),
    Column("difference", "‖w' − w‖", "number"),
    Column("relative", "‖w' − w‖ / ‖w‖", "number", unit="%"),
    Column("cosine", "Cosine", "number", help="of the angle between w and w': 1 is the same direction"),
    Column("only", "Only in"),
)
SECOND = "#b8569a"  # of the second checkpoint
# Vega-Lite puts titles into expressions, between quotes, and escapes neither backslashes nor odd ends of lines.
_OF_STRINGS = str.maketrans({"\\": "/", '"': "'"})

Bins = tuple[Array, Array]  # edges and counts


def checkpoint_rows(
    checkpoints: Sequence[Checkpoint], evaluations: Sequence[LoggedEvaluation], *, best: Checkpoint | None
) -> list[dict[str, Any]]:
    """A row per checkpoint, with the latest of its evaluations; the best one is marked."""
    rows = []
    for checkpoint in checkpoints:
        last = next((entry.evaluation for entry in reversed(evaluations) if entry.of(checkpoint)), None)
        evaluated = {} if last is None else {"evaluation": last.mean, "interval": interval(last)}
        rows.append({
            "key": checkpoint.path.name, "name": checkpoint.path.name, "frames": checkpoint.frames,
            "updates": checkpoint.updates, "return": checkpoint.episode_return, "evaluation": None, "interval": "",
            "created": checkpoint.created, "why": why_written(checkpoint),
            **({"note": f"the best of the run: {standing(best)}", "bad": False} if checkpoint == best else {}),
            "size": round(checkpoint.size_bytes / 2**20, 2), **evaluated,
        })  # fmt: skip
    return rows


def interval(evaluation: Any) -> str:
    """The 95 % confidence interval, or why there is none, and the number of episodes, in words."""
    low, high = evaluation.confidence_interval
    bounds = f"none: {evaluation.no_interval}" if evaluation.no_interval else f"{number(low)} to {number(high)}"
    return f"{bounds} ({number(count := len(evaluation.returns))} episode{'s' * (count > 1)})"


def layer_rows(layers: Sequence[Layer]) -> list[dict[str, Any]]:
    """A row per layer; shares in percent."""
    return [
        {"key": layer.name, "name": layer.name, "shape": _shape(layer.shape), "norm": layer.norm, "rms": layer.rms,
         "low": layer.low, "high": layer.high, "zeros": 100 * layer.zeros, "dead": 100 * layer.dead_units,
         "gradient": layer.gradient_norm, "gradient_rms": layer.gradient_rms, **_warning(layer)} for layer in layers
    ]  # fmt: skip


def _warning(layer: Layer) -> dict[str, Any]:
    if not layer.not_finite:
        return {}
    return {"note": f"{layer.not_finite:,} of its numbers are not finite; the others are shown", "bad": True}


def difference_rows(differences: Sequence[Difference]) -> list[dict[str, Any]]:
    """A row per layer of either network."""
    where = {"self": "the first", "other": "the second", "": ""}
    return [
        {"key": layer.name, "name": layer.name, "shape": _shape(layer.shape), "norm": layer.norm,
         "other": layer.other_norm, "difference": layer.difference, "relative": 100 * layer.relative_difference,
         "cosine": layer.cosine, "only": where[layer.only_in]} for layer in differences
    ]  # fmt: skip


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "one number"


# --- charts -----------------------------------------------------------------------------------------------------------


def timeline(
    checkpoints: Sequence[Checkpoint], evaluations: Sequence[LoggedEvaluation], *, chosen: Sequence[Checkpoint],
    mean: Series, events: Events, best: Checkpoint | None,
) -> Figure:
    """A diamond per checkpoint at its return, over the run's mean return, with a ring at the `best` one; evaluations
    with their intervals as bars; a vertical line at each `chosen` checkpoint."""
    x, value = along(mean, "frames"), mean["value"]
    scored = [checkpoint for checkpoint in checkpoints if checkpoint.episode_return is not None]
    tables: dict[str, Any] = {
        "mean": {"x": x, "value": value}, "readout": readout([(x, value)]), "events": event_table(events, "frames"),
        "saved": {"x": _floats(checkpoint.frames for checkpoint in scored),
                  "value": _floats(checkpoint.episode_return for checkpoint in scored),
                  "label": [checkpoint.path.name for checkpoint in scored]},
        "best": {"x": _floats(checkpoint.frames for checkpoint in scored if checkpoint == best),
                 "value": _floats(checkpoint.episode_return for checkpoint in scored if checkpoint == best)},
        "evaluated": _evaluated([entry.evaluation for entry in evaluations]),
        "chosen": {"x": _floats(checkpoint.frames for checkpoint in chosen),
                   "label": ["first", "second"][: len(chosen)], "name": ["first", "second"] if len(chosen) > 1 else
                   [""] * len(chosen)},
    }  # fmt: skip
    return Figure("Checkpoints and evaluations", _timeline(), tables, wide=True)


def _evaluated(evaluations: Sequence[Any]) -> Mapping[str, Any]:
    ends = [evaluation.confidence_interval for evaluation in evaluations]
    return {
        "x": _floats(evaluation.checkpoint_frames for evaluation in evaluations),
        "value": _floats(evaluation.mean for evaluation in evaluations),
        "low": _floats(low for low, _ in ends), "high": _floats(high for _, high in ends),
        "label": [interval(evaluation) for evaluation in evaluations],
    }


@lru_cache(1)
def _timeline() -> alt.LayerChart:
    x = x_axis("frames")
    scale = alt.Scale(zero=False)
    y = alt.Y("value:Q", title="return", axis=alt.Axis(labelExpr=NUMBER), scale=scale)
    kinds = {"training": GREY, "checkpoint": COLOURS[0], "evaluation, 95 % interval": COLOURS[1]}
    ink = _ink(kinds, legend=True)
    tips = [x_tip("frames"), alt.Tooltip("value:Q", title="return", format=READ)]
    line, saved, evaluated = (_over(table, kind).encode(x=x, color=ink) for table, kind in
                              zip(("mean", "saved", "evaluated"), kinds, strict=True))
    layers = [
        line.mark_line(strokeWidth=1.75).encode(y=y),
        evaluated.transform_filter("isValid(datum.low)").mark_errorbar(ticks=True, thickness=2).encode(
            y=alt.Y("low:Q", title="return", scale=scale), y2="high:Q"),
        saved.mark_point(shape="diamond", size=110, filled=True, opacity=1).encode(
            y=y, tooltip=[alt.Tooltip("label:N", title="checkpoint"), *tips]),
        evaluated.mark_point(shape="square", size=80, filled=True, opacity=1).encode(
            y=y, tooltip=[*tips, alt.Tooltip("label:N", title="95 % interval")]),
    ]
    pair = alt.Color("label:N", legend=None, scale=alt.Scale(domain=["first", "second"], range=[COLOURS[0], SECOND]))
    marked = _over("chosen").encode(x=x, color=pair)
    names = [marked.transform_filter(f"datum.name === '{name}'").mark_text(
        align="right", dx=-5, baseline="top", fontSize=13).encode(y=alt.value(place), text="name:N")
        for name, place in (("first", 0), ("second", 17))]
    here = alt.layer(marked.mark_rule(strokeWidth=2), *names)
    ring = _over("best").encode(x=x, y=y)
    ringed = [ring.mark_point(shape="circle", size=330, strokeWidth=2.5, color=COLOURS[0], opacity=1),
              ring.mark_text(dy=-17, fontSize=12, fontWeight="bold").encode(text=alt.value("best"))]
    over = [*ringed, here, readout_layer(["mean return"], "frames"), event_rules()]  # colours of other meaning
    chart = alt.layer(alt.layer(*layers), *over).resolve_scale(color="independent")
    return chart.properties(title="Checkpoints and evaluations", description=(
        "The mean return of training over frames, a diamond per checkpoint, and evaluations with their 95 % "
        "confidence interval"))


def histogram(name: str, first: Bins | None, second: Bins | None = None) -> Figure:
    """Histogram of a layer's weights, in each checkpoint that has the layer."""
    tables = {"first": _bars(first), "second": _bars(second)}
    name = plain(name).translate(_OF_STRINGS)
    return Figure(f"Weights of {name}", _histogram(name, second is not None), tables)


def _bars(bins: Bins | None) -> Mapping[str, Any]:
    edges, counts = bins or (np.zeros(1), np.zeros(0))
    return {"low": edges[:-1], "high": edges[1:], "share": counts / max(counts.sum(), 1)}


@lru_cache(64)
def _histogram(name: str, two: bool) -> alt.LayerChart:
    ticks = alt.Axis(labelExpr=NUMBER, grid=False, tickCount=6)
    x = alt.X("low:Q", bin="binned", title=f"weight in {name}", axis=ticks, scale=alt.Scale(nice=False))
    tips = [alt.Tooltip("low:Q", title="from", format=READ), alt.Tooltip("high:Q", title="to", format=READ),
            alt.Tooltip("share:Q", format=".2%")]
    y = alt.Y("share:Q", title="share", axis=alt.Axis(format="%", tickCount=4), stack=None)
    ink = _ink({"first": COLOURS[0], "second": SECOND}, legend=two)
    first = _over("first", "first").mark_bar(binSpacing=1, opacity=0.75 if two else 1).encode(
        x=x, x2="high:Q", y=y, tooltip=tips, color=ink)
    # The second is an outline, so that its shape differs as well as its colour.
    second = _over("second", "second").mark_line(interpolate="step-after", strokeWidth=2).encode(x=x, y=y, color=ink)
    return alt.layer(first, second).properties(
        title=f"Weights of {name}", description=f"Histogram of the weights of {name}")


def _ink(colours: Mapping[str, str], *, legend: bool) -> alt.Color:
    """The colour of what `_over` names."""
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    top = alt.Legend(title=None, orient="top", columns=2, symbolOpacity=1) if legend else None
    return alt.Color("kind:N", scale=scale, legend=top)


def _over(table: str, kind: str = "") -> alt.Chart:
    """A layer over a table, whose rows are all of a `kind`."""
    base = over_table(table)
    return base.transform_calculate(kind=f"'{kind}'") if kind else base


def _floats(values: Any) -> Array:
    return np.array(list(values), np.float64)

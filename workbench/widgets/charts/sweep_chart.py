"""Charts of a sweep: parallel coordinates, the fields' importance, and values in the order of the trials.

Pure functions from trials to figures. Finished trials are strong, the others faint; the best one stands out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from workbench.sweeping.space import Space
from workbench.sweeping.study import LEAST_FOR_IMPORTANCE, Trial, best
from workbench.widgets.charts import charts
from workbench.widgets.charts.altair import alt
from workbench.widgets.charts.axes import NUMBER, READ
from workbench.widgets.charts.live import Figure, Table, over_table

COLOURS = ("#2a80c4", "#d55e00", "#8a8f98")  # finished, the best, and all others; see `charts.COLOURS`
KINDS = ("finished", "best", "running, pruned or failed")
WIDEST = {"parallel": (760, 260), "importance": (340, 150), "history": (340, 150)}  # of the still pictures, in px


def figures(trials: Sequence[Trial], shares: Mapping[str, float], space: Space, *, metric: str, goal: str) -> dict[
    str, Figure
]:
    """All charts, by key; a chart without data says what it waits for."""
    measured = [trial for trial in trials if trial.value is not None]
    best_trial = best(trials, goal)
    number = None if best_trial is None else best_trial.number
    return {
        "parallel": parallel([trial for trial in measured if trial.fields.keys() >= space.keys()], space,
                             metric=metric, best_number=number),
        "importance": importance(shares),
        "history": history(measured, metric=metric, goal=goal, best_number=number),
    }


def parallel(trials: Sequence[Trial], space: Space, *, metric: str, best_number: int | None) -> Figure:
    """One line per trial across an axis per field and one for the metric, each on its own scale."""
    title = f"Every trial by what it chose, and its {metric.replace('_', ' ')}"
    if not trials:
        return charts.nothing(f"no run has a value of {metric} yet", title=title, wide=True)
    names = (*space, metric)
    values = np.array([trial.value for trial in trials], np.float64)
    low, high = float(values.min()), float(values.max())
    reach = high - low if high > low else 1.0
    rows: list[tuple[Any, ...]] = []
    for trial in trials:
        places = {name: (entry.place(trial.fields[name]), trial.fields[name]) for name, entry in space.items()}
        places[metric] = (((trial.value or 0.0) - low) / reach, trial.value)
        rows += [(trial.number, trial.run, name, place, as_text(value), _kind(trial, best_number), trial.value)
                 for name, (place, value) in places.items()]
    ticks = {name: entry.ticks() for name, entry in space.items()}
    ticks[metric] = [(share, f"{low + share * reach:.4g}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    marks = [(name, place, text) for name, some in ticks.items() for place, text in some]
    tables: dict[str, Table] = {"trials": _table("trial run axis place read kind value", rows),
                                "ticks": _table("axis place text", marks)}
    return Figure(title, _parallel(title, names), tables, wide=True)


@lru_cache(32)
def _parallel(title: str, names: tuple[str, ...]) -> alt.LayerChart:
    over = alt.selection_point(name="over", fields=["trial"], on="pointerover", clear="pointerout", empty=False)
    x = alt.X("axis:N", sort=list(names), title=None, axis=alt.Axis(
        labelAngle=0, orient="top", grid=True, domain=False, ticks=False, labelLimit=150, labelFontSize=12))
    y = alt.Y("place:Q", axis=None, scale=alt.Scale(domain=[-0.04, 1.04], nice=False))
    colour = alt.Color("kind:N", scale=alt.Scale(domain=list(KINDS), range=list(COLOURS)), legend=alt.Legend(
        title=None, orient="bottom", symbolType="stroke", symbolStrokeWidth=3, symbolOpacity=1))
    strength = alt.Opacity("kind:N", scale=alt.Scale(domain=list(KINDS), range=[0.75, 1, 0.35]), legend=None)
    tips = [alt.Tooltip("run:N"), alt.Tooltip("axis:N", title="field"), alt.Tooltip("read:N", title="value"),
            alt.Tooltip("kind:N"), alt.Tooltip("value:Q", title=names[-1], format=READ)]
    base = over_table("trials").encode(x=x, y=y, color=colour, detail="trial:N", tooltip=tips)
    lines = base.mark_line(strokeWidth=2).encode(
        opacity=alt.condition(over, alt.value(1.0), strength),
        strokeWidth=alt.condition(over, alt.value(5), alt.value(2)))
    points = base.mark_point(filled=True, size=70).encode(opacity=strength).add_params(over)
    text = over_table("ticks").mark_text(align="right", dx=-7, fontSize=11, tooltip=None).encode(
        x=x, y=y, text="text:N")
    description = f"Parallel coordinates over {', '.join(names)}: one line per trial"
    return alt.layer(lines, points, text, title=title, description=description)


def importance(shares: Mapping[str, float]) -> Figure:
    """One bar per field."""
    title = "Importance of each field"
    if not shares:
        why = f"known from {LEAST_FOR_IMPORTANCE} trials on that have finished or were pruned"
        return charts.nothing(why, title=title)
    table: Table = {"field": list(shares), "share": np.array(list(shares.values()), np.float64)}
    return Figure(title, _importance(title, tuple(shares)), {"fields": table})


@lru_cache(32)
def _importance(title: str, names: tuple[str, ...]) -> alt.LayerChart:
    base = over_table("fields").encode(
        y=alt.Y("field:N", title=None, sort=list(names), axis=alt.Axis(ticks=False, domain=False, labelLimit=150)),
        x=alt.X("share:Q", title=None, axis=None, scale=alt.Scale(domain=[0, 1.18])),
        tooltip=[alt.Tooltip("field:N"), alt.Tooltip("share:Q", format=".1%")],
    )
    bars = base.mark_bar(height={"band": 0.65}, color=COLOURS[0])
    text = base.mark_text(align="left", dx=4).encode(text=alt.Text("share:Q", format=".0%"))
    return alt.layer(bars, text, title=title, description=f"Importance of {', '.join(names)}")


def history(trials: Sequence[Trial], *, metric: str, goal: str, best_number: int | None) -> Figure:
    """One dot per trial, and a line of the best finished one so far."""
    title = f"{metric.replace('_', ' ').capitalize()}, trial by trial"
    if not trials:
        return charts.nothing(f"no run has a value of {metric} yet", title=title)
    dots: Table = {
        "trial": np.array([trial.number for trial in trials], np.float64),
        "value": np.array([trial.value for trial in trials], np.float64),
        "kind": [_kind(trial, best_number) for trial in trials], "run": [trial.run for trial in trials],
    }  # fmt: skip
    finished = [trial for trial in trials if trial.state == "finished"]
    running = np.maximum.accumulate if goal == "max" else np.minimum.accumulate
    line: Table = {
        "trial": np.array([trial.number for trial in finished], np.float64),
        "value": running(np.array([trial.value for trial in finished], np.float64)),
    }
    return Figure(title, _history(title), {"dots": dots, "line": line})


@lru_cache(8)
def _history(title: str) -> alt.LayerChart:
    x = alt.X("trial:Q", title="trial", axis=alt.Axis(tickMinStep=1, tickCount=6, grid=False, labelExpr=NUMBER))
    y = alt.Y("value:Q", title=None, axis=alt.Axis(labelExpr=NUMBER, tickCount=5), scale=alt.Scale(zero=False))
    colour = alt.Color("kind:N", legend=None, scale=alt.Scale(domain=list(KINDS), range=list(COLOURS)))
    tips = [alt.Tooltip("run:N"), alt.Tooltip("value:Q", format=READ), alt.Tooltip("kind:N")]
    dots = over_table("dots").mark_point(filled=True, size=60, opacity=1).encode(x=x, y=y, color=colour, tooltip=tips)
    line = over_table("line").mark_line(interpolate="step-after", strokeWidth=1.5, color=COLOURS[0]).encode(x=x, y=y)
    return alt.layer(line, dots, title=title, description=f"{title}: a dot per trial, a line of the best so far")


def _kind(trial: Trial, best_number: int | None) -> str:
    return KINDS[1] if trial.number == best_number else KINDS[0] if trial.state == "finished" else KINDS[2]


def as_text(value: Any) -> str:
    """A value of a field, or of the metric, as people read it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _table(names: str, rows: Sequence[tuple[Any, ...]]) -> Table:
    """The columns of rows for LiveCharts: arrays of numbers, lists of texts."""
    return {name: np.array(cells, np.float64) if name in ("trial", "place", "value") else list(cells)
            for name, cells in zip(names.split(), zip(*rows, strict=True), strict=True)}

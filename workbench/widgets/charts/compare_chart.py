"""The chart that compares a metric of runs or groups: plain Altair, with its controls inside as Vega parameters.

Smoothing is computed in the chart: each point becomes the mean of the points around it, weighted by their distance on
the axis. So a run with more points is not smoothed less than another, and no line lags behind its run:

    smooth_i = Σ_j k_ij value_j / Σ_j k_ij        k_ij = exp(-|x_i - x_j| / τ), and 2 for the point itself

τ is the parameter `smoothing` times the length of the axis. Both halves of a sum are running sums: of
exp((x_j - x_last) / τ) from the left, and of exp((x_first - x_j) / τ) from the right.

No smoothing moves a collapse or wears a plateau away: the line stays between the least and the greatest value of the
point and its NEIGHBOURS on each side. The values as recorded are the thin line, and a text in the chart says which is
which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from workbench.widgets.charts.altair import alt
from workbench.widgets.charts.axes import NUMBER

CompareAxis = Literal["frames", "updates", "hours", "share"]
COMPARE_AXES: tuple[CompareAxis, ...] = get_args(CompareAxis)  # share: of the run's own frames, from 0 to 1
LARGEST_SMOOTHING = 0.5
NEIGHBOURS = 3  # points to each side of a point, whose range its smoothed value never leaves
_SHORTEST = 600  # the shortest τ is the axis' length divided by this; e^-600 is still a number

# Okabe and Ito 2008, "Color Universal Design", without black and yellow, which are invisible in some themes.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
DASHES = ((1, 0), (7, 3), (2, 2), (8, 3, 2, 3), (14, 4))  # 30 runs differ in colour or dash; neighbours in both

_SIZE = 13
_AXIS = {"labelFontSize": _SIZE, "titleFontSize": _SIZE, "titleFontWeight": "normal"}
_POSITION = f"axis === 'share' ? format(datum.value, '.0%') : {NUMBER}"
_WHAT_IS_DRAWN = ("smoothing > 0 ? 'strong: mean over ±' + format(smoothing, '.1%') + ' of the axis; thin: as recorded'"
                  " : 'as recorded'")
_WHAT_IS_DRAWN_OF_GROUPS = ("'line: mean of the runs; band: lowest to highest' + (smoothing > 0 ? ', over ±' + "
                            "format(smoothing, '.1%') + ' of the axis' : '')")


def chart(
    curves: Any, tunes: Any, *, names: Sequence[str], metric: str, axis: str, smoothing: float, title: str,
    bands: bool,
) -> alt.LayerChart:
    """Per run a faint line of its values and a strong smoothed one, and a triangle on the axis where it was tuned.

    Of groups of runs, the smoothed mean over a smoothed band.

    Args:
        curves: data with the columns run, frames, updates, hours, share, value; of groups also low and high.
        tunes: with run, frames, updates, hours, share, message; None: there are none.
        axis, smoothing: first values of the controls.
        bands: the rows are of groups.
    """
    base = _smoothed(alt.Chart(curves), ("value", "low", "high") if bands else ("value",))
    strong, faint = _lines(base, names=names, metric=metric, bands=bands)
    layers = [faint, strong, _points(base, metric, bands=bands), _title_of_axis(), _words(bands=bands)]
    if tunes is not None:
        layers.append(_tunes(tunes))
    drawn = "the mean of each group of runs, over a band from the lowest to the highest" if bands else (
        "one line per run, over its values as recorded")
    description = f"{metric} of {', '.join(names)} by {axis}: {drawn}."
    return (
        alt.layer(*layers).add_params(*_controls(axis, smoothing))
        .properties(width=620, height=340, title=alt.Title(title, fontSize=15, anchor="start"), description=description)
    )  # fmt: skip


def _controls(axis: str, smoothing: float) -> list[alt.Parameter]:
    slide = alt.binding_range(min=0, max=LARGEST_SMOOTHING, step=0.005, name="Smoothing (share of the axis) ")
    choose = alt.binding_select(options=list(COMPARE_AXES), name="Horizontal axis ")
    return [alt.param(name="smoothing", value=smoothing, bind=slide), alt.param(name="axis", value=axis, bind=choose)]


def _smoothed(base: alt.Chart, fields: Sequence[str]) -> alt.Chart:
    """The rows with x, the position on the selected axis; `smooth_value` and so on, of each of the fields; and
    `points`, the run's number of rows."""
    reach = f"(max(smoothing, 1 / {_SHORTEST}) * max(datum.last - datum.first, 1e-9))"
    base = (
        base.transform_calculate(x="datum[axis]").transform_filter("isValid(datum.value)")
        .transform_joinaggregate(first="min(x)", last="max(x)")
        .transform_joinaggregate(points="count()", groupby=["run"])
        .transform_calculate(left=f"exp((datum.x - datum.last) / {reach})")
        .transform_calculate(right=f"exp((datum.first - datum.x) / {reach})")
    )  # fmt: skip
    for field in fields:
        base = _with_mean(base, field)
    return base


def _with_mean(base: alt.Chart, field: str) -> alt.Chart:
    """The rows with the smoothed values of one field."""
    for side, order in (("left", "ascending"), ("right", "descending")):
        base = base.transform_calculate("product", f"datum.{side} * datum.{field}").transform_window(
            [{"op": "sum", "field": "product", "as": f"{side}Sum"}, {"op": "sum", "field": side, "as": f"{side}Mass"}],
            sort=[alt.SortField("x", order)], groupby=["run"], frame=[None, 0],
        )
    ends = [{"op": op, "field": field, "as": name} for op, name in (("min", "least"), ("max", "greatest"))]
    base = base.transform_window(ends, sort=[alt.SortField("x", "ascending")], groupby=["run"],
                                 frame=[-NEIGHBOURS, NEIGHBOURS])
    total, mass = (f"(datum.left{what} / datum.left + datum.right{what} / datum.right)" for what in ("Sum", "Mass"))
    mean = f"clamp({total} / {mass}, datum.least, datum.greatest)"
    return base.transform_calculate(f"smooth_{field}", f"smoothing > 0 ? {mean} : datum.{field}")


def _lines(base: alt.Chart, *, names: Sequence[str], metric: str, bands: bool) -> tuple[alt.Chart, alt.Chart]:
    """The smoothed lines, with the legend, and the faint ones or bands. A click in the legend emphasises one run."""
    selection = alt.selection_point(name="chosen", fields=["run"], bind="legend")
    legend = alt.Legend(title=None, orient="top", columns=2, labelFontSize=_SIZE, labelLimit=320, symbolSize=900,
                        symbolType="stroke", symbolStrokeWidth=3, symbolOpacity=1)
    colours = [COLOURS[at % len(COLOURS)] for at in range(len(names))]
    dashes = [list(DASHES[at % len(DASHES)]) for at in range(len(names))]
    colour = alt.Color("run:N", legend=legend, scale=alt.Scale(domain=list(names), range=colours))
    dash = alt.StrokeDash("run:N", legend=legend, scale=alt.Scale(domain=list(names), range=dashes))
    behind = (base.mark_area().encode(y=_y("smooth_low", metric), y2="smooth_high:Q") if bands else
              base.mark_line(strokeWidth=1).encode(y=_y("value", metric)))
    faint = behind.encode(x=_x(), color=colour, opacity=alt.condition(selection, alt.value(0.28), alt.value(0.05)))
    strong = base.mark_line(strokeWidth=2.5).encode(
        x=_x(), y=_y("smooth_value", metric), color=colour, strokeDash=dash,
        opacity=alt.condition(selection, alt.value(1.0), alt.value(0.15)))
    return strong.add_params(selection), faint


def _points(base: alt.Chart, metric: str, *, bands: bool) -> alt.Chart:
    """Points that are visible only for a run with a single value, which has no line; they carry the tooltips."""
    tips = ["run:N", *(alt.Tooltip(f"{name}:Q", format=form) for name, form in
            (("frames", ",.0f"), ("updates", ",.0f"), ("hours", ".3~g"))),
            alt.Tooltip("value:Q", title=metric, format=".4~g"),
            alt.Tooltip("smooth_value:Q", title="smooth", format=".4~g"),
            *(alt.Tooltip(f"{name}:Q", format=".4~g") for name in ("low", "high") if bands)]
    opacity = alt.value(alt.ExprRef("datum.points == 1 ? 1 : 0"))
    return base.mark_point(filled=True, size=60, tooltip=True).encode(
        x=_x(), y=_y("smooth_value", metric), color="run:N", opacity=opacity, tooltip=tips
    )


def _tunes(tunes: Any) -> alt.Chart:
    base = alt.Chart(tunes).transform_calculate(x="datum[axis]")
    return base.mark_point(shape="triangle-up", filled=True, size=90, opacity=1, yOffset=-5).encode(
        x=_x(), y=alt.value(alt.ExprRef("height")), color="run:N", tooltip=["run:N", "message:N", "frames:Q"]
    )


def _x() -> alt.X:
    scale = alt.Scale(zero=False, nice=False)
    return alt.X("x:Q", axis=alt.Axis(title=None, tickCount=6, labelFlush=True, labelExpr=_POSITION, **_AXIS),
                 scale=scale)


def _y(field: str, metric: str) -> alt.Y:
    axis = alt.Axis(title=metric, tickCount=6, labelExpr=NUMBER, **_AXIS)
    return alt.Y(f"{field}:Q", axis=axis, scale=alt.Scale(zero=False))


def _title_of_axis() -> alt.Chart:
    """The axis' title as a text mark in the corner, because an axis cannot read its title from a parameter."""
    title = "axis === 'hours' ? 'hours of training' : axis === 'share' ? 'share of the run' : axis"
    return _text(title, bottom=True)


def _words(*, bands: bool) -> alt.Chart:
    """What the strong and the thin lines, or the bands, are, as a text mark."""
    return _text(_WHAT_IS_DRAWN_OF_GROUPS if bands else _WHAT_IS_DRAWN, bottom=False)


def _text(expression: str, *, bottom: bool) -> alt.Chart:
    """A text in a corner on the right."""
    mark = alt.Chart(alt.sequence(1)).mark_text(
        text=alt.ExprRef(expression), fontSize=_SIZE, align="right", baseline="bottom", dx=-4, dy=-4)
    return mark.encode(x=alt.value(alt.ExprRef("width")), y=alt.value(alt.ExprRef("height") if bottom else 0))

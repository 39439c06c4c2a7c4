"""`compare`: a metric of several runs, or groups of runs, in one chart, and where their configurations differ.

It reads only the runs' directories, so runs may be training, over or dead. A Comparison holds its data: it does not
change when a run goes on or is deleted.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench import imports, rundir, tables
from workbench.errors import InvalidInput, OutOfBounds, UnknownName, checked_arguments
from workbench.metrics import MetricsReader
from workbench.metrics.meanings import SYNONYMS
from workbench.rundir import RunDirectory, lock
from workbench.rundir.files import saving
from workbench.running import differing
from workbench.running.differing import Compared
from workbench.running.handle import Run
from workbench.running.progress import notify
from workbench.widgets.charts import compare_chart, static_render
from workbench.widgets.charts.altair import alt
from workbench.widgets.charts.compare_chart import COMPARE_AXES, LARGEST_SMOOTHING

POINTS = 1000  # of a run, at most
ROWS = 4500  # of all runs together; Altair draws no more than 5000
GROUP_POINTS = 100  # of a run in a group: means over a hundredth of it, so that a band is not of single episodes
_FORMATS = (".html", ".json", ".png", ".svg")
_SCALE = 2.0  # of a saved PNG: sharp on a projector


@checked_arguments(runs="Give some: wb.compare([run_a, run_b]); wb.runs() lists them.")
def compare(
    runs: Compared | Mapping[str, Compared],
    metric: str = "episode_return",
    *,
    axis: str = "frames",
    smoothing: float = 0.01,
) -> Comparison:
    """A metric of several runs, drawn over each other, with the configuration fields in which they differ.

    Args:
        runs: handles, names or directories, or rows of `wb.runs()`. Or groups of them by label, such as the seeds of
            each algorithm: `{"PPO": [a, b, c], "V-trace": [d, e, f]}`. A group's line is the mean of its runs, at
            equal frames and as far as all of them go, its band reaches from the lowest to the highest.
        metric: any of `run.metric_names`. Runs that have not recorded it are left out of the chart, which is said.
        axis: frames, updates, hours of training, or share: of each run's own frames, so that a short run is as long as
            a long one; a list under the chart changes it.
        smoothing: how far the mean behind each point of a line reaches to both sides, as a share of the axis, from 0
            (not at all) to 0.5; a slider under the chart changes it. The line never leaves the range of the recorded
            values next to it, which stay in the chart as a thin line.

    Raises:
        InvalidInput: no runs, one of them twice, a group without a run, or a wrong axis or smoothing.
        RunNotFound: with the nearest name.
        UnknownName: no run has such a metric; with the nearest name.
    """
    if axis not in COMPARE_AXES:
        raise UnknownName.among("axis", str(axis), COMPARE_AXES)
    if isinstance(smoothing, bool) or not isinstance(smoothing, (int, float)) or not 0 <= smoothing <= 0.5:
        raise OutOfBounds(f"smoothing={smoothing!r} is out of bounds: it must lie in [0, {LARGEST_SMOOTHING}], as a "
                          "share of the axis.")
    requested = differing.requested(runs)
    labelled = differing.named([run for _, run in requested])
    by_name = _with_metric(metric, labelled)
    groups = {name: group for (group, _), name in zip(requested, labelled, strict=True) if name in by_name}
    if lost := {repr(label): None for label, _ in requested if label not in groups.values()}:
        notify(f"So there is no run left in the group {', '.join(lost)}.")
    grouped = isinstance(runs, Mapping)
    lines = len(set(groups.values()) if grouped else groups)
    points = min(GROUP_POINTS if grouped else POINTS, max(2, ROWS // lines))
    curves = pd.concat([_curve(name, directory, metric, points) for name, directory in by_name.items()],
                       ignore_index=True)
    tunes, labels = _tunes(by_name, curves), tuple(by_name)
    if grouped:
        curves = _means(curves, groups, points)
        labels = tuple(curves["run"].unique())
        groups = {name: label for name, label in groups.items() if label in labels}
        tunes["run"] = tunes["run"].map(groups)
        tunes = tunes.dropna(subset="run")
    differences = differing.table(by_name, groups) if grouped else differing.table(labelled)
    return Comparison(metric, axis, float(smoothing), curves, tunes, differences, labels)


class Comparison:
    """Several runs side by side; shows itself in a notebook's cell.

    Attributes:
        metric: the compared metric.
        runs: names of the runs, or labels of the groups, in the chart.
        data: the chart's data: run, frames, updates, hours, share, value, and low and high of groups. If the metric has
            more rows than there are points, a point is the mean of equally many rows.
        differences: fields of the configuration that differ, with one column per run or group; a field that was
            tuned shows every value, and the frames at which it changed.
    """

    def __init__(
        self, metric: str, axis: str, smoothing: float, data: pd.DataFrame, tunes: pd.DataFrame,
        differences: pd.DataFrame, runs: tuple[str, ...],
    ) -> None:
        self.metric, self.data, self.differences, self.runs = metric, data, differences, runs
        self._axis, self._smoothing, self._tunes = axis, smoothing, tunes

    @cached_property
    def chart(self) -> alt.LayerChart:
        """The chart with its data and its controls (Vega parameters `smoothing` and `axis`): to restyle, to save."""
        return self._chart_of(self.data, self._tunes)

    def _chart_of(self, curves: Any, tunes: Any) -> alt.LayerChart:
        return compare_chart.chart(
            curves, tunes if len(self._tunes) else None, names=self.runs, metric=self.metric, axis=self._axis,
            smoothing=self._smoothing, title=self._title, bands=self._of_groups,
        )  # fmt: skip

    @property
    def _of_groups(self) -> bool:
        return "low" in self.data

    @property
    def _title(self) -> str:
        whose = f"{len(self.runs)} {'groups' if self._of_groups else 'runs'}" if len(self.runs) > 1 else self.runs[0]
        return f"{self.metric.replace('_', ' ').capitalize()} of {whose}"

    def save(self, path: str | Path) -> Path:
        """Writes the comparison and returns its path.

        Args:
            path: ends in .html (chart with its controls, and the differences; needs no internet), .png, .svg or .json
                (the Vega-Lite specification with its data).

        Raises InvalidInput for another ending, StorageFailed where it cannot be written.
        """
        target = Path(path).expanduser().absolute()
        if target.suffix not in _FORMATS:
            raise InvalidInput(f"{target.name!r} says no format. End it in one of {', '.join(_FORMATS)}.")
        written = self._as(target.suffix)
        with saving(target) as beside:
            beside.write_bytes(written)
        return target

    def _as(self, suffix: str) -> bytes:
        import vl_convert

        if suffix == ".png":
            return static_render.picture(self._spec(), scale=_SCALE)
        spec = static_render.drawable(self._spec())
        if suffix == ".svg":
            return str(vl_convert.vegalite_to_svg(spec)).encode()
        if suffix == ".json":
            return json.dumps(spec, indent=1).encode()
        return _page(self._title, spec, _html_table(self.differences)).encode()

    def _spec(self) -> dict[str, Any]:
        with alt.data_transformers.enable("default"):  # the notebook may have chosen another
            return dict(self.chart.to_dict())

    # --- in a notebook ------------------------------------------------------------------------------------------

    @cached_property
    def view(self) -> Any:
        """The widget: the chart, and the differences beside it; those of many runs below it."""
        import ipywidgets

        from workbench.widgets.charts.live import LiveCharts

        charts = LiveCharts(label=self._title)
        charts.show({"comparison": self._figure(self)})
        charts.layout = {"flex": "3 1 520px", "min_width": "0"}
        wide = max(320, 160 + 120 * len(self.differences.columns))  # px
        place = {"flex": f"1 1 {wide}px", "overflow": "auto", "margin": "0 0 0 12px"}
        beside = ipywidgets.HTML(_html_table(self.differences), layout=place, tabbable=True)  # it scrolls
        row = {"flex_flow": "row wrap", "align_items": "flex-start"}
        return ipywidgets.Box([charts, beside], layout=row).add_class("workbench-compare")

    def show_newer(self, newer: Comparison) -> None:
        """Draw the data of a later comparison of the same runs in this one's `view`."""
        self.view.children[0].show({"comparison": self._figure(newer)})

    def _figure(self, filled: Comparison) -> Any:
        """The chart of this comparison with the data of that one."""
        from workbench.widgets.charts.live import Figure

        tunes = {"tunes": _columns(filled._tunes)} if len(self._tunes) else {}
        return Figure(self._title, self._live_chart, {"curves": _columns(filled.data), **tunes}, wide=True)

    @cached_property
    def _live_chart(self) -> alt.LayerChart:
        return self._chart_of(alt.NamedData("curves"), alt.NamedData("tunes"))

    def still(self) -> dict[str, Any]:
        """The outputs for a saved notebook."""
        spec = self._spec() | {"config": static_render.theme()}
        image = base64.b64encode(static_render.picture(spec)).decode()
        chart = tables.picture(image, f"{self._title}: {', '.join(self.runs)}", "max-width:100%;width:760px")
        page = tables.output(f"{chart}{_html_table(self.differences)}", tables.SMALL)
        text = f"{self!r}\n{self.differences.map(str).to_string()}"  # pandas would write 1e-08 as 0.0
        return {"text/html": page, "image/png": image, "text/plain": text}

    def _ipython_display_(self) -> None:
        from workbench.widgets.kernel.saved_view import Shown

        with imports.meanwhile(f"{self._title}: drawing…"):
            Shown(self.view, self.still())

    def __repr__(self) -> str:
        fields = tables.counted(len(self.differences), "fields")
        return f"Comparison({self.metric} of {', '.join(self.runs)}: they differ in {fields})"


# --- curves -----------------------------------------------------------------------------------------------------------


def _with_metric(metric: Any, by_name: dict[str, RunDirectory]) -> dict[str, RunDirectory]:
    """The runs that have recorded the metric; says which have not. Raises UnknownName where none has."""
    if not isinstance(metric, str | Run | Path):
        raise InvalidInput(f"metric={metric!r:.100} must be the name of one, such as 'episode_return'.")
    metrics = {name: set(MetricsReader(directory.metrics).names()) for name, directory in by_name.items()}
    lacking = [name for name, names in metrics.items() if metric not in names]
    if len(lacking) < len(by_name):
        if lacking:
            notify(f"Left out: {', '.join(lacking)}, without {metric!r} so far.")
        return {name: directory for name, directory in by_name.items() if name not in lacking}
    if isinstance(metric, Run | Path) or metric in [directory.name for directory in rundir.every()]:
        raise UnknownName(f"unknown metric {metric!r:.100}: that is a run. Give several runs as a list: "
                          "wb.compare([run_a, run_b]).")
    empty = [name for name in lacking if not metrics[name]]
    hint = f"{', '.join(lacking)} {'does' if len(lacking) == 1 else 'do'} not have it."
    if empty:
        waits = any(lock.is_alive(by_name[name]) for name in empty)
        hint += f" Nothing was recorded by {', '.join(empty)}{': wait until it trains' if waits else ''}."
    raise UnknownName.among("metric", metric, set.union(*metrics.values()), f"{hint} run.metric_names lists a run's.",
                            SYNONYMS)


def _curve(name: str, directory: RunDirectory, metric: str, points: int) -> pd.DataFrame:
    series = MetricsReader(directory.metrics).means(metric, points=points)
    return pd.DataFrame({"run": name, "frames": series["frames"], "updates": series["updates"],
                         "hours": series["time_s"] / 3600, "share": series["frames"] / _last(series["frames"]),
                         "value": series["value"]})


def _last(frames: Any) -> float:
    """The frames at the end of a run, by which its shares are divided."""
    return float(max(frames.max(initial=0), 1))


def _tunes(by_name: dict[str, RunDirectory], curves: pd.DataFrame) -> pd.DataFrame:
    columns = ["run", "frames", "updates", "hours", "share", "message"]
    last = {name: _last(run["frames"].to_numpy()) for name, run in curves.groupby("run")}
    rows = [(name, event["frames"], event["updates"], event["time_s"] / 3600, event["frames"] / last.get(name, 1.0),
             event["message"])
            for name, directory in by_name.items() for event in MetricsReader(directory.metrics).events()
            if event["kind"] == "tune" and event["frames"] is not None]
    return pd.DataFrame(rows, columns=columns)


def _means(curves: pd.DataFrame, groups: Mapping[str, str], points: int) -> pd.DataFrame:
    """The curves of groups: at equal frames the mean, the lowest and the highest of their runs."""
    found = []
    for label, several in curves.groupby(curves["run"].map(groups), sort=False):
        runs = [run for _, run in several.groupby("run", sort=False)]
        first, last = (edge(run["frames"].iloc[at] for run in runs) for edge, at in ((max, 0), (min, -1)))
        if first > last:
            notify(f"Left out: {label}, whose runs have no frames in common, such as a run and its fork.")
            continue
        frames = np.unique(np.linspace(first, last, points))
        at_frames = {name: np.array([np.interp(frames, run["frames"], run[name]) for run in runs])
                     for name in ("updates", "hours", "share", "value")}
        value = at_frames["value"]
        found.append(pd.DataFrame({"run": label, "frames": frames} | {
            name: rows.mean(0) for name, rows in at_frames.items()} | {"low": value.min(0), "high": value.max(0)}))
    if not found:
        raise InvalidInput("no group has runs with frames in common. Compare the runs one by one: wb.compare([...]).")
    return pd.concat(found, ignore_index=True)


# --- how they look ----------------------------------------------------------------------------------------------------


def _columns(data: pd.DataFrame) -> dict[str, Any]:
    """The data as a table for LiveCharts."""
    return {name: data[name].astype(str).tolist() if name in ("run", "message") else data[name].to_numpy(float)
            for name in data.columns}


def _html_table(differences: pd.DataFrame) -> str:
    if differences.empty:
        return '<p class="workbench-compare-differences">Their configurations do not differ.</p>'
    cell = 'style="text-align:left;vertical-align:top;padding:2px 10px 2px 0"'
    head = "".join(f'<th scope="col" {cell}>{html.escape(str(name))}</th>' for name in ["", *differences.columns])
    body = "".join(
        f'<tr><th scope="row" {cell}>{html.escape(str(field))}</th>'
        + "".join(f"<td {cell}>{html.escape(tables.brief(value))}</td>" for value in row) + "</tr>"
        for field, row in zip(differences.index, differences.to_numpy(), strict=True)
    )
    caption = '<caption style="text-align:left;padding:4px 0;font-weight:bold">Differences in configuration</caption>'
    return (f'<table class="workbench-compare-differences" style="font-size:13px;line-height:1.4;'
            f'border-collapse:collapse">{caption}'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def _page(title: str, spec: dict[str, Any], table: str) -> str:
    """A self-contained page, with Vega inside."""
    import vl_convert

    vega = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub lacks the default
    plain = json.dumps(spec).replace("<", "\\u003c")  # so that no text in it ends the script
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>
<style>body {{ font: 14px sans-serif; margin: 1.5em; display: flex; flex-flow: row wrap; gap: 1.5em }}
.vega-bind {{ margin: .4em 0; font: 14px sans-serif }}</style>
<script>{vega}</script></head>
<body><div id="chart"></div>{table}
<script>vegaEmbed("#chart", {plain}, {{"renderer": "canvas"}});</script></body></html>
"""

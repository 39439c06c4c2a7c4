"""Which charts a run shows, and where: a chart is there once the run has recorded what it draws.

So an algorithm's panel follows from its metrics, and no chart is an empty box: those of the first row, which every
run has sooner or later, say what they wait for; the others come with their data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import altair as alt
import pandas as pd

from workbench.client.status import RunStatus
from workbench.rundir import RunDirectory
from workbench.widgets import charts, snapshot
from workbench.widgets.snapshot import Snapshot, number

LOSSES = {"loss": "total", "policy_loss": "policy", "baseline_loss": "baseline", "entropy_loss": "entropy"}
FIRST_ROW = (252, 130)  # width and height in px
OTHER_ROWS = {4: (169, 105), 3: (240, 105), 2: (252, 105), 1: (252, 105)}  # by charts in the row


@dataclass(frozen=True)
class Slot:
    """Place for one chart.

    Attributes:
        series, histograms: names in the run's metrics; the chart has something to show once it has one of them.
        draw: the chart of a snapshot that has.
        awaited: what it waits for, in words; None: the chart is left out until then.
    """

    title: str
    draw: Callable[[Snapshot, str], alt.TopLevelMixin]
    series: tuple[str, ...] = ()
    histograms: tuple[str, ...] = ()
    awaited: Callable[[Snapshot], str] | None = None

    def chart(self, now: Snapshot) -> alt.TopLevelMixin | None:
        """The chart, or one that says why there is nothing to see; None if it is left out."""
        known = any(len(_series(now, name)) for name in self.series)
        if known or any(name in now.histograms for name in self.histograms):
            return self.draw(now, self.title)
        return charts.nothing(self.awaited(now), title=self.title) if self.awaited else None


def read(directory: RunDirectory, *, status: RunStatus | None = None) -> Snapshot:
    """The run with all that its charts draw. Raises RunNotFound."""
    return snapshot.read(directory, status=status, series=SERIES, histograms=HISTOGRAMS)


def rows(now: Snapshot) -> list[list[alt.TopLevelMixin]]:
    """The charts of a run: a row of three, and rows of up to four below it."""
    above = [slot.chart(now) for slot in ABOVE]
    below = [chart for slot in BELOW if (chart := slot.chart(now))]
    if now.status.bottleneck:
        below.append(charts.bottleneck(now.status.bottleneck))
    found = [_sized([one for one in above if one], FIRST_ROW)]
    count = -(-len(below) // 4)
    for row in range(count):  # as equal as can be: nine charts are three rows of three
        part = below[row * len(below) // count : (row + 1) * len(below) // count]
        found.append(_sized(part, OTHER_ROWS[len(part)]))
    return found


def _sized(row: list[alt.TopLevelMixin], size: tuple[int, int]) -> list[alt.TopLevelMixin]:
    return [chart.properties(width=size[0], height=size[1]) for chart in row]


def _series(now: Snapshot, name: str) -> pd.DataFrame:
    return now.series.get(name, charts.EMPTY)


def _returns(now: Snapshot, title: str) -> alt.TopLevelMixin:
    each, mean, evaluation, evaluation_mean = (_series(now, name) for name in (
        "episode_return", "episode_return_mean", "evaluation_return", "evaluation_return_mean"))
    return charts.episode_returns(
        each, mean, now.events, evaluation=evaluation, evaluation_mean=evaluation_mean, title=title
    )


def _speed(now: Snapshot, title: str) -> alt.TopLevelMixin:
    series = {"frames/s": _series(now, "frames_per_second"), "steps/s": _series(now, "steps_per_second")}
    return charts.lines(series, title=title, zero=True)


def _losses(now: Snapshot, title: str) -> alt.TopLevelMixin:
    """A loss and its parts; or, on a logarithmic axis, a loss and the TD errors, which are of another size."""
    if len(errors := _series(now, "td_error")):
        series = {"loss": _series(now, "loss"), "TD error": errors}
        return charts.lines(series, title="Loss and TD error", log=True)
    return charts.lines({label: _series(now, name) for name, label in LOSSES.items()}, title=title)


def _line(name: str, label: str, **how: bool) -> Callable[[Snapshot, str], alt.TopLevelMixin]:
    return lambda now, title: charts.lines({label: _series(now, name)}, title=title, **how)


def _replay_ratio(now: Snapshot, title: str) -> alt.TopLevelMixin:
    series = {"measured": _series(now, "replay_ratio")}
    return charts.lines(series, title=title, zero=True, asked=now.config.value("replay_ratio"))


def _histogram(name: str, x: str) -> Callable[[Snapshot, str], alt.TopLevelMixin]:
    return lambda now, title: charts.histogram(*now.histograms[name], title=title, x=x)


def _before_losses(now: Snapshot) -> str:
    if "replay_min_size" not in now.config.all_settings():
        return "no update yet"
    first = min(now.config.value("replay_min_size"), now.status.replay_capacity or float("inf"))
    return f"no update before the replay holds {number(first)} unrolls"


ABOVE = (
    Slot("Episode return", _returns, awaited=lambda now: "no episode has ended yet",
         series=("episode_return", "episode_return_mean", "evaluation_return", "evaluation_return_mean")),
    Slot("Speed", _speed, ("frames_per_second", "steps_per_second"), awaited=lambda now: "nothing was measured yet"),
    Slot("Losses", _losses, ("td_error", *LOSSES), awaited=_before_losses),
)
BELOW = (
    Slot("Policy entropy (nats)", _line("entropy", "entropy"), ("entropy",)),
    Slot("Q-value of actions taken", _line("q_value", "Q-value"), ("q_value",)),
    Slot("Replay fill", _line("replay_fill", "fill", share=True), ("replay_fill",)),
    Slot("Replay ratio", _replay_ratio, ("replay_ratio",)),
    Slot("TD error", _histogram("td_error", "size |δ| of the error of a step"), histograms=("td_error",)),
    Slot("Priorities", _histogram("priority", "priority of an unroll in the replay"), histograms=("priority",)),
    Slot("Age of samples", _histogram("sample_age", "steps between arrival and use"), histograms=("sample_age",)),
    Slot("Learning rate", _line("learning_rate", "learning rate", log=True, stepped=True), ("learning_rate",)),
    Slot("Policy lag", _histogram("policy_lag", "updates between acting and learning"), histograms=("policy_lag",)),
)
SERIES = tuple(name for slot in (*ABOVE, *BELOW) for name in slot.series)
HISTOGRAMS = tuple(name for slot in BELOW for name in slot.histograms)

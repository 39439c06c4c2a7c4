"""The figures of a run and their order. A chart is shown once the run has recorded the metrics that it draws.

So an algorithm's panel follows from its metrics, and no chart is an empty box. The first charts, which every run gets
sooner or later, say until then what they wait for. Under them is the strip of events; the rest is in groups that a
person opens. All charts of time have the same ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from workbench.metrics import History
from workbench.metrics.flights import STAGES
from workbench.metrics.meanings import described
from workbench.metrics.status import NO_END_YET, RunStatus, without_end
from workbench.rundir import RunDirectory
from workbench.tables import number
from workbench.widgets.charts import charts
from workbench.widgets.charts.axes import Axis, Series, along
from workbench.widgets.charts.live import Figure
from workbench.widgets.charts.marks import event_table, spanning
from workbench.widgets.panel import snapshot
from workbench.widgets.panel.snapshot import Snapshot

LOSSES = {"loss": "total", "policy_loss": "policy", "baseline_loss": "baseline", "entropy_loss": "entropy",
          "temperature_loss": "temperature"}
RETURNS = ("episode_return", "episode_return_mean", "evaluation_return", "evaluation_return_mean")
SCORES = tuple(name.replace("return", "score") for name in RETURNS)  # beside rewards that are shaped
Draw = Callable[[Snapshot, str, Axis], Figure | None]


@dataclass(frozen=True)
class Slot:
    """Place for one chart.

    Attributes:
        series, histograms: names in the run's metrics; one of them is enough to draw the chart. Without any, `draw`
            itself says by None whether there is something to draw.
        draw: draws the figure of a snapshot that has one of them.
        awaited: says what the chart waits for; None, or "" from it: the chart is left out until then.
        group: heading of the section that a person opens to see the chart; "": always shown.
    """

    title: str
    draw: Draw
    series: tuple[str, ...] = ()
    histograms: tuple[str, ...] = ()
    awaited: Callable[[Snapshot], str] | None = None
    group: str = ""

    def figure(self, now: Snapshot, axis: Axis) -> Figure | None:
        """The figure, or an empty one with the reason; None if the chart is left out."""
        names = (*self.series, *self.histograms)
        if not names or any(name in now.series or name in now.histograms for name in names):
            return self.draw(now, self.title, axis)
        if self.awaited is None or not (reason := self.awaited(now)):
            return None
        return charts.nothing(reason, title=self.title, wide=self.draw is _returns)


def read(directory: RunDirectory, *, status: RunStatus | None = None, history: History | None = None) -> Snapshot:
    """The run with everything that its charts draw; `history` as in `snapshot.read`. Raises RunNotFound."""
    config = directory.config()
    series = _AndOwn(type(config.hyperparameters)) if config.own_algorithm else SERIES
    return snapshot.read(directory, status=status, series=series, histograms=HISTOGRAMS, history=history)


def figures(now: Snapshot, *, axis: Axis = "frames") -> dict[str, Figure]:
    """The charts of a run over an axis of time, by key, in display order."""
    span = spanning(_ends(now, axis))
    drawn = {key: figure for key, slot in SLOTS.items() if (figure := _figure(slot, now, axis)) is not None}
    return {key: replace(figure, group=SLOTS[key].group,
                         tables={**figure.tables, **({"span": span} if over_time(figure) else {})})
            for key, figure in drawn.items()}


def over_time(figure: Figure) -> bool:
    """Whether the figure's x axis is the common one."""
    return "span" in figure.tables


def _ends(now: Snapshot, axis: Axis) -> tuple[float, float] | None:
    """The ends of the common axis: of all that is drawn over it."""
    places = [along(rows, axis) for rows in now.series.values()] + [event_table(now.events, axis)["x"]]
    finite = np.concatenate([place[np.isfinite(place)] for place in places])
    return (float(finite.min()), float(finite.max())) if len(finite) else None


def _figure(slot: Slot, now: Snapshot, axis: Axis) -> Figure | None:
    try:
        return slot.figure(now, axis)
    except Exception as error:  # an error in one chart must not hide the others
        return charts.nothing(f"cannot be drawn: {error}", title=slot.title, wide=slot.draw is _returns)


def _series(now: Snapshot, name: str) -> Series:
    return now.series.get(name, charts.EMPTY)


def _returns(
    now: Snapshot, title: str, axis: Axis, *, names: tuple[str, ...] = RETURNS, wide: bool = True, what: str = "return"
) -> Figure:
    each, mean, evaluation, evaluation_mean = (_series(now, name) for name in names)
    return charts.episode_returns(each, mean, evaluation=evaluation, evaluation_mean=evaluation_mean,
                                  title=title, axis=axis, wide=wide, what=what)


def _losses(now: Snapshot, title: str, axis: Axis) -> Figure | None:
    """A loss and its parts; or, on a logarithmic axis, a loss of values and the TD errors, whose magnitude differs."""
    if "td_error" in now.series:
        of_values = "critic_loss" if "critic_loss" in now.series else "loss"
        series = {"loss": _series(now, of_values), "TD error": now.series["td_error"]}
        return charts.lines(series, title="Loss and TD error", axis=axis, log=True)
    return _lines(LOSSES)(now, title, axis)


def _lines(labels: dict[str, str], **how: bool) -> Draw:
    """Draws lines of the recorded metrics; `labels` has the label of each metric."""

    def draw(now: Snapshot, title: str, axis: Axis) -> Figure:
        series = {label: now.series[name] for name, label in labels.items() if name in now.series}
        return charts.lines(series, title=title, axis=axis, **how)

    return draw


def _speed(now: Snapshot, title: str, axis: Axis) -> Figure | None:
    """Lines of frames and steps per second; one line where each step is one frame."""
    if now.status.steps_are_frames and "frames_per_second" in now.series:
        series = {"frames/s = steps/s": now.series["frames_per_second"]}
        return charts.lines(series, title=f"{title} (frames/s = steps/s)", axis=axis, zero=True)
    return _lines(SPEEDS, zero=True)(now, title, axis)


def _life(now: Snapshot, title: str, axis: Axis) -> Figure:
    """The stages as they were last measured."""
    seconds = {stage: float(now.series[name]["value"][-1]) for name, stage in LIFE.items() if name in now.series}
    return charts.life(seconds, title=title)


def _memory(now: Snapshot, title: str, axis: Axis) -> Figure:
    """Lines of memory, without a line of an accelerator that the run does not have."""
    series = {label: now.series[name] for name, label in MEMORY.items()
              if name in now.series and (now.series[name]["value"] > 0).any()}
    return charts.lines(series or {"learner": charts.EMPTY}, title=title, axis=axis, zero=True)


def _replay_ratio(now: Snapshot, title: str, axis: Axis) -> Figure:
    series = {"measured": _series(now, "replay_ratio")}
    return charts.lines(series, title=title, axis=axis, zero=True, asked=now.config.value("replay_ratio"))


def _histogram(name: str, x: str) -> Draw:
    return lambda now, title, axis: charts.histogram(*now.histograms[name], title=title, x=x)


def _before_returns(now: Snapshot) -> str:
    long = without_end(
        steps=now.status.steps, episodes=now.status.episodes, environments=now.config.environments())
    return long or NO_END_YET


def _before_losses(now: Snapshot) -> str:
    if "replay_min_size" not in now.config.all_settings():
        return "no update yet"
    first = min(now.config.value("replay_min_size"), now.status.replay_capacity or float("inf"))
    return f"no update before the replay holds {number(first)} unrolls"


def _before_policy(now: Snapshot, *, of_values: bool) -> str:
    """What the chart of the policy waits for in a run that has no update yet; a run with a replay learns values."""
    has_replay = "replay_min_size" in now.config.all_settings()
    return _before_losses(now) if of_values == has_replay and "loss" not in now.series else ""


def _events(now: Snapshot, title: str, axis: Axis) -> Figure:
    """The strip of events, which is there from the beginning."""
    return charts.events_strip(now.events, title=title, axis=axis)


def _bottleneck(now: Snapshot, title: str, axis: Axis) -> Figure | None:
    """The shares of time, which come from the status and not from the metrics."""
    shares = now.status.bottleneck
    if not shares:
        return None
    stands = now.status.alive and now.status.state != "training"
    if stands or not any(shares.values()):
        return charts.nothing(f"the run is {now.status.state}" if stands else "no measurement yet", title=title)
    return charts.bottleneck(shares, title=title)


class _AndOwn:
    """The names of all metrics that a panel of a user's own algorithm draws: SERIES, and what the algorithm says.

    Args:
        config: of its hyperparameters.
    """

    def __init__(self, config: type) -> None:
        self._of_every = described(config.__mro__[1])

    def __contains__(self, name: object) -> bool:
        return name in SERIES or name not in self._of_every


def _own(now: Snapshot, title: str, axis: Axis) -> Figure | None:
    """What an algorithm that a user wrote says of itself, beyond what other charts show."""
    own = {name: rows for name, rows in now.series.items() if name not in SERIES}
    return charts.lines(own, title=title, axis=axis) if own else None


def _of(title: str, labels: dict[str, str], *, group: str = "", **how: bool) -> Slot:
    return Slot(title, _lines(labels, **how), tuple(labels), group=group)


def _shape(title: str, name: str, x: str) -> Slot:
    return Slot(title, _histogram(name, x), histograms=(name,), group=LEARNING)


LEARNING, SYSTEM = "Learning", "System"
SPEEDS = {"frames_per_second": "frames/s", "steps_per_second": "steps/s"}
WAITS = {"batch_wait_ms": "batch wait", "inference_ms": "inference", "update_ms": "update"}
LIFE = {f"life_{stage}_s": stage for stage in STAGES}
MEMORY = {"accelerator_memory_gb": "accelerator", "learner_memory_gb": "learner", "memory_gb": "machine"}
SLOTS = {
    "returns": Slot("Episode return", _returns, RETURNS, awaited=_before_returns),
    "scores": Slot("Episode score", partial(_returns, names=SCORES, wide=False, what="score"), SCORES),
    "speed": Slot("Speed", _speed, tuple(SPEEDS), awaited=lambda now: "no measurement yet"),
    "losses": Slot("Losses", _losses, ("td_error", *LOSSES), awaited=_before_losses),
    "entropy": Slot("Policy entropy (nats)", _lines({"entropy": "entropy"}), ("entropy",),
                    awaited=partial(_before_policy, of_values=False)),
    "q_value": Slot("Q-value of actions taken", _lines({"q_value": "Q-value"}), ("q_value",),
                    awaited=partial(_before_policy, of_values=True)),
    "own": Slot("Your algorithm", _own),
    "events": Slot("Events", _events),
    "policy_lag": _shape("Policy lag", "policy_lag", "updates between acting and learning"),
    "learning_rate": _of("Learning rate", {"learning_rate": "learning rate"}, log=True, stepped=True, group=LEARNING),
    "kl": _of("KL to the acting policy (nats)", {"kl": "KL"}, zero=True, group=LEARNING),
    "clip_fraction": _of("Ratios beyond the clip", {"clip_fraction": "share"}, share=True, group=LEARNING),
    "temperature": _of("Temperature", {"temperature": "temperature"}, log=True, group=LEARNING),
    "replay_fill": _of("Replay fill", {"replay_fill": "fill"}, share=True, group=LEARNING),
    "replay_ratio": Slot("Replay ratio", _replay_ratio, ("replay_ratio",), group=LEARNING),
    "td_error": _shape("TD error", "td_error", "size |δ| of the error of a step"),
    "priority": _shape("Priorities", "priority", "priority of an unroll in the replay"),
    "sample_age": _shape("Age of samples", "sample_age", "steps between arrival and use"),
    "bottleneck": Slot("Where the time goes", _bottleneck, group=SYSTEM),
    "life": Slot("An observation's life", _life, tuple(LIFE), group=SYSTEM),
    "batches": _of("Batch and queue fill", {"batch_fill": "batch", "queue_occupancy": "queue"}, share=True,
                   group=SYSTEM),
    "waits": _of("Batch wait and work (ms)", WAITS, log=True, group=SYSTEM),
    "memory": Slot("Memory (GiB)", _memory, tuple(MEMORY), group=SYSTEM),
}
SERIES = frozenset(name for slot in SLOTS.values() for name in slot.series)
HISTOGRAMS = tuple(name for slot in SLOTS.values() for name in slot.histograms)

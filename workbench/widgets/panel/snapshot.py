"""What a panel knows of a run at one moment, read from the run's directory alone, and said in words.

Works while the run trains and long after it is dead: all but a fresher status comes from run.json and metrics.sqlite.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.config import RunConfig
from workbench.metrics import History
from workbench.rundir import RunDirectory
from workbench.running.connection import stored_status
from workbench.running.status import RunStatus
from workbench.supervisor import stopping_rules
from workbench.widgets.charts.axes import Series

LATEST_EVENTS = 300
LATEST_CHECKPOINTS = 100  # of the events; there is one every few minutes
SILENT_S = 15.0  # the learner writes its status every second


@dataclass(frozen=True)
class Snapshot:
    """One moment of a run.

    Attributes:
        status: the last known one, from files.
        hint: one sentence on what the learner waits for.
        series: per metric arrays frames, steps, updates, time_s, value.
        histograms: per distribution its edges and counts.
        events: the latest, oldest first.
    """

    name: str
    config: RunConfig
    status: RunStatus
    hint: str = ""
    series: Mapping[str, Series] = field(default_factory=dict)
    histograms: Mapping[str, tuple[Sequence[float], Sequence[float]]] = field(default_factory=dict)
    events: Sequence[Mapping[str, Any]] = ()

    @property
    def ended(self) -> bool:
        return not self.status.alive


def read(
    directory: RunDirectory, *, status: RunStatus | None = None, series: Collection[str] = (),
    histograms: Collection[str] = (), history: History | None = None,
) -> Snapshot:
    """The run as its directory shows it. Raises RunNotFound.

    Args:
        status: what the run itself said just now, if it could be asked.
        series, histograms: names of metrics to read; those that the run has not recorded are left out.
        history: of this run, kept by the caller from one look to the next, so that only new rows are read.
    """
    history = history or History(directory.metrics)
    reader = history.reader
    kept, _ = reader.status() or ({}, 0.0)
    bins = {name: found for name in histograms if (found := reader.distribution(name)) and found["counts"].any()}
    return Snapshot(
        directory.name, directory.config(), status or stored_status(directory), hint=kept.get("hint", ""),
        series=history.series(series) if series else {},
        histograms={name: (found["edges"], found["counts"]) for name, found in bins.items()},
        events=_latest(history.events()),
    )


def _latest(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    saved = [one["id"] for one in events if one["kind"] == "checkpoint"]
    first = saved[-LATEST_CHECKPOINTS] if len(saved) > LATEST_CHECKPOINTS else 0
    return [one for one in events if one["kind"] != "checkpoint" or one["id"] >= first][-LATEST_EVENTS:]


def sentence(snapshot: Snapshot) -> str:
    """Progress and speed in plain language, in one line."""
    status, total = snapshot.status, snapshot.config.total_frames
    parts = [f"{number(status.frames)} of {number(total)} frames ({status.frames / total:.1%})"]
    if status.state == "training" and status.speed:
        parts.append(status.speed)
    parts.append(f"{number(status.episodes)} episodes")
    if status.episode_return is not None:
        parts.append(f"mean return {number(status.episode_return)}{_score(status.episode_score)}")
    if status.evaluation_return is not None:
        parts.append(f"evaluation {number(status.evaluation_return)}{_score(status.evaluation_score)}")
    if status.policy_lag is not None:
        lag = f"{status.policy_lag:.1f}" if status.policy_lag < 100 else number(status.policy_lag)
        parts.append(f"policy lag {lag} updates")
    if status.replay:
        parts.append(f"replay {status.replay}")
    if (left := seconds_left(snapshot)) is not None:
        parts.append(f"about {duration(left)} left")
    return " · ".join([*parts, *stopping_rules.spent(snapshot.config, vars(status))])


def _score(score: float | None) -> str:
    return "" if score is None else f" (score {number(score)})"


def reason(snapshot: Snapshot) -> str:
    """Why the run is in its state, or what holds it up; "" if nothing is to be said."""
    status = snapshot.status
    if status.error:
        return status.error.strip().splitlines()[0]
    said = [status.reason, status.warning]
    if status.state == "training":
        said.append(f"no news from the learner for {duration(status.age_s)}" if status.age_s > SILENT_S
                    else snapshot.hint)
    return " · ".join(one for one in said if one)


def seconds_left(snapshot: Snapshot) -> float | None:
    """Seconds until frames, hours or money are used up at the present speed; None if it does not move."""
    return stopping_rules.seconds_left(snapshot.config, vars(snapshot.status))


def facts(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Name and value of what a reader of a saved notebook wants to know."""
    status, config = snapshot.status, snapshot.config
    rows = [
        ("environment", config.environment), ("algorithm", config.algorithm),
        ("frames", f"{number(status.frames)} of {number(config.total_frames)}"),
        ("steps", number(status.steps)), ("updates", number(status.updates)),
        ("speed", status.speed),
        ("episodes", number(status.episodes)), ("training time", duration(status.time_s)),
        ("device", f"{status.device} {status.precision}".strip()),
    ]
    if status.episode_return is not None:
        rows.append(("mean return", number(status.episode_return)))
    if status.episode_score is not None:
        rows.append(("mean score", number(status.episode_score)))
    if status.evaluation_return is not None:
        of = f" ({number(status.evaluation_episodes)} episodes)" if status.evaluation_episodes else ""
        rows.append(("evaluation", f"{number(status.evaluation_return)}{of}"))
    if status.evaluation_score is not None:
        rows.append(("evaluation score", number(status.evaluation_score)))
    rows.append(("replay", status.replay))
    return [(name, value) for name, value in rows if value]


def number(value: float) -> str:
    """A number as people read it: 950, 12,400, 1.25 M."""
    value = float(value)
    if abs(value) >= 1e6:
        return f"{value / 1e6:,.4g} M" if abs(value) < 1e9 else f"{value / 1e9:,.4g} G"
    return f"{value:,.0f}" if abs(value) >= 100 or value.is_integer() else f"{value:.3g}"


def duration(seconds: float) -> str:
    """A time as people say it: 12 s, 3 min, 4 h 10 min, 2 d 3 h."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


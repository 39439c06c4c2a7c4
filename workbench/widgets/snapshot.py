"""What a panel knows of a run at one moment, read from the run's directory alone, and said in words.

Works while the run trains and long after it is dead: everything comes from run.json and metrics.sqlite.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt
import pandas as pd

from workbench.config import RunConfig
from workbench.metrics import MetricsReader
from workbench.rundir import RunDirectory
from workbench.widgets import charts
from workbench.widgets.charts import Ink

ENDED = frozenset({"stopped", "finished", "failed", "dead"})
LOSSES = {"loss": "total", "policy_loss": "policy", "baseline_loss": "baseline", "entropy_loss": "entropy"}
SCALARS = ("frames_per_second", "steps_per_second", "episode_return", "episode_return_mean", "entropy",
           "learning_rate", *LOSSES)
MOST_ROWS = 2000  # read per series; charts thin them further
LATEST_EVENTS = 200


@dataclass(frozen=True)
class Snapshot:
    """One moment of a run.

    Attributes:
        state: starting, training, paused, stopping, stopped, finished, failed or dead.
        status: the learner's last known status; {} before the first.
        age_s: seconds since that status was written; None before the first.
        series: per metric a frame of frames, steps, updates, time_s, value.
        policy_lag: edges and counts of the policy lag, in updates; None before the first update.
    """

    name: str
    config: RunConfig
    state: str
    error: str | None
    status: Mapping[str, Any]
    age_s: float | None
    series: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    policy_lag: tuple[Sequence[float], Sequence[float]] | None = None
    events: Sequence[Mapping[str, Any]] = ()

    @property
    def ended(self) -> bool:
        return self.state in ENDED


def read(directory: RunDirectory, *, state: str | None = None, series: bool = True) -> Snapshot:
    """The run as its directory shows it. `state` overrides run.json's; `series=False` leaves out what charts need."""
    record = directory.read()
    error = record.get("error") or {}
    known: dict[str, Any] = {}
    if directory.metrics.exists():
        known = _stored(MetricsReader(directory.metrics), series=series)
    return Snapshot(
        name=directory.name, config=RunConfig.from_json(record["config"]), state=state or record["state"],
        error=error.get("message"), **{"status": {}, "age_s": None, **known},
    )


def _stored(reader: MetricsReader, *, series: bool) -> dict[str, Any]:
    status, written = reader.status() or ({}, None)
    known: dict[str, Any] = {
        "status": status, "age_s": None if written is None else max(0.0, time.time() - written),
        "events": reader.events()[-LATEST_EVENTS:],
    }
    if series:
        known["series"] = {name: pd.DataFrame(reader.series(name, max_points=MOST_ROWS)) for name in SCALARS}
        lag = reader.distribution("policy_lag")
        known["policy_lag"] = (lag["edges"], lag["counts"]) if lag else None
    return known


def sentence(snapshot: Snapshot) -> str:
    """State, progress and speed in plain language, in one line."""
    status, total = snapshot.status, snapshot.config.total_frames
    frames = int(status.get("frames", 0))
    parts = [f"{number(frames)} of {number(total)} frames ({frames / total:.1%})"]
    if snapshot.state == "training":
        parts.append(f"{number(status.get('frames_per_second', 0))} frames/s, "
                     f"{number(status.get('steps_per_second', 0))} steps/s")
    parts.append(f"{number(status.get('episodes', 0))} episodes")
    if status.get("episode_return") is not None:
        parts.append(f"mean return {status['episode_return']:.4g}")
    if status.get("policy_lag") is not None:
        parts.append(f"policy lag {status['policy_lag']:.3g} updates")
    if (left := seconds_left(snapshot)) is not None:
        parts.append(f"about {duration(left)} left")
    return " · ".join(parts)


def reason(snapshot: Snapshot) -> str:
    """Why the run is in its state, or what is wrong with it; "" if nothing is to be said."""
    if snapshot.error:
        return snapshot.error.strip().splitlines()[0]
    if snapshot.state == "dead":
        return f"Its supervisor is gone. Continue it with wb.resume({snapshot.name!r})."
    keys = ("reason", "warning", "hint") if snapshot.state == "training" else ("reason", "warning")
    said = [str(snapshot.status[key]) for key in keys if snapshot.status.get(key)]
    if snapshot.state == "training" and (snapshot.age_s or 0) > 15:
        said.append(f"No news from the learner for {duration(snapshot.age_s or 0)}.")
    return " · ".join(said)


def seconds_left(snapshot: Snapshot) -> float | None:
    """Seconds until total_frames at the present speed; None if it does not move."""
    speed = float(snapshot.status.get("frames_per_second") or 0)
    if snapshot.state != "training" or speed <= 0:
        return None
    return max(0.0, (snapshot.config.total_frames - float(snapshot.status["frames"])) / speed)


def facts(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Name and value of what a reader of a saved notebook wants to know."""
    status, config = snapshot.status, snapshot.config
    rows = [
        ("environment", config.environment), ("algorithm", config.algorithm), ("state", snapshot.state),
        ("frames", f"{number(status.get('frames', 0))} of {number(config.total_frames)}"),
        ("steps", number(status.get("steps", 0))), ("updates", number(status.get("updates", 0))),
        ("speed", f"{number(status.get('frames_per_second', 0))} frames/s, "
                  f"{number(status.get('steps_per_second', 0))} steps/s"),
        ("episodes", number(status.get("episodes", 0))),
    ]
    if status.get("episode_return") is not None:
        rows.append(("mean return", f"{status['episode_return']:.4g}"))
    if status.get("time_s") is not None:
        rows.append(("training time", duration(status["time_s"])))
    if status.get("device"):
        rows.append(("device", f"{status['device']} {status.get('precision', '')}".strip()))
    return rows


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


def dashboard(snapshot: Snapshot, *, ink: Ink) -> alt.TopLevelMixin:
    """All charts of a run in one, about 960 px wide."""
    empty = pd.DataFrame({"frames": [], "value": []})
    series = {name: snapshot.series.get(name, empty) for name in SCALARS}
    speeds = {"frames/s": series["frames_per_second"], "steps/s": series["steps_per_second"]}
    losses = {label: series[name] for name, label in LOSSES.items()}
    returns = charts.episode_returns(series["episode_return"], series["episode_return_mean"])
    top = [charts.with_events(returns, snapshot.events), charts.lines(speeds, title="Speed", zero=True),
           charts.lines(losses, title="Losses")]
    edges, counts = snapshot.policy_lag or ((0.0, 1.0), (0,))
    below = [
        charts.lines({"entropy": series["entropy"]}, title="Policy entropy (nats)"),
        charts.lines({"learning rate": series["learning_rate"]}, title="Learning rate", log=True),
        charts.histogram(edges, counts, title="Policy lag", x="updates between acting and learning"),
        charts.bottleneck(snapshot.status.get("bottleneck") or {}),
    ]
    rows = [alt.hconcat(*(one.properties(width=252, height=130) for one in top), spacing=20),
            alt.hconcat(*(one.properties(width=168, height=105) for one in below), spacing=20)]
    rows = [row.resolve_scale(color="independent") for row in rows]
    return charts.themed(alt.vconcat(*rows, spacing=14).resolve_scale(color="independent"), ink)

"""The state of a run at one moment, as a panel shows it, and descriptions of it in words.

It is read from run.json and metrics.sqlite, so it is the same for a run that is dead. A caller may add a newer status.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.config import RunConfig
from workbench.metrics import History
from workbench.metrics.status import RunStatus
from workbench.metrics.status_facts import FACTS
from workbench.rundir import RunDirectory
from workbench.running.connection import stored_status
from workbench.supervisor import stopping_rules
from workbench.tables import duration, number
from workbench.widgets.charts.axes import Series

LATEST_EVENTS = 300
LATEST_CHECKPOINTS = 100  # of the events; there is one every few minutes
SILENT_S = 15.0  # the learner writes its status every second
MEANS = ("episode_return", "episode_score", "evaluation_return", "evaluation_score")
_IN_SENTENCE = ("episodes", "episode_return", "evaluation_return", "policy_lag", "replay")
_SAVED = ("steps", "updates", "speed", "episodes", *MEANS, "policy_lag", "replay", "time_s", "device",
          "compiler")


@dataclass(frozen=True)
class Snapshot:
    """One moment of a run.

    Attributes:
        status: the last known status.
        series: by metric, the arrays frames, steps, updates, time_s and value.
        histograms: by distribution, its edges and counts.
        events: the latest events, oldest first.
    """

    name: str
    config: RunConfig
    status: RunStatus
    series: Mapping[str, Series] = field(default_factory=dict)
    histograms: Mapping[str, tuple[Sequence[float], Sequence[float]]] = field(default_factory=dict)
    events: Sequence[Mapping[str, Any]] = ()

    @property
    def ended(self) -> bool:
        return not self.status.alive


def read(
    directory: RunDirectory, *, status: RunStatus | None = None, series: Container[str] = (),
    histograms: Collection[str] = (), history: History | None = None,
) -> Snapshot:
    """The snapshot of a run, from its directory. Raises RunNotFound.

    Args:
        status: the run's own answer, where it is newer than its files.
        series, histograms: names of metrics to read; metrics that the run has not recorded are left out.
        history: of this run; a caller that reads repeatedly passes the same one, so that only new rows are read.
    """
    history = history or History(directory.metrics)
    rows = {name: history.reader.distribution(name) for name in histograms}
    return Snapshot(
        directory.name, directory.config(), status or stored_status(directory),
        series=history.series(series) if series else {},
        histograms={name: (row["edges"], row["counts"]) for name, row in rows.items() if row and row["counts"].any()},
        events=_latest(history.events()),
    )


def _latest(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    checkpoints = [event["id"] for event in events if event["kind"] == "checkpoint"]
    first = checkpoints[-LATEST_CHECKPOINTS] if len(checkpoints) > LATEST_CHECKPOINTS else 0
    return [event for event in events if event["kind"] != "checkpoint" or event["id"] >= first][-LATEST_EVENTS:]


def progress(snapshot: Snapshot) -> str:
    """The frames so far and their share, such as "1.2 M of 10 M frames (12.0%)"."""
    frames, total, fact = snapshot.status.frames, snapshot.config.total_frames, FACTS["frames"]
    return f"{fact.written(frames, number)} of {fact.written(total, number, unit=True)} ({frames / total:.1%})"


def sentence(snapshot: Snapshot) -> str:
    """Progress and speed in plain language, in one line."""
    status = snapshot.status
    parts = [
        progress(snapshot),
        status.speed if status.state == "training" else "",
        *(FACTS[name].said(status, number) for name in _IN_SENTENCE),
        status.collapse_in(number),
        status.left,
        *stopping_rules.spent(snapshot.config, status),
    ]
    return " · ".join(part for part in parts if part)


def reason(snapshot: Snapshot) -> str:
    """Why the run is in its state, or what is wrong with it; "" without a reason."""
    status = snapshot.status
    if status.error:
        return status.error.strip().splitlines()[0]
    return " · ".join(part for part in (status.reason, status.warning, silence(snapshot)) if part)


def silence(snapshot: Snapshot) -> str:
    """Since when nothing is known of a run that should write its status each second; "": it does, or has ended."""
    status = snapshot.status
    whose = "learner" if status.state == "training" else "run"
    silent = status.alive and status.age_s > SILENT_S
    return f"no news from the {whose} for {duration(status.age_s)}" if silent else ""


def remedy(snapshot: Snapshot) -> tuple[str, str] | None:
    """What brings back a run that has gone or is silent, and its line to copy; None: it goes on, or is done."""
    name, state = snapshot.name, snapshot.status.state
    if silence(snapshot):
        return "If it stays silent, this ends it, and wb.resume goes on from its newest checkpoint", (
            f"wb.attach({name!r}).stop()")
    if state in ("stopped", "failed", "dead"):
        return "To continue it", f"wb.resume({name!r})"
    return None


def facts(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Names and values for a reader of a saved notebook."""
    status, config, frames = snapshot.status, snapshot.config, FACTS["frames"]
    pairs = [(FACTS[name].named(status), FACTS[name].shown(status, number)) for name in _SAVED]
    return [("environment", config.environment), ("algorithm", config.algorithm),
            (frames.title, f"{frames.shown(status, number)} of {frames.written(config.total_frames, number)}"),
            *((name, value) for name, value in pairs if value)]

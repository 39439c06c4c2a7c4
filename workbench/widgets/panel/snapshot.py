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
from workbench.running.status import FACTS, RunStatus
from workbench.supervisor import stopping_rules
from workbench.tables import duration, number
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
    parts = [
        f"{number(status.frames)} of {number(total)} frames ({status.frames / total:.1%})",
        status.speed if status.state == "training" else "",
        f"{number(status.episodes)} episodes",
        *status.returns(number),
        "" if status.policy_lag is None else f"policy lag {number(status.policy_lag)} updates",
        f"replay {status.replay}" if status.replay else "",
        status.left,
        *stopping_rules.spent(snapshot.config, vars(status)),
    ]
    return " · ".join(part for part in parts if part)


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


def facts(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Name and value of what a reader of a saved notebook wants to know."""
    status, config = snapshot.status, snapshot.config
    known = [(fact.named(status), fact.shown(status, number)) for name, fact in FACTS.items()
             if name not in ("frames", "memory")]
    return [("environment", config.environment), ("algorithm", config.algorithm),
            ("frames", f"{number(status.frames)} of {number(config.total_frames)}"),
            *((name, value) for name, value in known if value)]

"""Where an observation spends its life: a sample of observations, with the time of each stage from step to training."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workbench.tables import SMALL, Table, output


class Kind(NamedTuple):
    """What a stage is called, and what happens in it; `waits`: nothing happens to the observation."""

    label: str
    meaning: str
    waits: bool = False


STAGES = {  # in the order in which an observation passes them
    "step": Kind("environment", "its actor steps the environments of its group"),
    "wait": Kind("batch wait", "until inference begins; with shared memory, the way to the learner as well", True),
    "inference": Kind("inference", "until the actions of its batch have left"),
    "wire": Kind("wire", "messages on their way, and actions that wait while the actor steps another group"),
    "unroll": Kind("unroll fills", "until the last step of its unroll", True),
    "queue": Kind("in the queue", "the finished unroll waits for training; with replay, until it is inserted", True),
    "training": Kind("training", "from the batch's collation to the end of its first update; on XLA and a TPU, until "
                     "the device is given that"),
}


class Flight(NamedTuple):
    """One observation's life.

    Attributes:
        env: number of its environment in the run.
        learner: rank of its learner.
        born_s: when its environment's step began, in seconds after the first flight of that learner.
        seconds: of each stage, by the names of STAGES; without training where a replay keeps the unroll.
    """

    env: int
    learner: int
    born_s: float
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class Stage:
    """One stage of all flights, in seconds.

    Attributes:
        share: of the mean life.
        begins: mean time from the beginning of life to that of this stage.
    """

    name: str
    mean: float
    median: float
    slow: float
    share: float
    begins: float


class Flights(Table[Stage]):
    """The stages of an observation's life, as a table by name, and as a timeline in a notebook.

    Attributes:
        flights: each observation that was followed.
    """

    def __init__(self, run: str, flights: Sequence[Flight]) -> None:
        self.run, self.flights = run, tuple(flights)
        super().__init__(_stages(self.flights), {
            "stage": lambda stage: STAGES[stage.name].label,
            "mean": lambda stage: brief(stage.mean),
            "median": lambda stage: brief(stage.median),
            "90 % within": lambda stage: brief(stage.slow),
            "share": lambda stage: f"{stage.share:.1%}",
        }, empty=f"no observation of {run} has been trained on since its learner started. Wait for the first update.")

    @classmethod
    def of(cls, run: str, answer: Mapping[str, Sequence[Mapping[str, Any]]]) -> Flights:
        """From the supervisor's answer: the flights of each learner, by its rank."""
        flights = []
        for rank, several in answer.items():
            first = min((one["born"] for one in several), default=0.0)
            flights += [Flight(one["env"], int(rank), one["born"] - first, one["seconds"]) for one in several]
        return cls(run, flights)

    def save_trace(self, path: str | Path) -> Path:
        """Write the flights as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open. Returns its path.

        Each learner is a process of the trace, and flights at the same time lie in lanes.
        """
        path = Path(path).expanduser()
        path.write_text(json.dumps({"traceEvents": _events(self.run, self.flights), "displayTimeUnit": "ms"}))
        return path

    def _repr_html_(self) -> str:
        if not self._rows:
            return super()._repr_html_()
        life = sum(stage.mean for stage in self._rows)
        lines = "".join(
            f'<tr title="{STAGES[stage.name].meaning}"><td style="text-align:left">{STAGES[stage.name].label}'
            f'</td><td style="width:45%;min-width:200px"><div style="margin-left:{stage.begins / life:.2%};'
            f'width:{stage.mean / life:.2%};min-width:2px;height:11px;background:#2a80c4"></div></td>'
            + "".join(f'<td style="text-align:right">{html.escape(show(stage))}</td>'
                      for show in list(self._columns.values())[1:]) + "</tr>"
            for stage in self._rows)
        heads = "".join(f'<th style="text-align:right">{name}</th>' for name in list(self._columns)[1:])
        title = (f"Where an observation of {html.escape(self.run)} spends its life: {brief(life)} on average, "
                 f"{len(self.flights)} of them followed")
        return output(f'<p>{title}</p><table><thead><tr><th></th><th></th>{heads}</tr></thead><tbody>{lines}</tbody>'
                      "</table>", SMALL)


def brief(seconds: float) -> str:
    """A short time as text: 3.61 ms, 1.2 s."""
    return f"{seconds * 1e3:,.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"


def _stages(flights: Sequence[Flight]) -> list[Stage]:
    if not flights:
        return []
    passed = [name for name in STAGES if name in flights[-1].seconds]
    times = {name: np.array([flight.seconds.get(name, 0.0) for flight in flights]) for name in passed}
    life, begins, stages = sum(float(one.mean()) for one in times.values()), 0.0, []
    for name, seconds in times.items():
        mean = float(seconds.mean())
        stages.append(Stage(name, mean, float(np.median(seconds)), float(np.quantile(seconds, 0.9)),
                            mean / life, begins))
        begins += mean
    return stages


def _events(run: str, flights: Sequence[Flight]) -> list[dict[str, Any]]:
    """Trace events: a slice for each flight, with one for each stage inside it, in the first lane that is free."""
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"{run}, learner {rank}"}}
        for rank in sorted({flight.learner for flight in flights})]
    free_at: dict[int, list[float]] = {}  # of each learner's lanes
    for flight in sorted(flights, key=lambda flight: flight.born_s):
        lanes, life = free_at.setdefault(flight.learner, []), sum(flight.seconds.values())
        lane = next((lane for lane, at in enumerate(lanes) if at <= flight.born_s), len(lanes))
        lanes[lane : lane + 1] = [flight.born_s + life]
        where = {"ph": "X", "pid": flight.learner, "tid": lane}
        events.append({"name": f"environment {flight.env}", "ts": flight.born_s * 1e6, "dur": life * 1e6, **where})
        at = flight.born_s
        for name in STAGES:
            if name in flight.seconds:
                events.append({"name": STAGES[name].label, "ts": at * 1e6, "dur": flight.seconds[name] * 1e6, **where})
                at += flight.seconds[name]
    return events

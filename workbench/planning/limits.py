"""The limits of a run that no more machines move: actors of a run, streams of a learner, its supervisor, its disk.

Each is a number that a plan needs beside the most that is allowed, or that was measured by benchmarks/stand_ins.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.config import RunConfig, settings
from workbench.planning.constants import constant, known
from workbench.tables import Columns, Table
from workbench.wire.rpc import LEARNER_THREADS, THREADS_OF_CALLS

_FIELDS = settings(RunConfig)
MOST_ACTORS, MOST_LEARNERS = (int(_FIELDS[name].high or 0) for name in ("actors", "learners"))
STREAMS = LEARNER_THREADS - THREADS_OF_CALLS  # a busy machine is slow long before
CHECKPOINT_COPIES = 3  # of float32: the weights, and at most two moments of an optimizer
_SHORT_STEPS = 10  # no note is made of episodes that are shorter


@dataclass(frozen=True)
class Limit:
    """One limit.

    Attributes:
        needed: by the plan, in `unit`.
        most: that is possible.
        breaks: what happens beyond it.
        basis: source of `most`.
    """

    name: str
    needed: float
    most: float
    unit: str
    breaks: str
    basis: str

    @property
    def busy(self) -> float:
        """The share that the plan needs; above 1 the plan breaks."""
        return self.needed / self.most

    @property
    def needed_words(self) -> str:
        """Text of `needed` with its unit."""
        return f"{_number(self.needed)} {self.unit}"

    @property
    def most_words(self) -> str:
        """`most` as text."""
        return _number(self.most)


_COLUMNS: Columns = {
    "limit": lambda row: row.name,
    "needed": lambda row: row.needed_words,
    "most": lambda row: row.most_words,
    "busy": lambda row: f"{row.busy:.1%}",
    "beyond it": lambda row: row.breaks,
    "from": lambda row: row.basis,
}


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.3g}"


def of(*, actors: int, learners: int, parameters: int) -> Table[Limit]:
    """The limits of a run with so many actors and learners, and a network of so many parameters."""
    return Table(list(_limits(actors, learners, parameters)), _COLUMNS, empty="")


def _limits(actors: int, learners: int, parameters: int) -> Iterator[Limit]:
    yield Limit("actors of a run", actors, MOST_ACTORS, "actors", "launch() refuses them",
                "bound of launch(), and of the learners' tables")
    yield Limit("learners of a run", learners, MOST_LEARNERS, "learners", "launch() refuses them",
                "bound of launch(); never run with more than two")
    yield Limit("streams into a learner", math.ceil(actors / learners), STREAMS, "streams",
                "the learner refuses further actors",
                f"{LEARNER_THREADS:,} threads, one a stream; {_from('streams_answering')}")
    share = known("stand-ins", "supervisor_us_per_actor") / 1e6
    yield Limit("supervisor's core", actors * share, 1.0, "cores", "deaths are noticed late, calls wait",
                f"{share * 1e6:,.0f} µs a second for each actor; {_from('supervisor_us_per_actor')}")
    seconds = 4 * parameters * CHECKPOINT_COPIES / (known("stand-ins", "checkpoint_mb_per_second") * 1e6)
    yield Limit("writing a checkpoint", seconds, RunConfig.checkpoint_interval_s, "s", "training waits for its disk",
                f"{4e-6 * parameters * CHECKPOINT_COPIES:,.0f} MB without a replay, every "
                f"{RunConfig.checkpoint_interval_s:g} s; {_from('checkpoint_mb_per_second')}")


def _from(quantity: str) -> str:
    row = constant("stand-ins", quantity)
    file, _, rest = row.source.partition(": ") if row else ("", "", "")
    return file if file.startswith("benchmarks/") else rest


def breaks_first(limits: Table[Limit]) -> str:
    """The limit that is exceeded most, in words; "": the plan keeps to all."""
    worst = max(limits, key=lambda limit: limit.busy)
    if worst.busy <= 1:
        return ""
    return f"{worst.name}: {worst.needed_words} where {worst.most_words} are the most: {worst.breaks}"


def notes(
    *, actors: int, learners: int, steps_per_second: float, environments: int, inference: float, update_s: float
) -> Iterator[str]:
    """What to do about exceeded limits, and what else a large run must watch.

    Args:
        environments: of the run.
        inference: steps/s that a learner's accelerators act.
        update_s: of a learner's training for one update.
    """
    if actors > MOST_ACTORS:
        yield (f"launch() takes {MOST_ACTORS:,} actors: give each several cores (actor_threads=) and as many more "
               "environments")
    if learners > MOST_LEARNERS:
        yield f"launch() takes {MOST_LEARNERS:,} learners"
    if actors > learners * STREAMS:
        yield (f"a learner serves {STREAMS:,} actors: take {math.ceil(actors / STREAMS):,} learners, or fewer actors "
               "of several cores")
    half = environments // learners // 2
    if learners > 1 and half / inference > 2 * update_s:
        yield (f"the default inference batch is half of a learner's environments: {half:,} take {half / inference:.2g} "
               f"s, training for an update {update_s:.2g} s, and all learners wait for the slowest. Give launch() a "
               "smaller max_batch (benchmarks/results/largest-run.md)")
    rows = known("stand-ins", "episodes_per_second")
    if steps_per_second > _SHORT_STEPS * rows:
        yield (f"metrics: each episode is a row, and the first learner writes those of all: {rows:,.0f} rows/s "
               f"({_from('episodes_per_second')}), so a mean episode must have {steps_per_second / rows:,.0f} steps")

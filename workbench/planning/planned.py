"""What a plan is: its figures, the parts that carry its speed, and how it shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.config import RunConfig
from workbench.errors import WorkbenchError
from workbench.planning import limits
from workbench.planning.limits import Limit
from workbench.tables import Columns, Table, counted, output

if TYPE_CHECKING:
    from workbench.metrics.status import RunStatus


@dataclass(frozen=True)
class Part:
    """One part of the system.

    Attributes:
        count: number of such parts.
        frames_per_second: their capacity together.
        busy: share of the capacity that the plan's speed uses.
        basis: source of the number.
    """

    name: str
    count: int
    frames_per_second: float
    busy: float
    basis: str


PARTS: Columns = {
    "part": lambda row: row.name,
    "count": lambda row: f"{row.count:,}",
    "carries, frames/s": lambda row: f"{row.frames_per_second:,.0f}",
    "busy": lambda row: f"{row.busy:.0%}",
    "from": lambda row: row.basis,
}


@dataclass(frozen=True)
class Beside:
    """One figure of a plan beside that of a run; None: not known."""

    name: str
    planned: float | None
    measured: float | None


_BESIDE: Columns = {
    "": lambda row: row.name,
    "planned": lambda row: "" if row.planned is None else f"{row.planned:,.2f}",
    "measured": lambda row: "" if row.measured is None else f"{row.measured:,.2f}",
    "measured / planned": lambda row: f"{row.measured / row.planned:.0%}" if row.planned and row.measured else "",
}


@dataclass(frozen=True, repr=False)
class Plan:
    """The needs of a run for `frames_per_second`.

    Attributes:
        steps_per_second: agent decisions per second of the whole run.
        cores: that step environments, an actor each.
        groups, group_size: of environments in each actor; one group is one message.
        environments: in all.
        learners: processes, each with its own inference service and actors.
        accelerators: of all learners together.
        learner_cores: CPU cores beside the accelerators, of all learners together.
        batch_size, unroll_length: unrolls per update, of all learners together, and their steps.
        updates_per_second, update_ms: updates of all learners together, and a learner's time for its share of one.
        averaging_ms: time to average one update's gradients, from the network cards' speed.
        gigabits_per_second: from all actors to all learners.
        learner_gigabits_per_second: into one learner: observations, and gradients where there are several learners.
        dollars_per_hour, dollars_per_billion_frames: None if the accelerator's price is unknown.
        parts: Table of all capacities; the fullest part is the one to add to first.
        limits: Table of what more machines do not move: actors of a run, streams into a learner, its supervisor, its
            disk.
        notes: the assumptions.
    """

    environment: str
    algorithm: str
    accelerator: str
    frames_per_second: float
    steps_per_second: float
    cores: int
    groups: int
    group_size: int
    environments: int
    learners: int
    accelerators: int
    learner_cores: int
    batch_size: int
    unroll_length: int
    updates_per_second: float
    update_ms: float
    averaging_ms: float
    gigabits_per_second: float
    learner_gigabits_per_second: float
    dollars_per_hour: float | None
    dollars_per_billion_frames: float | None
    parts: Table[Part]
    limits: Table[Limit]
    notes: tuple[str, ...] = field(default=())

    @property
    def saturates_first(self) -> str:
        """The name of the fullest part."""
        return max(self.parts, key=lambda part: part.busy).name

    @property
    def breaks_first(self) -> str:
        """The limit that the plan exceeds most, in words, or why launch() refuses its fields; "": it keeps to all."""
        return limits.breaks_first(self.limits) or self._refusal()

    def _refusal(self) -> str:
        try:
            RunConfig.build(self.environment, **self.fields)
        except WorkbenchError as error:
            return f"launch() refuses the fields: {error}"
        return ""

    @property
    def most_frames_per_second(self) -> float:
        """The speed that the fullest part allows."""
        return min(part.frames_per_second for part in self.parts)

    @property
    def fields(self) -> dict[str, Any]:
        """Fields for `wb.launch(environment, **plan.fields)`."""
        several = {"launcher": "ray", "address": "auto"} if self.cores + self.learner_cores > 8 else {}
        return {"algorithm": self.algorithm, "actors": self.cores, "envs_per_actor": self.groups * self.group_size,
                "groups_per_actor": self.groups, "learners": self.learners, "batch_size": self.batch_size,
                "unroll_length": self.unroll_length, **several}

    def beside(self, status: RunStatus) -> Table[Beside]:
        """The plan's speed and cost beside those that a run has measured; a run without a price has no cost."""
        return Table([
            Beside("frames/s", self.frames_per_second, status.speeds[0]),
            Beside("steps/s", self.steps_per_second, status.speeds[1]),
            Beside("cost per billion frames", self.dollars_per_billion_frames, status.cost_per_billion_frames),
        ], _BESIDE, empty="")

    def _lines(self) -> list[str]:
        cost = ("no price is known; give accelerator_price=" if self.dollars_per_hour is None else
                f"${self.dollars_per_hour:,.2f} an hour, ${self.dollars_per_billion_frames:,.2f} per billion frames")
        broken = [f"breaks first: {self.breaks_first}"] if self.breaks_first else []
        return [
            f"{self.environment}: {self.frames_per_second:,.0f} frames/s ({self.steps_per_second:,.0f} steps/s)",
            f"actors: {counted(self.cores, 'cores')}, {counted(self.environments, 'environments')}, "
            f"{counted(self.groups, 'groups')} of {self.group_size} each",
            f"learners: {self.learners:,} with {self.accelerators:,} x {self.accelerator} and "
            f"{self.learner_cores:,} more CPU cores; {self.updates_per_second:.3g} updates/s of {self.batch_size:,} "
            f"unrolls: {self.update_ms:.3g} ms and {self.averaging_ms:.3g} ms of averaging",
            f"network: {self.gigabits_per_second:.3g} Gbit/s in all, {self.learner_gigabits_per_second:.3g} Gbit/s "
            "into a learner",
            f"cost: {cost}",
            f"full first: {self.saturates_first}, at {self.most_frames_per_second:,.0f} frames/s",
            *broken,
        ]

    def __repr__(self) -> str:
        return "\n".join([*self._lines(), "", repr(self.parts), "", *(f"- {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        import html

        lines = "".join(f"<div>{html.escape(line)}</div>" for line in self._lines())
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return output(f"{lines}{self.parts._repr_html_()}<ul>{notes}</ul>")

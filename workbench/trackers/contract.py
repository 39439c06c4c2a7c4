"""The contract of trackers: begin, send and finish. A tracker hands a run's history to somebody else's service.

A tracker lives in a process of its own, which may fail, hang or wait for a network without the run noticing. Its
folder's `__init__` has the class `<Name>Tracker`, and loads the service's package in `begin`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

PROJECT = "rl-workbench"  # where the service's own variables name no other project or experiment


@dataclass(frozen=True)
class TrackedRun:
    """A run as a service gets to know it.

    Attributes:
        name: the run's.
        identity: its name with eight digits that no other run has: of the service's run, through all lives of this one.
        created: unix time, s.
        config: every field by flat name, as it is now.
        tags: environment, algorithm, versions and machine, by name.
    """

    name: str
    identity: str
    created: float
    config: Mapping[str, Any]
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Row:
    """What was recorded at one point of a run: metrics, or an event.

    Attributes:
        number: 0, 1, 2, ... in the order in which the service gets them; the same if a row is sent again.
        unix_s: unix time; of metrics that of the launch and the seconds of training.
        frames, steps, updates, time_s: the abscissae, see `metrics.Progress`; frames are the step axis.
        values: finite numbers by name: metrics by TensorBoard's tag ("episode/return"); of a change by `tune`, `scale`
            or `move` "config/<field>", where the new value is a number.
        event: of an event, "kind: message"; else "".
        changes: fields of the configuration that this event changed, with their new values.
    """

    number: int
    unix_s: float
    frames: int
    steps: int
    updates: int
    time_s: float
    values: Mapping[str, float] = field(default_factory=dict)
    event: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, float]:
        """The values with the abscissae beside them: frames, steps, updates, training_s."""
        return {"frames": self.frames, "steps": self.steps, "updates": self.updates, "training_s": self.time_s,
                **self.values}


class Tracker(Protocol):
    """Sends to one service. Its constructor takes no arguments; a service's own variables say where it is and hold its
    key. Every method may raise anything, and may be called again in a later process."""

    def begin(self, run: TrackedRun) -> str:
        """Begin the service's run of that identity, or go on with it. Returns where it is, without a key."""

    def send(self, rows: Sequence[Row], *, again: bool) -> None:
        """Hand over rows. `again`: some of them may have been handed over by a process that died."""

    def finish(self, state: str) -> None:
        """End the service's run: the state is "finished", "stopped", "failed", or "dead" without a supervisor; or
        "running" where no more is sent for now: the run goes on, and `begin` may go on with it."""

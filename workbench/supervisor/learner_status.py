"""What a supervisor knows of its learner's work: what it was last told, and when."""

from __future__ import annotations

import time
from collections.abc import Set
from typing import Any

from workbench.metrics import Progress
from workbench.supervisor.hosts.host import Life
from workbench.supervisor.stalls import STALLED_AFTER_S, Stalls


class News:
    """The learner's last status, and what follows from all of them. Whoever uses it sees to locking.

    Attributes:
        told: the last status; counters and means stay when a learner is new and knows none yet.
        at: when it came, on the monotonic clock.
        mute: why an answer was no status, or "".
        stepped: actors that made a step in this life of the supervisor.
        fruitless: lives of the learner that ended since updates last went beyond all before.
        unconnected: since when (monotonic) an actor's process lives that the learner has no stream of, by index.
    """

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}
        self.at = time.monotonic()
        self.mute = ""
        self.stepped: set[int] = set()
        self.fruitless = 0
        self.unconnected: dict[int, float] = {}
        self.stalls = Stalls(self.at)
        self._furthest = 0  # updates
        self._looked_at = self.at  # when the learner last looked at its actors

    def heard(self, told: dict[str, Any], *, alive: Set[int]) -> None:
        """Take in a status; `alive` are the actors whose processes live."""
        looked = "actors" not in told or told["actors"] != self.told.get("actors")
        self.told, self.at, self.mute = {**standing_still(self.told), **told}, time.monotonic(), ""
        if self.told.get("updates", 0) > self._furthest:
            self._furthest, self.fruitless = self.told["updates"], 0
        if looked:
            self._look({int(index): said for index, said in told.get("actors", {}).items()}, alive)

    def _look(self, said: dict[int, dict[str, Any]], alive: Set[int]) -> None:
        """Take in what the learner saw of its actors. What stood still while nobody looked may have been meant to."""
        if self.at - self._looked_at > STALLED_AFTER_S:
            self.stalls.moved(self.at)
            self.unconnected = {}
        self._looked_at = self.at
        connected = {index for index, one in said.items() if one.get("connected", True)}
        self.unconnected = {index: self.unconnected.get(index, self.at) for index in alive - connected}
        steps = {index: int(one["steps"]) for index, one in said.items()}
        self.stepped |= {index for index, made in steps.items() if index in alive and made > 0}
        waiting = {str(index) for index, one in said.items() if not one.get("stepping", True)}
        self.stalls.saw(
            self.at, self.told.get("frames", 0), {str(index): steps[index] for index in alive & set(steps)}, waiting)

    def has_come(self, index: int, started_at: float) -> bool:
        """Whether what the learner said last of an actor is of the process that was started then."""
        return index not in self.unconnected and started_at < self._looked_at

    def moved(self) -> None:
        """Forget how long things stood still, because they were meant to."""
        self.stalls.moved(time.monotonic())

    def is_of(self, learner: Life) -> bool:
        """Whether the last status came from this life of the learner."""
        return learner.alive and self.at > learner.started_at

    def silent_s(self) -> float:
        """Seconds since the last status."""
        return time.monotonic() - self.at

    def current(self, learner: Life) -> dict[str, Any]:
        """The last status, without speeds if they may no longer be true."""
        fresh = self.is_of(learner) and self.silent_s() <= STALLED_AFTER_S
        return self.told if fresh else standing_still(self.told)

    @property
    def progress(self) -> Progress:
        """How far the run is."""
        frames, steps, updates = (int(self.told.get(key, 0)) for key in ("frames", "steps", "updates"))
        return Progress(frames, steps, updates, float(self.told.get("time_s", 0.0)))


def standing_still(told: dict[str, Any]) -> dict[str, Any]:
    """What a learner told, with all speeds 0."""
    actors = {index: _without_speed(said) for index, said in told.get("actors", {}).items()}
    return {**_without_speed(told), "actors": actors}


def _without_speed(said: dict[str, Any]) -> dict[str, Any]:
    return {key: 0.0 if key.endswith("_per_second") else value for key, value in said.items()}

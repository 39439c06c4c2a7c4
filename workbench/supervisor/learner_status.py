"""What a supervisor knows of its learner's work: its last status, and when that came."""

from __future__ import annotations

import time
from collections.abc import Sequence, Set

from workbench.metrics import Progress
from workbench.metrics.status import ActorStatus, LearnerPhase, LearnerStatus
from workbench.supervisor.hosts.host import Life
from workbench.supervisor.stalls import STALLED_AFTER_S, Stalls


class LearnerTracker:
    """The learner's last status, and what follows from all of them.

    Not thread-safe: callers hold the supervisor's lock.

    Attributes:
        phase: what the learner did then.
        status: its last one; counters and means stay when a learner is new and knows none yet. None: none has come in
            this life of the supervisor.
        at: when it came, on the monotonic clock.
        mute: why an answer was no status, or "".
        stepped: actors that made a step in this life of the supervisor.
        fruitless: lives of the learner that ended since updates last went beyond all before.
        unconnected: since when (monotonic) an actor's process lives that the learner has no stream of, by index.
    """

    def __init__(self) -> None:
        self.phase = LearnerPhase()
        self.status: LearnerStatus | None = None
        self.at = time.monotonic()
        self.mute = ""
        self.stepped: set[int] = set()
        self.fruitless = 0
        self.unconnected: dict[int, float] = {}
        self.stalls = Stalls(self.at)
        self._furthest = 0  # updates
        self._looked_at = self.at  # when the learner last looked at its actors

    def heard(self, phase: LearnerPhase, status: LearnerStatus | None, *, alive: Set[int]) -> None:
        """Take in a learner's answer, without a status where it knows none yet; `alive`: actors whose processes live.
        """
        before = self.status
        self.phase, self.at, self.mute = phase, time.monotonic(), ""
        self.status = status or (before and before.standing_still())
        if self.progress.updates > self._furthest:
            self._furthest, self.fruitless = self.progress.updates, 0
        if status is None or before is None or status.actors != before.actors:
            self._look(() if status is None else status.actors, alive)

    def _look(self, actors: Sequence[ActorStatus], alive: Set[int]) -> None:
        """Take in what the learner saw of its actors. What stood still while nobody looked may have been meant to."""
        if self.at - self._looked_at > STALLED_AFTER_S:
            self.stalls.moved(self.at)
            self.unconnected = {}
        self._looked_at = self.at
        connected = {actor.index for actor in actors if actor.connected}
        self.unconnected = {index: self.unconnected.get(index, self.at) for index in alive - connected}
        steps = {actor.index: actor.steps for actor in actors if actor.index in alive}
        self.stepped |= {index for index, made in steps.items() if made > 0}
        waiting = {str(actor.index) for actor in actors if not actor.stepping}
        self.stalls.saw(self.at, self.progress.frames, {str(index): made for index, made in steps.items()}, waiting)

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

    def current(self, learner: Life) -> LearnerStatus:
        """The last status, without speeds if they may no longer be true."""
        status = self.status or LearnerStatus()
        return status if self.is_of(learner) and self.silent_s() <= STALLED_AFTER_S else status.standing_still()

    @property
    def progress(self) -> Progress:
        """How far the run is."""
        status = self.status or LearnerStatus()
        return Progress(int(status.frames), int(status.steps), int(status.updates), float(status.time_s))

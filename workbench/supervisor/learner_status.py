"""The learner's last status, with the time at which it came."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

from workbench.metrics import Progress
from workbench.metrics.status import ActorStatus, LearnerPhase, LearnerStatus
from workbench.supervisor.hosts.life import Life
from workbench.supervisor.stalls import STALLED_AFTER_S, Stalls


class LearnerTracker:
    """The learner's last status, and what follows from all of them.

    Not thread-safe: callers hold the supervisor's lock.

    Attributes:
        phase: what the learner did then.
        status: its last status; counters and means stay while a new learner has none yet. None: no status has come in
            this life of the supervisor.
        at_start: what counts until then: the means of the life before, and the counters of the newest checkpoint.
        at: when it came, on the monotonic clock.
        mute: why an answer was no status, or "".
        stepped: actors that made a step in this life of the supervisor.
        to_repeat: frames that the last learner made after the checkpoint at which this one began, and that are to come.
        fruitless: lives of the learner that ended since the number of updates was last a new maximum, by whether they
            were lost with their machine, or with their network after they had trained.
        unconnected: monotonic time since which the learner has no stream of a live actor, by index.
    """

    def __init__(self) -> None:
        self.phase = LearnerPhase()
        self.status: LearnerStatus | None = None
        self.at_start = LearnerStatus()
        self.at = time.monotonic()
        self.mute = ""
        self.stepped: set[int] = set()
        self.fruitless: Counter[bool] = Counter()
        self.unconnected: dict[int, float] = {}
        self.stalls = Stalls(self.at)
        self.to_repeat = 0
        self._furthest = 0  # updates
        self._most_frames = 0
        self._actors_at = self.at  # when the learner last reported its actors

    def note_status(self, phase: LearnerPhase, status: LearnerStatus | None, *, alive: Set[int]) -> list[str]:
        """Take in a learner's answer. `status`: None before its first; `alive`: actors whose processes live.

        Returns the floods that its answer before did not tell.
        """
        before, floods = self.status, [flood for flood in phase.floods if flood not in self.phase.floods]
        self.phase, self.at, self.mute = phase, time.monotonic(), ""
        self.status = status or (before and before.standing_still())
        self._most_frames = max(self._most_frames, self.progress.frames)
        self.to_repeat = self._most_frames - self.progress.frames
        if self.progress.updates > self._furthest:
            self._furthest = self.progress.updates
            self.fruitless.clear()
        if status is None or before is None or status.actors != before.actors:
            self._note_actors(() if status is None else status.actors, alive)
        return floods

    def _note_actors(self, actors: Sequence[ActorStatus], alive: Set[int]) -> None:
        """Take in the learner's report of its actors. After a gap between reports, stalls are counted anew."""
        if self.at - self._actors_at > STALLED_AFTER_S:
            self.stalls.restart_clocks(self.at)
            self.unconnected = {}
        self._actors_at = self.at
        connected = {actor.index for actor in actors if actor.connected}
        self.unconnected = {index: self.unconnected.get(index, self.at) for index in alive - connected}
        steps = {actor.index: actor.steps for actor in actors if actor.index in alive}
        self.stepped |= {index for index, count in steps.items() if count > 0}
        waiting = {actor.index for actor in actors if not actor.stepping}
        self.stalls.note_steps(self.at, self.progress.frames, steps, waiting)

    def hung(self) -> list[tuple[int, float]]:
        """Actors that make no step though they have their actions, with the seconds; none while the learner says
        nothing of them: they wait for it."""
        now = time.monotonic()
        return self.stalls.hung(now) if now - self._actors_at <= STALLED_AFTER_S else []

    def actors(self, status: LearnerStatus, children: Mapping[int, Life]) -> Iterator[ActorStatus]:
        """The learner's report of each actor, if it is about the present process, with that process."""
        reports = {actor.index: actor for actor in status.actors}
        for index, child in sorted(children.items()):
            is_current = index not in self.unconnected and child.started_at < self._actors_at
            report = reports.get(index) if is_current else None
            yield replace(report or ActorStatus(index), pid=child.pid, alive=child.alive,
                          restarts=max(0, child.restarts))

    def restart_clocks(self) -> None:
        """Count stalls anew, after a pause or a restart."""
        self.stalls.restart_clocks(time.monotonic())

    def has_status_of(self, learner: Life) -> bool:
        """Whether the last status came from this life of the learner."""
        return learner.alive and self.at > learner.started_at

    def silent_s(self) -> float:
        """Seconds since the last status."""
        return time.monotonic() - self.at

    def current(self, learner: Life) -> LearnerStatus:
        """The last status; with all speeds 0 if it is old, or of an earlier life."""
        status = self.known
        return status if self.has_status_of(learner) and self.silent_s() <= STALLED_AFTER_S else status.standing_still()

    @property
    def has_trained(self) -> bool:
        """Whether the run has made an update in this life of the supervisor, as far as is known."""
        return self.phase.trained or self.progress.updates > self.at_start.updates

    @property
    def known(self) -> LearnerStatus:
        """The last status, or what counts before the first."""
        return self.status or self.at_start

    @property
    def progress(self) -> Progress:
        """The run's counters as they are known."""
        return Progress.of(self.known)

"""The child processes of one run: a learner and a number of actors that can change.

Only the supervisor's main thread uses a `ProcessGroup`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from workbench.supervisor.hosts.host import Life, Place
from workbench.supervisor.hosts.local import POLL_S, Ending, wait_for_all
from workbench.supervisor.learner_group import LearnerGroup

ACTOR_GRACE_S = 3.0


@dataclass(frozen=True)
class Ended:
    """A child whose life ended without being asked to."""

    child: Life
    index: int | None  # of an actor; None: the learner
    ending: Ending


class ProcessGroup:
    """Learner and actors of a run.

    Args:
        begin: called before several learners are started together.

    Attributes:
        learner: the learner, or all of several as one; learners: each, by rank.
        actors: by index, those that belong to the run; one that is scaled away leaves at once and ends in the back.
    """

    def __init__(
        self, place: Place, *, learner_threads: int, learners: int = 1, begin: Callable[[], object] = lambda: None
    ) -> None:
        self._place = place
        self._leaving: list[Life] = []
        self.learners = [place.learner(rank, threads=learner_threads) for rank in range(learners)]
        self.learner: Life = self.learners[0] if learners == 1 else LearnerGroup(self.learners, begin=begin)
        self.actors: dict[int, Life] = {}

    def resize(self, actors: int) -> None:
        """Make it `actors` actors: the ones with the highest indices go."""
        for index in [index for index in self.actors if index >= actors]:
            child = self.actors.pop(index)
            child.end(ACTOR_GRACE_S)
            self._leaving.append(child)
        for index in range(actors):
            if index not in self.actors and not self._still_leaving(index):
                self.actors[index] = self._place.actor(index)

    def _still_leaving(self, index: int) -> bool:
        return any(child.name == f"actor-{index}" for child in self._leaving)

    def start_due(self) -> Iterator[tuple[Life, int | None]]:
        """Start every child that is down and whose back-off is over; yields those started, None for the learner."""
        if self.learner.start_if_due():
            yield self.learner, None
        for index, child in sorted(self.actors.items()):
            if child.start_if_due():
                yield child, index

    def poll(self) -> Iterator[Ended]:
        """Children that ended since the last poll."""
        for child in list(self._leaving):
            child.poll()
            if not child.alive:
                self._leaving.remove(child)
        for index, child in [(None, self.learner), *sorted(self.actors.items())]:
            ending = child.poll()
            if ending is not None:
                yield Ended(child, index, ending)

    def end_learner(self, grace_s: float) -> Ending | None:
        """Wait for the learner, which was told to stop, and kill it after `grace_s`; how it ended, if it lived."""
        if not self.learner.alive:
            return None
        self.learner.expect_end(grace_s)
        while (ending := self.learner.poll()) is None:
            time.sleep(POLL_S)
        return ending

    def end_actors(self) -> None:
        """End all actors and wait for them, which takes ACTOR_GRACE_S at most."""
        children: list[Life] = [*self.actors.values(), *self._leaving]
        for child in children:
            child.end(ACTOR_GRACE_S)
        wait_for_all(children)

    def replace_actor(self, index: int) -> None:
        """Let an actor's process end at once, if there is one; another one starts, and that is no failure."""
        if index in self.actors:
            self.actors[index].expect_end(0.0)

    def kill_actor(self, index: int) -> None:
        """Kill an actor's process, if there is one; that counts as any other death of it."""
        if index in self.actors:
            self.actors[index].kill()

    def kill(self) -> None:
        """Kill everything at once and reap it."""
        children: list[Life] = [self.learner, *self.actors.values(), *self._leaving]
        for child in children:
            child.kill()
        wait_for_all(children)

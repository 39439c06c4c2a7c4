"""The child processes of one run: a learner and a number of actors that can change.

Only the supervisor's main thread uses a `ProcessGroup`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from workbench.supervisor.hosts.host import Place
from workbench.supervisor.hosts.life import POLL_S, Life, ProcessEnding
from workbench.supervisor.learner_group import LearnerGroup

ACTOR_GRACE_S = 3.0

Way = Literal["kill", "replace", "move"]  # to end an actor


@dataclass(frozen=True)
class EndedChild:
    """A child whose life has ended, and how."""

    child: Life
    index: int | None  # of an actor; None: the learner
    ending: ProcessEnding


class ProcessGroup:
    """Learner and actors of a run.

    Args:
        begin: called before several learners are started together.

    Attributes:
        learner: the learner, or several as one child; learners: each, by rank.
        actors: those of the run, by index; one that is scaled away leaves at once, and its process ends later.
    """

    def __init__(self, place: Place, *, learner_threads: int, learners: int, begin: Callable[[], object]) -> None:
        self._place = place
        self._leaving: list[Life] = []
        self.learners = [place.learner(rank, threads=learner_threads) for rank in range(learners)]
        self.learner: Life = self.learners[0] if learners == 1 else LearnerGroup(self.learners, begin=begin)
        self.actors: dict[int, Life] = {}

    def resize(self, actors: int) -> None:
        """Change the number of actors; those with the highest indices leave."""
        for index in [index for index in self.actors if index >= actors]:
            child = self.actors.pop(index)
            child.end(ACTOR_GRACE_S)
            self._leaving.append(child)
        leaving = {child.name for child in self._leaving}
        for index in range(actors):
            if index not in self.actors and f"actor-{index}" not in leaving:
                self.actors[index] = self._place.actor(index)

    def start_due(self) -> Iterator[tuple[Life, int | None]]:
        """Start every child that is down and whose back-off is over; yields it with its index, None for the learner."""
        if self.learner.start_if_due():
            yield self.learner, None
        for index, child in sorted(self.actors.items()):
            if child.start_if_due():
                yield child, index

    def poll(self) -> Iterator[EndedChild]:
        """Children of the run that have ended since the last poll."""
        for child in list(self._leaving):
            child.poll()
            if not child.alive:
                self._leaving.remove(child)
        for index, child in [(None, self.learner), *sorted(self.actors.items())]:
            ending = child.poll()
            if ending is not None:
                yield EndedChild(child, index, ending)

    def end_learner(self, grace_s: float) -> ProcessEnding | None:
        """Wait for a learner that is stopping, kill it after `grace_s`, and return its ending; None if it was down."""
        if not self.learner.alive:
            return None
        self.learner.expect_end(grace_s)
        while (ending := self.learner.poll()) is None:
            time.sleep(POLL_S)
        return ending

    def end_actors(self) -> None:
        """End all actors and wait for them, ACTOR_GRACE_S at most."""
        children: list[Life] = [*self.actors.values(), *self._leaving]
        for child in children:
            child.end(ACTOR_GRACE_S)
        wait_for_all(children)

    def end_actor(self, index: int, way: Way) -> None:
        """End an actor's process, if there is one; another one starts.

        Args:
            way: "replace": at once, without counting a failure; "move": likewise, and its place is given up, so that
                the other one starts where there is room; "kill": at once, which counts as a failure.
        """
        child = self.actors.get(index)
        if child is None:
            return
        if way == "kill":
            child.kill()
        elif way == "move":
            child.end(ACTOR_GRACE_S)
        else:
            child.expect_end(0.0)

    def kill(self) -> None:
        """Kill all children at once and reap them."""
        children: list[Life] = [self.learner, *self.actors.values(), *self._leaving]
        for child in children:
            child.kill()
        wait_for_all(children)


def wait_for_all(children: Sequence[Life]) -> None:
    """Poll until every child has ended; each must have been asked to end or killed."""
    while any(child.alive for child in children):
        for child in children:
            child.poll()
        time.sleep(POLL_S)

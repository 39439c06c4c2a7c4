"""The child processes of one run: a learner and a number of actors that can change.

Only the supervisor's main thread uses a crew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.rundir import RunDirectory
from workbench.supervisor.processes import POLL_S, Child, Ending, wait_for_all

ACTOR_GRACE_S = 3.0
# glibc gives every block of some 100 kB back to the system when it is freed, and messages and training ask for the same
# ones again and again: with these bounds (bytes) a process keeps them. A learner then spends a third of the time in the
# kernel.
_LIBC = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
_OLD = _LIBC is None or tuple(map(int, _LIBC.split()[-1].split(".")[:2])) < (2, 35)  # takes at most 32 MiB
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**25 if _OLD else 2**30), "MALLOC_TRIM_THRESHOLD_": str(2**31)}
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Ended:
    """A child whose life ended without being asked to."""

    child: Child
    index: int | None  # of an actor; None: the learner
    ending: Ending


class Crew:
    """Learner and actors of a run.

    Attributes:
        actors: by index, those that belong to the run; one that is scaled away leaves at once and ends in the back.
    """

    def __init__(self, run: RunDirectory, *, learner_threads: int, keep_open: int) -> None:
        self._run = run
        self._keep_open = keep_open
        self._leaving: list[Child] = []
        self.learner = self._child("learner", ["_learner", str(run.path)], threads=learner_threads)
        self.actors: dict[int, Child] = {}

    def _child(self, name: str, arguments: list[str], *, threads: int) -> Child:
        bounds = dict.fromkeys(_THREAD_VARIABLES, str(threads)) if threads else {}
        environment = {**KEEP_MEMORY, **os.environ, **bounds}
        return Child(name, arguments, logs=self._run.logs, environment=environment, keep_open=self._keep_open)

    def resize(self, actors: int) -> None:
        """Make it `actors` actors: the ones with the highest indices go."""
        for index in [index for index in self.actors if index >= actors]:
            child = self.actors.pop(index)
            child.end(ACTOR_GRACE_S)
            self._leaving.append(child)
        for index in range(actors):
            if index not in self.actors and not self._still_leaving(index):
                arguments = ["_actor", str(self._run.path), "--index", str(index)]
                self.actors[index] = self._child(f"actor-{index}", arguments, threads=1)

    def _still_leaving(self, index: int) -> bool:
        return any(child.name == f"actor-{index}" for child in self._leaving)

    def start_due(self) -> Iterator[tuple[Child, int | None]]:
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
        children = [*self.actors.values(), *self._leaving]
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
        children = [self.learner, *self.actors.values(), *self._leaving]
        for child in children:
            child.kill()
        wait_for_all(children)

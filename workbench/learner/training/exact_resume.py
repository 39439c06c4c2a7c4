"""Exact resume: acting and training take turns in one thread, in stretches that begin from nothing but a checkpoint.

A stretch is `exact_resume_updates` updates, and ends with a checkpoint. What that does not hold is then let go of: the
unrolls that are unfinished or wait for a batch, and the actors' streams. Actors connect anew, and their environments
begin with the seeds of the next stretch: those that they get as well when the run is resumed there. Inside a stretch
every step is one batch of all environments, in their order, and a batch is trained on as soon as it is there. Nothing
then depends on the time, or on how many threads and processes there are. If an actor comes back inside a stretch, its
environments cannot: the learner ends with `Interrupted`, is started again, and repeats the stretch.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from workbench import checkpoints
from workbench.algorithms.batch import Batch
from workbench.checkpoints import Checkpoint
from workbench.errors import ConnectionLost
from workbench.wire.messages import Hello

if TYPE_CHECKING:
    from workbench.learner.learner import Learner

EXACT = "exact"  # of the checkpoints at which stretches end


class Interrupted(Exception):
    """An actor came back inside a stretch."""


class Stretches:
    """The stretches of one learner. `admit` comes from other threads, the rest from the one that trains.

    Attributes:
        begun: updates at which this stretch began.
    """

    def __init__(self, learner: Learner) -> None:
        self.begun = 0
        self._learner = learner
        self._lock = threading.Lock()
        self._actors: set[int] = set()  # that came in this stretch
        self._run_ids: set[int] = set()  # of their lives

    def admit(self, hello: Hello) -> int:
        """The seed of an actor's life in this stretch; for a second one the learner ends. Raises ConnectionLost."""
        with self._lock:
            if hello.actor in self._actors:
                self._learner.fail(Interrupted(
                    f"actor {hello.actor} came back after update {self.begun}; its environments are not where they "
                    f"were. The run goes back to that update, as exact_resume_updates asks."))
                raise ConnectionLost("the learner goes back to its last checkpoint")
            self._actors.add(hello.actor)
            self._run_ids.add(hello.run_id)
            entropy = [self._learner.config.seed, hello.actor, self.begun]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 2)

    def next(self, *, timeout_s: float) -> Batch | None:
        """The next batch to train on; None where there is none, and then all environments may have made a step."""
        learner, waiting = self._learner, -1
        queue = learner.experience.queue
        while waiting != len(queue):  # else it only stopped for whoever wants to pause
            waiting = len(queue)
            batch = learner.experience.next(learner.hyperparameters, timeout_s=0.0)
            if batch is not None:
                return batch
        self._act(timeout_s)
        return None

    def _act(self, timeout_s: float) -> None:
        learner = self._learner
        environments = learner.config.actors * learner.config.envs_per_actor
        requests = learner.batcher.whole(environments, self._run_ids, timeout_s=timeout_s)
        if not requests:
            learner.streams.close(but=self._run_ids)  # one may have come in just before this stretch began
            return
        queue = learner.experience.queue
        queue.capacity = max(queue.capacity, len(queue) + environments)  # nobody takes while this thread puts
        learner.inference.answer(requests)

    @property
    def over(self) -> bool:
        """Whether this stretch has all of its updates."""
        return self._learner.trainer.updates >= self.begun + self._learner.config.exact_resume_updates

    def begin(self) -> None:
        """Begin the next stretch, after the checkpoint of this one."""
        learner = self._learner
        with self._lock:
            self.begun = learner.trainer.updates
            self._actors.clear()
            self._run_ids.clear()
        learner.streams.close(but=self._run_ids)
        queue = learner.experience.queue
        queue.take(len(queue), timeout_s=0.0)

    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest good checkpoint that a stretch, or a fork, begins with; and what is wrong with newer ones.

        Where there are only others, the newest good one of those, and that this is so.
        """
        folder, replays = self._learner.run_directory.checkpoints, self._learner.config.replays

        def exact(one: Checkpoint) -> bool:
            return "fork" in one.meta or (one.meta.get("reason") == EXACT and (one.has_replay or not replays))

        found, wrong = checkpoints.newest_good(folder, only=exact)
        if found is not None:
            return found, wrong
        found, wrong = checkpoints.newest_good(folder, replay=False)
        if found is not None:
            wrong.append("all of those from which this run would go on exactly; it goes on from another one")
        return found, wrong

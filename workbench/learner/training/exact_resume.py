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
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench import checkpoints
from workbench.algorithms.batch import Batch
from workbench.checkpoints import Checkpoint
from workbench.errors import ConnectionLost
from workbench.learner.inference.actor_streams import ActorStreams
from workbench.learner.run_state import RunState
from workbench.learner.training.concurrent import Concurrent
from workbench.rundir import RunDirectory
from workbench.wire.messages import Hello

EXACT = "exact"  # of the checkpoints at which stretches end


class Interrupted(Exception):
    """An actor came back inside a stretch."""


class ExactResume:
    """The stretches of one learner. `admit` comes from other threads, the rest from the one that trains.

    Attributes:
        first_checkpoint_s: after which a checkpoint is written in this life, at most.
        longest_interval_s: between two checkpoints, at most.
        keeps_its_end: whether a run that stops writes a checkpoint; here it goes back anyway.
        begun: updates at which this stretch began.
    """

    first_checkpoint_s = longest_interval_s = 0.0
    keeps_its_end = False

    def __init__(self, state: RunState, streams: ActorStreams) -> None:
        self.begun = state.parts.trainer.updates
        self._state, self._streams = state, streams
        self._lock = threading.Lock()
        self._actors: set[int] = set()  # that came in this stretch
        self._run_ids: set[int] = set()  # of their lives

    @staticmethod
    def newest(run: RunDirectory, *, replays: bool) -> tuple[Checkpoint | None, list[str]]:
        """The newest good checkpoint that a stretch, or a fork, begins with; and what is wrong with newer ones.

        Where there are only others, the newest good one of those, and that this is so.
        """

        def exact(checkpoint: Checkpoint) -> bool:
            ends_a_stretch = checkpoint.meta.get("reason") == EXACT and (checkpoint.has_replay or not replays)
            return "fork" in checkpoint.meta or ends_a_stretch

        checkpoint, wrong = checkpoints.newest_good(run.checkpoints, only=exact)
        if checkpoint is None:
            checkpoint, wrong = checkpoints.newest_good(run.checkpoints, replay=False)
            if checkpoint is not None:
                wrong.append("all of those from which this run would go on exactly; it goes on from another one")
        return checkpoint, wrong

    @property
    def loops(self) -> dict[str, Callable[[], None]]:
        """Nothing runs in a thread of its own."""
        return {}

    def admit(self, hello: Hello) -> int:
        """The seed of an actor's life in this stretch; for a second one the learner ends. Raises ConnectionLost."""
        with self._lock:
            if hello.actor in self._actors:
                self._state.fail(Interrupted(
                    f"actor {hello.actor} came back after update {self.begun}; its environments are not where they "
                    f"were. The run goes back to that update, as exact_resume_updates asks."))
                raise ConnectionLost("the learner goes back to its last checkpoint")
            self._actors.add(hello.actor)
            self._run_ids.add(hello.run_id)
            entropy = [self._state.config.seed, hello.actor, self.begun]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 2)

    def next(self, *, timeout_s: float) -> Batch | None:
        """The next batch to train on; None where there is none, and then all environments may have made a step."""
        experience, waiting = self._state.parts.experience, -1
        while waiting != len(experience.queue):  # else it only stopped for whoever wants to pause
            waiting = len(experience.queue)
            batch = experience.next(self._state.hyperparameters, timeout_s=0.0)
            if batch is not None:
                return batch
        self._act(timeout_s)
        return None

    def _act(self, timeout_s: float) -> None:
        state, queue = self._state, self._state.parts.experience.queue
        environments = state.config.actors * state.config.envs_per_actor
        requests = state.batcher.whole(environments, self._run_ids, timeout_s=timeout_s)
        if not requests:
            self._streams.close(but=self._run_ids)  # one may have come in just before this stretch began
            return
        queue.capacity = max(queue.capacity, len(queue) + environments)  # nobody takes while this thread puts
        state.parts.inference.answer(requests)

    def skipped(self) -> None:
        """Nothing to do: each batch is used once."""

    @property
    def at_checkpoint(self) -> bool:
        """Whether a checkpoint may be written now: this stretch has all of its updates."""
        return self._state.parts.trainer.updates >= self.begun + self._state.config.exact_resume_updates

    @property
    def checkpoint(self) -> dict[str, Any]:
        """The arguments of `CheckpointWriter.write` for a checkpoint that is due."""
        return {"reason": EXACT, "replay": self._state.config.replays}

    def checkpointed(self) -> None:
        """Begin the next stretch, after the checkpoint of this one."""
        with self._lock:
            self.begun = self._state.parts.trainer.updates
            self._actors.clear()
            self._run_ids.clear()
        self._streams.close(but=self._run_ids)
        queue = self._state.parts.experience.queue
        queue.take(len(queue), timeout_s=0.0)


Schedule = Concurrent | ExactResume

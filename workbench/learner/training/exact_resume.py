"""Exact resume: acting and training take turns in one thread, in stretches that depend on their checkpoint alone.

A stretch is `exact_resume_updates` updates, and ends with a checkpoint. Everything outside the checkpoint is then
dropped: unfinished and waiting unrolls, and the actors' streams. Actors connect anew, and their environments begin with
the seeds of the next stretch, the same seeds as after a resume from that checkpoint. Inside a stretch every step is one
batch of all environments, in their order, and each training batch is used as soon as it is complete. So nothing depends
on time, or on the number of threads and processes. The environments of an actor that reconnects inside a stretch have
lost their state: the learner ends with `Interrupted`, is started again, and repeats the stretch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench import checkpoints
from workbench.algorithms.batch import Batch
from workbench.checkpoints import Checkpoint
from workbench.checkpoints.checkpoint import EXACT
from workbench.config import RunConfig
from workbench.errors import ConnectionLost
from workbench.learner.inference.actor_streams import ActorStreams
from workbench.learner.metrics.meters import Meters
from workbench.learner.run_state import RunState
from workbench.learner.training.concurrent import Concurrent
from workbench.rundir import RunDirectory
from workbench.wire.messages import Hello


class Interrupted(Exception):
    """An actor reconnected inside a stretch."""


class ExactResume:
    """The stretches of one learner. Other threads call `admit`, the training thread all else.

    Attributes:
        first_checkpoint_s: longest time before this life's first checkpoint.
        longest_interval_s: longest time between two checkpoints.
        keeps_its_end: whether a run that stops writes a checkpoint; here it would repeat the stretch anyway.
        first_update: updates at which this stretch began.
    """

    first_checkpoint_s = longest_interval_s = 0.0
    keeps_its_end = False

    def __init__(self, state: RunState, streams: ActorStreams, meters: Meters) -> None:
        self.first_update = state.parts.trainer.updates
        self._state, self._streams, self._meters = state, streams, meters
        self._lock = threading.Lock()
        self._actors: set[int] = set()  # connected in this stretch
        self._run_ids: set[int] = set()  # of their lives

    @staticmethod
    def newest(run: RunDirectory, *, replays: bool) -> tuple[Checkpoint | None, list[str]]:
        """The newest good checkpoint that begins a stretch or a fork, and what is wrong with the newer ones.

        If there is none, the newest good checkpoint of any kind, and a sentence about that.
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

    def is_recorded(self, *, timeout_s: float) -> bool:
        """See `Concurrent`: an exact run is on a CPU, which records nothing."""
        return True

    def admit(self, hello: Hello) -> int:
        """The seed of an actor's life in this stretch. For a second life the learner ends. Raises ConnectionLost."""
        with self._lock:
            if hello.actor in self._actors:
                self._state.fail(Interrupted(
                    f"actor {hello.actor} came back after update {self.first_update}; its environments are not where "
                    f"they were. The run goes back to that update, as exact_resume_updates asks."))
                raise ConnectionLost("the learner goes back to its last checkpoint")
            self._actors.add(hello.actor)
            self._run_ids.add(hello.run_id)
            entropy = [self._state.config.seed, hello.actor, self.first_update]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 2)

    def next(self, *, timeout_s: float) -> Batch | None:
        """The next batch to train on, or None after a step of all environments, if they sent one."""
        experience, waiting = self._state.parts.experience, -1
        while waiting != len(experience.queue):  # otherwise `next` returned early, so that a pause need not wait
            waiting = len(experience.queue)
            batch = experience.next(self._state.hyperparameters, timeout_s=0.0)
            if batch is not None:
                return batch
        self._act(timeout_s)
        return None

    def _act(self, timeout_s: float) -> None:
        state, queue = self._state, self._state.parts.experience.queue
        environments = state.config.environments()
        with self._meters.timing("training_wait"):
            requests = state.batcher.whole(environments, self._run_ids, timeout_s=timeout_s)
        if not requests:
            self._streams.close(but=self._run_ids)  # an actor may have connected just before this stretch began
            return
        queue.capacity = max(queue.capacity, len(queue) + environments)  # only this thread empties the queue
        state.parts.inference.answer(requests)

    def skipped(self) -> None:
        """Nothing to do: each batch is used only once."""

    @property
    def at_checkpoint(self) -> bool:
        """Whether a checkpoint may be written now: this stretch has all of its updates, and its last round is over."""
        parts, updates = self._state.parts, self._state.config.exact_resume_updates
        return parts.trainer.updates >= self.first_update + updates and parts.experience.between_rounds

    @property
    def checkpoint(self) -> dict[str, Any]:
        """The arguments of `CheckpointWriter.write` for a due checkpoint."""
        return {"reason": EXACT, "replay": self._state.config.replays}

    def checkpointed(self) -> None:
        """Begin the next stretch, after the checkpoint of this one."""
        with self._lock:
            self.first_update = self._state.parts.trainer.updates
            self._actors.clear()
            self._run_ids.clear()
        self._streams.close(but=self._run_ids)
        queue = self._state.parts.experience.queue
        queue.take(len(queue), timeout_s=0.0)


Schedule = Concurrent | ExactResume


def schedule_of(config: RunConfig) -> type[Schedule]:
    """The class of a run's schedule."""
    return ExactResume if config.exact_resume_updates else Concurrent

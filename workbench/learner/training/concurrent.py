"""Acting and training at the same time: inference runs in a thread of its own, and training takes its unrolls.

Data echoing (Choi et al. 2019, arXiv 1907.05550) trains on a batch again while the next one is not ready.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from workbench import checkpoints
from workbench.algorithms.batch import Batch
from workbench.checkpoints import Checkpoint
from workbench.learner.metrics.meters import Meters
from workbench.learner.run_state import RunState
from workbench.replay.experience import Experience
from workbench.rundir import RunDirectory
from workbench.wire.messages import Hello


class Echo:
    """Batches of `experience`, each up to `echo_factor` times; a fresh batch is used as soon as it is ready."""

    def __init__(self, experience: Experience, meters: Meters) -> None:
        self._experience, self._meters = experience, meters
        self._batch: Batch | None = None
        self._uses = 0

    def next(self, config: Any, *, timeout_s: float) -> Batch | None:
        """The next batch to train on, or None if there is none after `timeout_s`."""
        again = self._batch is not None and self._uses < config.echo_factor
        if not again:
            self._batch = None
        fresh = self._experience.next(config, timeout_s=0.0 if again else timeout_s)
        if fresh is None and not again:
            return None
        if fresh is not None:
            if self._uses:  # of the previous batch
                self._meters.add("batch_uses", self._uses)
            self._batch, self._uses = fresh, 0
        self._uses += 1
        return self._batch

    def drop(self) -> None:
        """Do not use the last batch again."""
        self._batch = None


class Concurrent:
    """The schedule of a run that need not resume exactly; see `exact_resume.ExactResume` for its attributes."""

    first_checkpoint_s = 60.0  # soon: until then a failure would lose everything
    longest_interval_s = math.inf
    keeps_its_end = True
    at_checkpoint = True

    def __init__(self, state: RunState, meters: Meters) -> None:
        self._state, self._meters = state, meters
        self._echo = Echo(state.parts.experience, meters)
        self._lives: Counter[int] = Counter()  # of each actor, in this life of the learner

    @staticmethod
    def newest(run: RunDirectory, *, replays: bool) -> tuple[Checkpoint | None, list[str]]:
        """The newest good checkpoint, and what is wrong with the newer ones.

        One of the best weights is passed over for one with a replay, which the run would otherwise lose.
        """
        def is_other(checkpoint: Checkpoint) -> bool:
            return checkpoint.meta.get("reason") != checkpoints.BEST

        other, wrong = checkpoints.newest_good(run.checkpoints, replay=False, only=is_other) if replays else (None, [])
        if other is not None and other.has_replay:
            return other, wrong
        return checkpoints.newest_good(run.checkpoints, replay=False)

    @property
    def loops(self) -> dict[str, Callable[[], None]]:
        """Functions to run in threads of their own until the batcher is closed, by the thread's name."""
        return {"inference": self._act}

    def _act(self) -> None:
        """Run inference, with one OpenMP thread beside those of training."""
        torch.set_num_threads(1)
        state = self._state
        state.parts.inference.serve(state.batcher, largest=state.largest_batch)

    def is_recorded(self, *, timeout_s: float) -> bool:
        """Waits until inference has recorded what it computes, if its device records; whether it has."""
        return self._state.parts.inference.recorded.wait(timeout_s)

    def admit(self, hello: Hello) -> int:
        """The seed of an actor's life, another one in each: what ended the last one may lie in its first steps."""
        updates, life = self._state.parts.trainer.updates, self._lives[hello.actor]
        self._lives[hello.actor] += 1
        entropy = [self._state.config.seed, hello.actor, life, updates]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 2)

    def next(self, *, timeout_s: float) -> Batch | None:
        """The next batch to train on, or None if there is none after `timeout_s`."""
        with self._meters.timing("training_wait"):
            return self._echo.next(self._state.hyperparameters, timeout_s=timeout_s)

    def skipped(self) -> None:
        """Do not use the last batch again: its update was skipped."""
        self._echo.drop()

    @property
    def checkpoint(self) -> dict[str, Any]:
        """The arguments of `CheckpointWriter.write` for a due checkpoint."""
        return {"reason": "interval"}

    def checkpointed(self) -> None:
        """Nothing to do: acting and training continue."""

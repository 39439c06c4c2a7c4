"""Acting and training at the same time: inference runs in a thread of its own, and training takes what is there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from workbench import checkpoints
from workbench.algorithms.batch import Batch
from workbench.checkpoints import Checkpoint
from workbench.learner.metrics.meters import Meters
from workbench.learner.run_state import RunState
from workbench.learner.training.data_echo import Echo
from workbench.rundir import RunDirectory
from workbench.wire.messages import Hello


class Concurrent:
    """How a run acts, trains and writes checkpoints, unless it is to resume exactly; as `exact_resume.ExactResume`."""

    first_checkpoint_s = 60.0  # a young run has all the more to lose
    longest_interval_s = math.inf
    keeps_its_end = True
    at_checkpoint = True

    def __init__(self, state: RunState, meters: Meters) -> None:
        self._state = state
        self._echo = Echo(state.parts.experience, meters)
        self._lives = 0

    @staticmethod
    def newest(run: RunDirectory, *, replays: bool) -> tuple[Checkpoint | None, list[str]]:
        """The newest good checkpoint, and what is wrong with newer ones."""
        return checkpoints.newest_good(run.checkpoints, replay=False)

    @property
    def loops(self) -> dict[str, Callable[[], None]]:
        """What runs in a thread of its own, by the thread's name, until the batcher is closed."""
        return {"inference": self._act}

    def _act(self) -> None:
        """The inference thread: one OpenMP thread beside the training thread's."""
        torch.set_num_threads(1)
        state = self._state
        if state.parts.device.kind == "xla":
            state.parts.inference.warm_up(max(state.max_batch, state.config.envs_per_actor))
        state.parts.inference.serve(state.batcher)

    def admit(self, hello: Hello) -> int:
        """The seed of an actor's life."""
        updates = self._state.parts.trainer.updates
        self._lives += 1
        entropy = [self._state.config.seed, hello.actor, self._lives if updates else 0, updates]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 2)

    def next(self, *, timeout_s: float) -> Batch | None:
        """The next batch to train on, or None if there is none after `timeout_s`."""
        return self._echo.next(self._state.hyperparameters, timeout_s=timeout_s)

    def skipped(self) -> None:
        """The update on the last batch was skipped: do not use that again."""
        self._echo.drop()

    @property
    def checkpoint(self) -> dict[str, Any]:
        """The arguments of `CheckpointWriter.write` for a checkpoint that is due."""
        return {"reason": "interval"}

    def checkpointed(self) -> None:
        """Nothing to do: all goes on."""

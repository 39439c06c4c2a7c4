"""What a learner begins with: its run's newest good checkpoint, a parent's weights, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.errors import CheckpointCorrupt
from workbench.learner.metrics.recorder import Log
from workbench.learner.run_state import RunState
from workbench.learner.training import checkpointing
from workbench.learner.training.checkpointing import AT_THE_START, Counters
from workbench.learner.training.trainer import Trainer
from workbench.metrics import MetricsReader
from workbench.replay.batch_source import Experience
from workbench.rundir import RunDirectory


class Restoring:
    """Puts into a trainer, its experience and the generator of its actions what a run goes on with.

    Args:
        newest: the newest good checkpoint, and what is wrong with newer ones.
    """

    def __init__(
        self, run: RunDirectory, *, newest: Callable[[], tuple[Checkpoint | None, list[str]]], state: RunState,
        log: Log, trainer: Trainer, experience: Experience, generator: torch.Generator,
    ) -> None:
        self._run, self._newest, self._state, self._log = run, newest, state, log
        self._trainer, self._experience, self._generator = trainer, experience, generator
        self._source: dict[str, Any] | None = None  # what was restored, as the other learners are told

    def restore(self) -> Counters:
        """The counters that the run goes on from. The others of a group take the checkpoint that the leader took.

        Raises CheckpointCorrupt where there are checkpoints, and none of them can be read.
        """
        learners = self._state.learners
        if not learners.leads:
            source = learners.from_leader()
            return AT_THE_START if source is None else self._restore_as_leader(**source)
        counters = self._restore()
        learners.from_leader(self._source)
        return counters

    def _restore_as_leader(self, path: str, weights_only: bool) -> Counters:
        counters = self._load(checkpoints.at(Path(path)), weights_only=weights_only)[0]
        seed = self._state.seed(1, counters.updates)
        self._generator.manual_seed(seed)  # what was restored are the leader's random numbers
        return counters

    def _restore(self) -> Counters:
        """Everything of the newest good checkpoint (a fork begins with one), or a parent's weights, or nothing."""
        checkpoint, wrong = self._newest()
        for sentence in wrong:
            self._log.event("error", f"checkpoint passed over: {sentence}")
        if checkpoint is not None:
            return self._go_on(checkpoint)
        if wrong:
            raise CheckpointCorrupt("none of its checkpoints can be read, and it would begin at 0 frames. Put "
                                    f"one back, or launch a new run. {' '.join(wrong)}")
        if MetricsReader(self._run.metrics).names():  # of a life that left no checkpoint
            self._log.event("restore", "there is no checkpoint yet: begins again at 0 frames", progress=AT_THE_START)
        parent = self._run.parent()
        if parent is None:
            return AT_THE_START
        if parent["take"] == "all":
            raise CheckpointCorrupt("the fork's checkpoint is gone; fork again.")
        return self._load(checkpoints.at(Path(parent["checkpoint"])), weights_only=True)[0]

    def _go_on(self, checkpoint: Checkpoint) -> Counters:
        """Go on where the checkpoint was written, with its replay, and log so."""
        counters, sampling_goes_on = self._load(checkpoint, weights_only=False)
        fork = checkpoint.meta.get("fork")
        forked = fork if type(fork) is dict else None
        origin = f"forked from {forked.get('run')}: begins with" if forked else "continues from"
        message = f"{origin} the checkpoint at {counters.frames:,} frames{self._restore_replay(checkpoint)}"
        if "optimizer" not in checkpoint.groups:
            message += "; the optimizer is another one and starts afresh"
        if not sampling_goes_on:
            self._generator.manual_seed(self._state.seed(1) + counters.updates)
            message += "; the device is of another kind, and the random numbers of actions begin anew"
        self._log.event("fork" if forked else "restore", message, progress=counters, data=forked)
        return counters

    def _load(self, checkpoint: Checkpoint, *, weights_only: bool) -> tuple[Counters, bool]:
        """Its counters, and whether random numbers of actions go on where the checkpoint's were."""
        counters = AT_THE_START if weights_only else Counters.of(checkpoint)
        goes_on = checkpointing.restore(checkpoint, self._trainer, self._generator, weights_only=weights_only)
        self._source = {"path": str(checkpoint.path), "weights_only": weights_only}
        self._trainer.updates = counters.updates
        return counters, goes_on

    def _restore_replay(self, checkpoint: Checkpoint) -> str:
        """Put the replay back where the checkpoint has it; what became of it, in words."""
        if self._experience.kept is None:
            return ""
        if not checkpoint.has_replay:
            return "; its replay was not kept and is filled anew (save_replay keeps it)"
        try:
            dropped = self._experience.load(checkpoint.open("replay"))
            lost = f", but for its {dropped:,} oldest unrolls, which do not fit" if dropped else ""
            size = self._state.learners.size
            others = f" of the first of {size} learners; the others fill theirs anew" if size > 1 else ""
            return f", with its replay{lost}{others}"
        except CheckpointCorrupt as error:
            self._log.event("error", str(error))
            return "; its replay is damaged and is filled anew"

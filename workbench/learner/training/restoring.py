"""Restores what a learner begins with: its run's newest good checkpoint, a parent's weights, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.errors import CheckpointCorrupt, ShapeMismatch
from workbench.learner.metrics.recorder import Log
from workbench.learner.run_state import RunState
from workbench.learner.training import checkpointing
from workbench.learner.training.checkpointing import AT_THE_START, Counters
from workbench.learner.training.exact_resume import schedule_of
from workbench.learner.training.trainer import Trainer
from workbench.metrics import MetricsReader
from workbench.replay.experience import Experience
from workbench.rundir import RunDirectory, untried


class Source(NamedTuple):
    """The checkpoint that the leader restored, as plain data for the other learners."""

    path: str
    weights_only: bool


class Restoring:
    """Restores a trainer, its experience and the generator of its actions."""

    def __init__(
        self, run: RunDirectory, *, state: RunState, log: Log, trainer: Trainer, experience: Experience,
        generator: torch.Generator,
    ) -> None:
        self._run, self._state, self._log = run, state, log
        self._trainer, self._experience, self._generator = trainer, experience, generator
        self._source: Source | None = None

    def restore(self) -> Counters:
        """Restore, and return the counters from which the run continues. A group restores the leader's checkpoint.

        Raises CheckpointCorrupt if there are checkpoints, but none can be read.
        """
        learners = self._state.learners
        if learners.leads:
            counters = self._restore()
            learners.from_leader(self._source)
            return counters
        source = learners.from_leader()
        return AT_THE_START if source is None else self._restore_as_leader(Source(*source))

    def _restore_as_leader(self, source: Source) -> Counters:
        counters = self._load(checkpoints.at(Path(source.path)), weights_only=source.weights_only)[0]
        seed = self._state.seed(1, counters.updates)
        self._generator.manual_seed(seed)  # the checkpoint has the leader's random numbers
        return counters

    def _restore(self) -> Counters:
        """Restore all of the newest good checkpoint (a fork begins with one), or a parent's weights, or nothing."""
        config = self._state.config
        checkpoint, wrong = schedule_of(config).newest(self._run, replays=config.replays)
        for sentence in wrong:
            self._log.event("error", f"checkpoint passed over: {sentence}")
        if checkpoint is not None:
            return self._continue(checkpoint)
        if wrong:
            raise CheckpointCorrupt("none of its checkpoints can be read, and it would begin at 0 frames. Put one "
                                    f"back, or launch a new run. The newest of {len(wrong)}: {wrong[0]}")
        history = MetricsReader(self._run.metrics)
        if last := history.last_checkpoint():
            raise CheckpointCorrupt(f"its checkpoints are gone from {self._run.checkpoints}, and it would begin at 0 "
                                    f"frames. The last one was the {last}. Put it back, or launch a new run.")
        if rows := history.lengths():  # an earlier life left no checkpoint
            self._log.event("restore", "there is no checkpoint yet: begins again at 0 frames", progress=AT_THE_START,
                            data={"rows": rows})
        parent = self._run.parent()
        if parent is None:
            return AT_THE_START
        if parent["take"] == "all":
            raise CheckpointCorrupt("the fork's checkpoint is gone; fork again.")
        weights = checkpoints.newest(self._run.beginning) or checkpoints.at(Path(parent["checkpoint"]))
        return self._load(weights, weights_only=True)[0]

    def _continue(self, checkpoint: Checkpoint) -> Counters:
        """Continue from the checkpoint, with its replay, and log that."""
        counters, anew = self._load(checkpoint, weights_only=False)
        rows = MetricsReader(self._run.metrics).lengths()  # of an earlier life
        fork = checkpoint.meta.get("fork")
        forked = fork if type(fork) is dict and not rows else None
        origin = f"forked from {forked.get('run')}: begins with" if forked else "continues from"
        place = "" if forked else checkpoint.meta.get("brought")
        brought = f", brought from its copy in {place}" if place else ""
        message = f"{origin} the checkpoint at {counters.frames:,} frames{brought}{self._restore_replay(checkpoint)}"
        if not self._same_optimizer(checkpoint):
            message += "; the optimizer is another one and starts afresh"
        if anew:
            generators = {"acting": (1, self._generator), "training": (6, self._trainer.algorithm.training_generator)}
            for number, generator in (generators[name] for name in anew):
                generator.manual_seed(self._state.seed(number) + counters.updates)
            message += f"; the random numbers of {' and '.join(anew)} are of another kind of device, and begin anew"
        data = forked or {"rows": rows}  # what it leaves behind
        self._log.event("fork" if forked else "restore", message, progress=counters, data=data)
        return counters

    def _load(self, checkpoint: Checkpoint, *, weights_only: bool) -> tuple[Counters, list[str]]:
        """Restore the checkpoint: its counters, and whose random numbers begin anew."""
        counters = AT_THE_START if weights_only else Counters.of(checkpoint)
        anew = checkpointing.restore(checkpoint, self._trainer, self._generator, weights_only=weights_only,
                                     optimizer=self._same_optimizer(checkpoint), config=self._state.config,
                                     mended_network=untried.is_untried(self._run, "network.pkl"))
        self._source = Source(str(checkpoint.path), weights_only)
        self._trainer.updates = counters.updates
        return counters, anew

    def _same_optimizer(self, checkpoint: Checkpoint) -> bool:
        """Whether its optimizer goes on: a fork may leave it out, and a mended class may have another one."""
        same = checkpoint.config.value("optimizer") == self._state.config.value("optimizer")
        return same and "optimizer" in checkpoint.groups

    def _restore_replay(self, checkpoint: Checkpoint) -> str:
        """Restore the replay if the checkpoint has one, and return in words what became of it."""
        if self._experience.occupancy is None:
            return ""
        if not checkpoint.has_replay:
            return "; its replay was not kept and is filled anew (save_replay keeps it)"
        try:
            dropped = self._experience.load(checkpoint.open("replay"))
            lost = f", but for its {dropped:,} oldest unrolls, which do not fit" if dropped else ""
            size = self._state.learners.size
            others = f" of the first of {size} learners; the others fill theirs anew" if size > 1 else ""
            return f", with its replay{lost}{others}"
        except (CheckpointCorrupt, ShapeMismatch) as error:
            self._log.event("error", str(error))
            what = "is damaged" if isinstance(error, CheckpointCorrupt) else "does not fit any more"
            return f"; its replay {what} and is filled anew"

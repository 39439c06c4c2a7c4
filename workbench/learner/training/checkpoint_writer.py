"""Writes a run's checkpoints: when they are due, with or without the replay, and again after the disk refused one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.errors import StorageFailed, WorkbenchError
from workbench.learner.command_queue import Commands
from workbench.learner.disk_guard import CHECKPOINT, OLD_CHECKPOINTS, DiskGuard
from workbench.learner.metrics.recorder import Recorder
from workbench.learner.orders import Orders
from workbench.learner.run_state import RunState
from workbench.learner.training import checkpointing
from workbench.learner.training.exact_resume import Schedule
from workbench.metrics import Progress
from workbench.metrics.collapse import EPISODES
from workbench.metrics.status import LearnerStatus, judged_mean
from workbench.rundir import RunDirectory, untried
from workbench.trajectory import Array

_TRY_AGAIN_S = 2.0  # after the disk refused a checkpoint
_BEST_AFTER_S = (5.0, 60.0)  # least and most that lie between the last one and a checkpoint of a new best return,
_BEST_AFTER_SHARE = 0.1  # of the time trained so far: what is learnt in half a minute may be lost in the next
_BEST_SHARE = 0.02  # of the time, at most, goes into those
_LOOK_S = 1.0  # between two looks at the return
_BETTER = 0.1  # standard deviations of episodes above the best of all checkpoints: what a mean of 100 scatters by


class CheckpointWriter:
    """Writes the leader's checkpoints between two updates. Called by the training thread."""

    _schedule: Schedule

    def __init__(
        self, run: RunDirectory, *, state: RunState, disk: DiskGuard, log: Recorder, orders: Orders, commands: Commands
    ) -> None:
        self._run, self._state, self._disk, self._log = run, state, disk, log
        self._orders, self._commands = orders, commands
        self._requested: tuple[Any, Checkpoint] | None = None  # what was last requested, with `_key` of then
        self._kept: Any = None  # `_key` of the last one at an interval

    def begin(self, schedule: Schedule) -> None:
        """Count the time to the next checkpoint from now on; `schedule` says when one may be written."""
        self._schedule, self._updates_before = schedule, self._state.progress.updates
        self._written_at, self._longest_s = time.monotonic(), schedule.first_checkpoint_s
        self._best_from = self._written_at + self._between_best()
        best = checkpoints.best_whole(checkpoints.every(self._run.checkpoints))
        self._highest = None if best is None else checkpoints.standing(best)

    # ---- when -------------------------------------------------------------------------------------------------------

    def hold_for_disk(self) -> None:
        """Hold all learners while the disk refuses data, and let them go on afterwards."""
        if (reason := self._disk.hold) != self._state.hold_reason:
            self._orders.hold(reason)

    def write_if_due(self) -> None:
        """Write a checkpoint if the present `checkpoint_interval_s` has passed, the run is not paused, and it has
        changed since the last; or one of the weights alone, without the replay, if the run is better than at all of
        its checkpoints."""
        state, schedule = self._state, self._schedule
        due_at = self._written_at + min(state.config.checkpoint_interval_s, self._longest_s)
        if state.paused is not None or not schedule.at_checkpoint or self._is_untried():
            return
        if time.monotonic() <= due_at:
            self._write_best()
            return
        if (key := self._key()) == self._kept:  # the same again would push an older one out
            self._written_at = time.monotonic()
            return
        stored = self._disk.store(CHECKPOINT, lambda: self.write(**schedule.checkpoint))
        self._written_at, self._longest_s = time.monotonic(), schedule.longest_interval_s if stored else _TRY_AGAIN_S
        if stored:
            self._kept = key
            schedule.checkpointed()

    def _write_best(self) -> None:
        began = time.monotonic()
        if began < self._best_from:
            return
        status = LearnerStatus(**self._log.episodes.status())
        mean, episodes = judged_mean(status)
        before = self._highest
        highest = -math.inf if before is None or before.by != status.judged_by else before.mean
        if mean is None or episodes < EPISODES or mean <= highest + _BETTER * (status.judged_spread or 0.0):
            self._best_from = began + _LOOK_S
            return
        if not self._disk.store(CHECKPOINT, lambda: self.write(checkpoints.BEST, replay=False)):
            self._written_at, self._longest_s = time.monotonic(), _TRY_AGAIN_S  # until then training is held
        self._best_from = max(self._best_from, began + (time.monotonic() - began) / _BEST_SHARE)

    def _between_best(self) -> float:
        least, most = _BEST_AFTER_S
        return min(most, max(least, _BEST_AFTER_SHARE * self._state.progress.time_s))

    def write_last(self) -> None:
        """Write a checkpoint at the end; a finished run of one learner waits until the disk has room, any other run
        raises StorageFailed."""
        state = self._state
        if (not state.finished and not self._schedule.keeps_its_end) or self._is_untried():
            return
        reason = "finished" if state.finished else state.last_reason
        while not self._disk.store(CHECKPOINT, lambda: self.write(reason)):
            if state.stopping or state.learners.size > 1:
                raise StorageFailed(self._disk.warning)
            self._commands.run_pending()
            self._commands.wait(_TRY_AGAIN_S)

    def write_at_failure(self) -> None:
        """Keep what was learnt since the life began, where that can be; the failure is raised anyway."""
        state = self._state
        alone = state.learners.size == 1 and self._schedule.keeps_its_end
        if alone and state.progress.updates > self._updates_before:
            with suppress(Exception):  # a device that failed gives no weights, a full disk takes none
                groups = checkpointing.groups_of(state.parts.trainer, state.parts.inference.generator)
                learnt = [*groups["model"].values(), *groups["optimizer"].values()]  # an algorithm's may mean something
                if all(np.isfinite(array).all() for array in learnt):
                    self.write("failed")

    # ---- what -------------------------------------------------------------------------------------------------------

    def write_requested(self, reason: str, *, replay: bool | None) -> Checkpoint:
        """As `write`; or, where nothing was trained or changed since the last requested checkpoint, that one again, and
        the newest where mended code has not trained. Raises WorkbenchError if it has none to begin from."""
        if self._is_untried():
            return self.newest("the mended code has made no update")
        key, (earlier_key, earlier) = self._key(), self._requested or (None, None)
        if earlier is not None and key == earlier_key and earlier.path.exists():
            wanted = getattr(self._state.config.hyperparameters, "save_replay", False) if replay is None else replay
            if earlier.has_replay or not wanted:
                return earlier
        written = self.write(reason, replay=replay)
        if reason == "requested":  # others are pruned
            self._requested = key, written
        return written

    def newest(self, why: str) -> Checkpoint:
        """The one that this life began from, where nothing was trained since. Raises WorkbenchError without one."""
        if (newest := checkpoints.newest(self._run.checkpoints)) is None:
            raise WorkbenchError(f"there is nothing to checkpoint yet: {why}.")
        return newest

    def _is_untried(self) -> bool:
        """Whether mended code has made no update: a checkpoint of it would outlive it in the run if it is taken back.
        """
        return self._state.progress.updates == self._updates_before and untried.is_there(self._run)

    def _key(self) -> tuple[Any, ...]:
        """Differs between states whose checkpoints differ. While a replay fills, frames pass without an update."""
        state, progress = self._state, self._state.progress
        return progress.updates, state.config, progress.frames if state.parts.experience.filling else None

    def write(self, reason: str, *, replay: bool | None = None) -> Checkpoint:
        """Write a checkpoint. Raises StorageFailed.

        Args:
            replay: whether to write the replay; None: if the run's configuration asks for it and there is room.
        """
        state, parts = self._state, self._state.parts
        progress = state.progress
        meta = self._meta(reason, progress)
        self._run.check_place()
        self._log.commit()  # or a kill right after this would lose rows that the checkpoint covers
        groups = checkpointing.groups_of(parts.trainer, parts.inference.generator)
        unrolls = parts.experience.arrays(state.config.hyperparameters, requested=replay)
        write = partial(checkpoints.write, self._run.checkpoints, frames=progress.frames, meta=meta,
                        requested=reason == "requested")
        state.writing_replay = bool(unrolls)
        try:
            checkpoint = self._write_groups(write, groups, unrolls, replay_optional=not replay)
        finally:
            state.writing_replay = False
        parts.device.checkpointed()
        self._best_from = time.monotonic() + self._between_best()
        if (judged := checkpoints.standing(checkpoint)) is not None:
            before = self._highest
            if before is None or before.by != judged.by or judged.mean > before.mean:
                self._highest = judged
        prune = partial(checkpoints.prune, self._run.checkpoints, keep=state.config.keep_checkpoints)
        self._disk.store(OLD_CHECKPOINTS, prune)
        self._log.event("checkpoint", f"checkpoint at {progress.frames:,} frames ({reason})", progress=progress,
                        data={"path": str(checkpoint.path)})
        return checkpoint

    def _meta(self, reason: str, progress: Progress) -> dict[str, Any]:
        parts, network = self._state.parts, self._state.parts.trainer.network
        means = self._log.episodes.status()
        status = LearnerStatus(**means)
        mean, episodes = judged_mean(status)
        return {
            **asdict(progress), "episodes": status.episodes, "episode_return": status.episode_return, "means": means,
            "judged": {"by": status.judged_by, "mean": mean, "episodes": episodes},
            "environment": parts.spec.to_json(), "config": self._state.config.to_json(), "network": parts.network_name,
            "parameters": sum(parameter.numel() for parameter in network.parameters()), "reason": reason,
            "trained": [name for name, _ in network.named_parameters()],  # as the optimizer numbers them
        }

    def _write_groups(
        self, write: Callable[..., Checkpoint], groups: dict[str, Any], unrolls: dict[str, Array], *,
        replay_optional: bool,
    ) -> Checkpoint:
        """Write a checkpoint with the replay if there is one; without it if that is optional and does not fit."""
        if not unrolls:
            return write(groups=groups)
        try:
            return write(groups={**groups, "replay": unrolls})
        except StorageFailed as error:
            if not replay_optional:
                raise
            checkpoints.drop_replays(self._run.checkpoints)  # of older checkpoints, to make room for this one's
            try:
                return write(groups={**groups, "replay": unrolls})
            except StorageFailed:
                self._log.event("error", f"a checkpoint without its replay: {error}", progress=self._state.progress)
                return write(groups=groups)  # the weights alone are better than nothing


class NoCheckpoints:
    """In the place of `CheckpointWriter` in a learner that does not lead: it writes no checkpoints."""

    def begin(self, schedule: Schedule) -> None:
        """Nothing to do."""

    def hold_for_disk(self) -> None:
        """Nothing to do."""

    def write_if_due(self) -> None:
        """Nothing to do."""

    def write_last(self) -> None:
        """Nothing to do."""

    def write_at_failure(self) -> None:
        """Nothing to do."""

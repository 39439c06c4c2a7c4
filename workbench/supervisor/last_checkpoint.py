"""The end of a run's learner, which writes a last checkpoint, and what the checkpoints then say."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.config import REPLAY_S, RunConfig
from workbench.errors import ConnectionLost, WorkbenchError
from workbench.metrics import Progress
from workbench.metrics.status import LearnerStatus
from workbench.rundir import RunDirectory
from workbench.supervisor.endings import Outcome
from workbench.supervisor.learner_status import LearnerTracker
from workbench.supervisor.process_group import ProcessGroup
from workbench.wire.rpc import Caller

_EXIT_S = 1.0  # for the end of a learner that did not answer the call to stop


def newest(run: RunDirectory) -> Checkpoint | None:
    """The run's newest checkpoint; None if it has none that can be read."""
    try:
        return checkpoints.newest(run.checkpoints)
    except OSError:
        return None


def known_at_start(run: RunDirectory, before: Mapping[str, Any]) -> LearnerStatus:
    """What counts until a learner's first status: the means of the last one `before`, the newest checkpoint's counters.
    """
    checkpoint = newest(run)
    if checkpoint is None:
        return LearnerStatus()
    return at(checkpoint, replace(LearnerStatus.from_json(before), actors=(), warning="", hint="", bottleneck={}))


def end_learner(
    learner: Caller, group: ProcessGroup, outcome: Outcome, config: RunConfig, tracker: LearnerTracker
) -> tuple[str, bool]:
    """End the learner of a run with this outcome, which writes a checkpoint before, within a bounded time.

    Returns what went wrong, or "", and whether it wrote its last checkpoint. One that was still starting has nothing to
    store: nothing went wrong then.
    """
    began = tracker.has_status_of(group.learner)
    timeout_s = outcome.timeout_s
    if timeout_s is None:
        timeout_s = REPLAY_S if tracker.phase.writing_replay else config.last_checkpoint_s
    problem = _end(learner, group, timeout_s, finished=outcome.state == "finished")
    return (problem if began else ""), began and not problem


def _end(learner: Caller, group: ProcessGroup, timeout_s: float, *, finished: bool) -> str:
    """End the learner of a run that `finished` or was stopped; waits `timeout_s` for its checkpoint and its end.
    Returns what went wrong, or ""."""
    if not group.learner.alive:
        return ""
    deadline = time.monotonic() + timeout_s
    problem = ""
    try:
        learner.call("stop", timeout_s=max(0.1, timeout_s), finished=finished)
    except WorkbenchError as error:
        mute = isinstance(error, ConnectionLost)
        deadline, problem = time.monotonic() + _EXIT_S, ": it did not answer" if mute else f": {error}"
    ending = group.end_learner(deadline - time.monotonic())
    if ending is None or ending.code == 0:
        return ""
    return f"the learner ended with {ending}, without a last checkpoint{problem}"


def at(checkpoint: Checkpoint, status: LearnerStatus) -> LearnerStatus:
    """The status with the counters and, where it tells them, the means of the checkpoint."""
    means = checkpoint.meta.get("means")
    return LearnerStatus.from_json({**status.to_json(), **(means if isinstance(means, dict) else {}),
                                    **vars(Progress.of(checkpoint))})

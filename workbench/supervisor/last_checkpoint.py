"""The end of a run's learner, which writes a last checkpoint, and what the checkpoints then say."""

from __future__ import annotations

import time

from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.errors import ConnectionLost, WorkbenchError
from workbench.metrics import Progress
from workbench.metrics.status import LearnerStatus
from workbench.rundir import RunDirectory
from workbench.supervisor.process_group import ProcessGroup
from workbench.wire.rpc import Caller

_EXIT_S = 1.0  # for the end of a learner that did not answer the call to stop


def newest(run: RunDirectory) -> Checkpoint | None:
    """The run's newest checkpoint; None if it has none that can be read."""
    try:
        return checkpoints.newest(run.checkpoints)
    except OSError:
        return None


def end_learner(learner: Caller, group: ProcessGroup, timeout_s: float, *, finished: bool) -> str:
    """End the learner, which writes a checkpoint before, of a run that `finished` or was stopped; waits `timeout_s` for
    both. Returns what went wrong, or ""."""
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

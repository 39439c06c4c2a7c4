"""The learner process."""

from __future__ import annotations

import signal
import traceback
from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.learner.learner import Learner
from workbench.rundir import RunDirectory
from workbench.wire.lifeline import end_with_parent, leave_error


def main(run_dir: str) -> int:
    """Run the learner of the run in `run_dir` until it is stopped or finished. The exit code."""
    run = RunDirectory(Path(run_dir))
    try:
        learner = Learner(run)
        end_with_parent(learner.stop_and_wait)
        signal.signal(signal.SIGTERM, lambda *_: learner.stop())
        learner.run()
        return 0
    except WorkbenchError as error:
        return leave_error(run.logs / "learner.error.json", error)
    except BaseException:
        traceback.print_exc()
        return 1

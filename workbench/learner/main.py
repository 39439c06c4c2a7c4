"""The learner process."""

from __future__ import annotations

import json
import signal
import sys
import traceback
from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.learner.learner import Learner
from workbench.rundir import RunDirectory, write_atomically
from workbench.wire.lifeline import end_with_parent

FATAL = 3  # exit code: a restart does not mend it; the reason is in logs/learner.error.json


def main(run_dir: str) -> int:
    """Run the learner of the run in `run_dir` until it is stopped or finished. The exit code."""
    end_with_parent()
    run = RunDirectory(Path(run_dir))
    try:
        learner = Learner(run)
        signal.signal(signal.SIGTERM, lambda *_: learner.stop())
        learner.run()
        return 0
    except WorkbenchError as error:
        told = {"type": type(error).__name__, "message": str(error)}
        write_atomically(run.logs / "learner.error.json", json.dumps(told).encode())
        print(error, file=sys.stderr, flush=True)
        return FATAL
    except BaseException:
        traceback.print_exc()
        return 1

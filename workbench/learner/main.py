"""The learner process."""

from __future__ import annotations

import signal
import traceback
from pathlib import Path

import torch

from workbench.errors import WorkbenchError
from workbench.learner.learner import Learner
from workbench.learner.training.data_parallel import is_loss
from workbench.rundir import RunDirectory
from workbench.wire.endpoints import learner_name
from workbench.wire.lifeline import PEERS_LOST, Lifeline, leave_error


def main(run_dir: str, rank: str = "0", *, lifeline: Lifeline) -> int:
    """Run the learner of that rank of the run in `run_dir` until it stops or finishes, and return the exit code."""
    torch.set_flush_denormal(True)  # of Adam's means a third falls below 1e-38, where arithmetic is 9 times slower
    run = RunDirectory(Path(run_dir))
    try:
        learner = Learner(run.that_is_there(), int(rank))
        lifeline.last_words = learner.stop_and_wait
        signal.signal(signal.SIGTERM, lambda *_: learner.stop())
        learner.run()
        return 0
    except WorkbenchError as error:
        return leave_error(run.logs / f"{learner_name(int(rank))}.error.json", error)
    except BaseException as error:
        traceback.print_exc()
        return PEERS_LOST if is_loss(error) else 1

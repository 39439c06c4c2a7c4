"""What several threads read of a learner's state while one changes it, and a learner without a socket for memory."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import SMALL
from workbench.config import RunConfig
from workbench.learner import run_state
from workbench.learner.inference import actor_streams
from workbench.learner.run_state import Clock, RunState
from workbench.learner.training.data_parallel import Alone


def test_the_time_is_read_while_another_thread_stops_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(5.0)
    clock.run(True)
    now = time.monotonic

    def stopped_meanwhile() -> float:
        monkeypatch.undo()
        clock.run(False)
        return now()

    monkeypatch.setattr(run_state.time, "monotonic", stopped_meanwhile)
    assert 5.0 <= clock.seconds < 65.0
    standing = clock.seconds
    assert clock.seconds == standing


def test_the_first_failure_is_what_ends_a_run() -> None:
    state = RunState(RunConfig.build("CartPole-v1"), learners=Alone(), paused=None)
    for error in (ValueError("the cause"), OSError("what it led to")):
        state.fail(error)
    with pytest.raises(ValueError, match="the cause"):
        state.raise_failure()


@pytest.mark.full
def test_a_run_whose_memory_gets_no_socket_goes_on_through_grpc_and_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(actor_streams, "Handover", refused)
    run = wb.launch("CartPole-v1", launcher="inline", total_frames=2000, progress=False, **{**SMALL, "actors": 1})
    status = run.wait(timeout_s=240)
    assert status.state == "finished" and status.frames >= 2000
    said = "actors of this machine send their steps through gRPC, not through shared memory: .*: Too many open files"
    assert run.events["message"].str.contains(said).sum() == 1

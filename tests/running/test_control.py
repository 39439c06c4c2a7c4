"""One handle steers from several threads; the supervisor is written by hand, behind real gRPC."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.widgets import recorded
from workbench import checkpoints
from workbench.errors import ConnectionLost
from workbench.metrics import MetricsWriter
from workbench.rundir import RunDirectory, lock
from workbench.running.connection import Control, stored_status
from workbench.wire.rpc import serve


class Supervisor:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked, self.free = threading.Event(), threading.Event()

    def slow(self) -> str:
        self.asked.set()
        self.free.wait(240)
        return "done"

    def calls(self) -> dict[str, Any]:
        return {"slow": self.slow, "ping": lambda: "here"}


@pytest.fixture
def directory(home: Path) -> Iterator[RunDirectory]:
    made = recorded.vtrace("steered")
    with lock.held(lock.of_supervisor(made), wait_s=1.0):
        yield made


@pytest.fixture
def supervisor(directory: RunDirectory) -> Iterator[Supervisor]:
    made = Supervisor()
    server = serve(directory.supervisor_address, directory.token(), calls=made.calls())
    yield made
    made.free.set()
    server.stop(0.0)


def test_a_call_that_takes_too_long_and_a_closed_handle_cut_nobody_off(
    directory: RunDirectory, supervisor: Supervisor
) -> None:
    control = Control(directory)
    with ThreadPoolExecutor(1) as pool:
        patient = pool.submit(control.call, "slow", timeout_s=240)
        assert supervisor.asked.wait(240)
        with pytest.raises(ConnectionLost, match="did not answer 'slow' within 0.1 s"):
            control.call("slow", timeout_s=0.1)
        control.close()
        assert control.call("ping") == "here"
        supervisor.free.set()
        assert patient.result(240) == "done"


def test_a_supervisor_that_starts_anew_is_found_at_once(directory: RunDirectory) -> None:
    control = Control(directory)
    for _ in range(20):
        with pytest.raises(ConnectionLost):
            control.call("ping", timeout_s=2.0)
        server = serve(directory.supervisor_address, directory.token(), calls=Supervisor().calls())
        assert control.call("ping", timeout_s=2.0) == "here"
        server.stop(0.0)


def test_a_command_waits_for_a_supervisor_that_is_just_being_started(directory: RunDirectory) -> None:
    control, made = Control(directory), Supervisor()
    made.free.set()
    with lock.held(lock.of_start(directory), wait_s=1.0), ThreadPoolExecutor(1) as pool:
        with pytest.raises(ConnectionLost):
            control.call("ping", timeout_s=1.0)
        patient = pool.submit(control.call, "slow", timeout_s=240)
        with pytest.raises(TimeoutError):
            patient.result(0.5)
        server = serve(directory.supervisor_address, directory.token(), calls=made.calls())
        assert patient.result(240) == "done"
        server.stop(0.0)


def test_a_run_that_ends_between_two_looks_at_its_files_is_not_dead(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.write(state="stopping")

    def ended(_: RunDirectory) -> bool:
        directory.write(state="finished")
        return False

    monkeypatch.setattr(lock, "is_alive", ended)
    assert stored_status(directory).state == "finished"


def test_a_dead_run_is_not_behind_its_last_checkpoint(home: Path) -> None:
    run = recorded.vtrace("dead")
    last = recorded.STATUS["frames"]
    for frames, counted in ((last - 1000, last), (last + 1000, last + 1000)):
        meta = {"steps": frames // 4, "updates": 125, "time_s": 61.0}
        checkpoints.write(run.checkpoints, frames=frames, groups={"model": {}}, meta=meta, requested=False)
        status = stored_status(run)
        assert (status.state, status.frames) == ("dead", counted) and wb.runs()["dead"].frames == counted
    assert (status.steps, status.updates, status.time_s) == (frames // 4, 125, 61.0)


def test_a_run_that_starts_again_has_no_process_of_its_life_before(home: Path) -> None:
    run = recorded.vtrace("again")
    told = {**recorded.STATUS, "state": "training", "supervisor_pid": 11, "learner_pid": 12, "learner_pids": [12]}
    for pid, row in ((13, {}), (None, {"state": "stopped", "supervisor_pid": None, "reason": "stopped as asked"})):
        writer = MetricsWriter(run.metrics)
        writer.status({**told, **row})
        writer.close()
        run.write(state="starting", supervisor_pid=pid)
        with lock.held(lock.of_supervisor(run), wait_s=1.0):
            status = stored_status(run)
        assert (status.state, status.supervisor_pid, status.learner_pids) == ("starting", pid, ())
        assert (status.frames, status.actors, status.reason) == (recorded.STATUS["frames"], (), "")


def test_a_look_at_a_dead_run_reads_its_record_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, looks, read = recorded.vtrace("dead"), [], RunDirectory.read
    monkeypatch.setattr(RunDirectory, "read", lambda directory: looks.append(directory) or read(directory))
    assert stored_status(run).state == "dead" and looks == [run]

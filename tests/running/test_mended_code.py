"""What becomes of a run's code when a mended one fails, or the call that brings it breaks off."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import SMALL
from tests.rewarding import Rewarding
from workbench import environments, rundir
from workbench.errors import EnvironmentFailed, RunExists, RunFailed, StorageFailed, WorkbenchError
from workbench.metrics import MetricsReader, MetricsWriter
from workbench.metrics.status import RunStatus
from workbench.rundir import RunDirectory, code_before, lock
from workbench.running import checking, launch, taking_back, waiting
from workbench.running.connection import Control
from workbench.running.mending import going_on_mended


class Walk(Rewarding):
    length = 4

    def reward(self) -> float:
        return 1.0


def mended(fails: bool = False) -> type:
    def begin(self: Any) -> None:
        if fails:
            raise ArithmeticError("not mended")
        Walk.__init__(self)

    return type("Walk", (Walk,), {"__init__": begin, "length": 5})


@pytest.fixture
def run(home: Path) -> RunDirectory:
    """A run that was stopped, of an environment of its user's own."""
    config, code, _ = checking.checked_config(Walk, "vtrace", None, None, (), {})
    run = rundir.create("walk", {
        "created": 1.0, "config": config.to_json(), "state": "stopped", "error": None, "parent": None, "lives": 1,
        "ended_by": "stop", "code": {"environment": True}}, code=code)
    with closing(MetricsWriter(run.metrics)) as writer:
        writer.status({"frames": 12, "reason": "stopped by a test"})
        writer.commit()
    return run


def contents(run: RunDirectory) -> dict[str, Any]:
    """The run's code by file name, with its record and its last status."""
    record = {name: value for name, value in run.read().items() if value is not None}
    return {path.name: path.read_bytes() for path in run.code.glob("*.pkl")} | {
        "record": {**record, "config_before": None, "mended": record.get("mended", 0)},
        "status": (MetricsReader(run.metrics).status() or [None])[0]}


def in_place_of_a_start(monkeypatch: pytest.MonkeyPatch, then: Callable[[RunDirectory], None]) -> None:
    """`wb.resume` prepares the run's directory, and does `then` instead of starting a supervisor."""
    def started(directory: RunDirectory, place: Any, prepare: Callable[[], None], **_: Any) -> None:
        prepare()
        then(directory)

    monkeypatch.setattr(launch, "started", started)


def test_code_is_what_it_was_after_a_start_that_fails(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(run)

    def fails(directory: RunDirectory) -> None:
        assert contents(directory)["environment.pkl"] != before["environment.pkl"]
        raise ArithmeticError

    in_place_of_a_start(monkeypatch, fails)
    with pytest.raises(ArithmeticError) as raised:
        wb.resume("walk", environment=mended())
    assert raised.value.__notes__ == ["walk is what it was, with the code and the settings that it had."]
    assert {**contents(run), "status": {**contents(run)["status"], "actors": []}} == {
        **before, "status": {**before["status"], "actors": []}}


def test_a_start_that_is_interrupted_goes_on_with_the_mended_code(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(directory: RunDirectory) -> None:
        raise KeyboardInterrupt

    before = contents(run)
    in_place_of_a_start(monkeypatch, interrupted)
    with pytest.raises(KeyboardInterrupt) as raised:
        wb.resume("walk", environment=mended())
    assert not hasattr(raised.value, "__notes__") and code_before.is_kept(run)
    assert contents(run)["environment.pkl"] != before["environment.pkl"] and run.read()["state"] == "starting"
    assert taking_back.take_back(Control(run)) and contents(run)["environment.pkl"] == before["environment.pkl"]


def test_a_full_disk_half_way_leaves_the_code_and_says_what_to_do(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, write = contents(run), code_before.write_atomically

    def full(path: Path, data: bytes) -> None:
        if path.parent == run.code:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data)

    in_place_of_a_start(monkeypatch, lambda _: None)
    monkeypatch.setattr(code_before, "write_atomically", full)
    with pytest.raises(StorageFailed, match=r"cannot write .*code: No space left on device\. Make room there"):
        wb.resume("walk", environment=mended())
    assert contents(run)["environment.pkl"] == before["environment.pkl"] and not code_before.is_kept(run)


def test_a_killed_call_loses_no_code_and_the_next_one_says_that_it_is_there_again(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(run)
    in_place_of_a_start(monkeypatch, lambda _: None)
    monkeypatch.setattr(launch, "taken_back_if_it_fails", lambda _: nullcontext())
    wb.resume("walk", environment=mended(), actors=7)
    assert run.config().actors == 7 and contents(run)["environment.pkl"] != before["environment.pkl"]
    wb.resume("walk")
    assert "walk has its former code and settings again: the mended code never trained." in capsys.readouterr().out
    assert contents(run)["environment.pkl"] == before["environment.pkl"] and run.config().actors != 7
    assert not code_before.is_kept(run) and not run.read().get("mended")


def test_a_fork_takes_the_code_that_has_trained(run: RunDirectory) -> None:
    code = contents(run)["environment.pkl"]
    code_before.replace(run, {"environment.pkl": b"never trained", "network.pkl": b"new"}, None)
    with pytest.raises(WorkbenchError, match="no checkpoint yet"):
        wb.attach("walk").fork()
    assert contents(run)["environment.pkl"] == code and not (run.code / "network.pkl").exists()


def test_code_that_is_put_back_half_way_is_put_back(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    code = {"environment.pkl": contents(run)["environment.pkl"]}
    code_before.replace(run, {"environment.pkl": b"new", "network.pkl": b"new"}, None)
    code_before.put_back(run)
    assert code_before.put_back(run).record["state"] == "stopped", "its record could not be written"
    code_before.forget(run)
    assert {path.name: path.read_bytes() for path in run.code.iterdir()} == code
    code_before.forget(run)


def test_what_is_kept_and_cannot_be_removed_is_said(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    def locked(control: Control) -> bool:
        raise sqlite3.OperationalError("database is locked")

    code_before.replace(run, {"environment.pkl": b"new"}, None)
    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.raises(StorageFailed, match=r"cannot remove .*kept\.json: Read-only file system\. Make its folder w"):
        taking_back.take_back(Control(run))
    monkeypatch.setattr(taking_back, "take_back", locked)
    with pytest.raises(ArithmeticError), taking_back.taken_back_if_it_fails(Control(run)):
        raise ArithmeticError


def test_nothing_is_taken_back_from_a_run_that_another_process_starts(run: RunDirectory) -> None:
    code_before.replace(run, {"environment.pkl": b"of another process"}, None)
    with lock.held(lock.of_start(run), wait_s=0):
        with pytest.raises(ArithmeticError) as raised, taking_back.taken_back_if_it_fails(Control(run)):
            raise ArithmeticError
        with pytest.raises(RunExists, match="walk is being started by another process"):
            taking_back.take_back(Control(run))
    assert not hasattr(raised.value, "__notes__")
    assert (run.code / "environment.pkl").read_bytes() == b"of another process"


def test_a_run_that_is_still_ending_is_waited_for(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    code_before.replace(run, {"environment.pkl": b"new"}, None)
    run.write(state="stopping")
    supervisor = ExitStack()
    supervisor.enter_context(lock.held(lock.of_supervisor(run), wait_s=0))

    def ended(control: Control, timeout_s: float) -> None:
        run.write(state="failed")
        supervisor.close()

    monkeypatch.setattr(Control, "status", lambda _: RunStatus("walk", "failed"))
    monkeypatch.setattr(waiting, "until_ended", ended)
    with pytest.raises(ArithmeticError) as raised, taking_back.taken_back_if_it_fails(Control(run)):
        raise ArithmeticError
    assert raised.value.__notes__ and run.read()["state"] == "stopped"


@pytest.mark.parametrize("meanwhile", [
    lambda run: run.write(lives=2),
    lambda run: code_before.replace(run, {"environment.pkl": b"of another process"}, None),
])
def test_a_run_that_another_process_has_started_since_it_was_checked_is_left_alone(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[RunDirectory], None]
) -> None:
    def started(directory: RunDirectory, place: Any, prepare: Callable[[], None], **_: Any) -> None:
        meanwhile(directory)
        prepare()

    monkeypatch.setattr(launch, "started", started)
    with pytest.raises(RunExists, match="walk was started by another process meanwhile"):
        wb.resume("walk")
    assert run.read()["state"] == "stopped"


def test_code_that_the_run_has_already_is_not_called_mended(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_place_of_a_start(monkeypatch, lambda _: None)
    wb.resume("walk", environment=Walk)
    assert "walk has this very environment already, and goes on with it." in capsys.readouterr().out
    assert not run.read().get("mended") and not code_before.is_kept(run)


@pytest.mark.parametrize(("error", "said"), [
    ("EnvironmentFailed", r"a traceback\nMend it, and .*: wb\.resume\('walk', environment=YourEnvironment\)\.$"),
    ("AlgorithmFailed", "a traceback$"),
    ("NetworkFailed", r"a traceback\nMend it, and .*: wb\.resume\('walk', network=YourNetwork\)\.$"),
])
def test_waiting_for_a_run_whose_own_code_failed_says_how_it_goes_on(run: RunDirectory, error: str, said: str) -> None:
    run.write(state="failed", error={"type": error, "message": "a traceback\n"},
              code={"environment": True, "network": True})
    with pytest.raises(RunFailed, match=said):
        wb.attach("walk").wait(progress=False)


def test_a_run_that_goes_on_elsewhere_or_that_cannot_be_read_is_not_advised_here(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str, options: Any = None) -> None:
        raise ImportError("a package of environments fails as it is imported")

    error = EnvironmentFailed("a traceback")
    assert going_on_mended(run, error)
    for name, value in (("is_copy", True), ("owner", "alice's")):
        with monkeypatch.context() as patch:
            patch.setattr(RunDirectory, name, property(lambda _, value=value: value))
            assert going_on_mended(run, error) == ""
    run.write(config={**run.config().to_json(), "wrappers": "short"})
    assert going_on_mended(run, error)
    with monkeypatch.context() as patch:
        patch.setattr(environments, "check_name", broken)
        assert going_on_mended(run, error) == ""
    run.record.write_text("torn")
    assert going_on_mended(run, error) == ""


@pytest.mark.full
def test_a_run_goes_on_with_its_code_after_the_call_that_mended_it_was_killed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wb.launch(Walk, name="walk", progress=False, **SMALL).stop()
    code = rundir.find("walk").code / "environment.pkl"
    before = code.read_bytes()
    with monkeypatch.context() as patch, pytest.raises(WorkbenchError, match="not mended"):
        patch.setattr(launch, "taken_back_if_it_fails", lambda _: nullcontext())
        wb.resume("walk", environment=mended(fails=True), progress=False)
    assert wb.attach("walk").state == "failed" and code.read_bytes() != before
    run = wb.resume("walk", progress=False)
    assert run.state == "training" and code.read_bytes() == before
    run.stop()
    run = wb.resume("walk", environment=mended(), progress=False)
    try:
        assert code.read_bytes() != before and not code_before.is_kept(run.directory), "it trains"
    finally:
        run.stop()

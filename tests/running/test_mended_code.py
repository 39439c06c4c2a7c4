"""What becomes of a run's code when a mended one fails, or the call that brings it breaks off."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import SMALL
from tests.rewarding import Rewarding
from workbench import checkpoints, environments, rundir
from workbench.copies import run_copy
from workbench.errors import EnvironmentFailed, RunExists, RunFailed, StorageFailed, WorkbenchError
from workbench.metrics import MetricsReader, MetricsWriter
from workbench.metrics.status import RunStatus
from workbench.rundir import RunDirectory, lock, sealed, untried
from workbench.running import choosing, handle, launch, waiting
from workbench.running.connection import Control
from workbench.running.mending import going_on_mended, going_on_paused
from workbench.running.starts import checking, taking_back


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


def loaded(run: RunDirectory) -> bytes:
    """The environment that the run's processes load."""
    return untried.loaded(run)["environment.pkl"].read_bytes()


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
        assert loaded(directory) != before["environment.pkl"] == contents(directory)["environment.pkl"]
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
    assert not hasattr(raised.value, "__notes__") and untried.is_there(run)
    assert loaded(run) != before["environment.pkl"] and run.read()["state"] == "starting"
    assert taking_back.take_back(Control(run)) and loaded(run) == before["environment.pkl"]
    assert [event["message"] for event in MetricsReader(run.metrics).events()][-1:] == [
        "the mended code never trained, and was taken back; wb.resume('walk', environment=Walk) gives it again"]


def test_a_full_disk_half_way_leaves_the_code_and_says_what_to_do(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, write = contents(run), untried.write_atomically

    def full(path: Path, data: bytes) -> None:
        if path.parent == run.before_mending.parent:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data)

    in_place_of_a_start(monkeypatch, lambda _: None)
    monkeypatch.setattr(untried, "write_atomically", full)
    with pytest.raises(StorageFailed, match=r"cannot write .*code: No space left on device\. Make room there"):
        wb.resume("walk", environment=mended())
    assert loaded(run) == before["environment.pkl"] and not untried.is_there(run)


def test_a_killed_call_loses_no_code_and_the_next_one_says_that_it_is_there_again(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(run)
    in_place_of_a_start(monkeypatch, lambda _: None)
    monkeypatch.setattr(launch, "taken_back_if_it_fails", lambda _: nullcontext())
    wb.resume("walk", environment=mended(), actors=7)
    assert run.config().actors == 7 != untried.tried_config(run).actors and loaded(run) != before["environment.pkl"]
    wb.resume("walk")
    said = capsys.readouterr().out
    assert "walk was mended before by code that never trained: that was taken back, with its settings. wb.res" in said
    assert loaded(run) == before["environment.pkl"] and run.config().actors != 7
    assert not untried.is_there(run) and not run.read().get("mended")


def test_a_fork_takes_the_code_that_has_trained(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    code = contents(run)["environment.pkl"]
    meta = {"steps": 12, "updates": 3, "time_s": 3.0, "config": run.config().to_json()}
    checkpoints.write(run.checkpoints, frames=12, groups={"model": {}}, meta=meta, requested=False)
    untried.begin(run, {"environment.pkl": b"never trained", "network.pkl": b"new"}, None)
    monkeypatch.setattr(handle, "started", lambda *_, **__: None)

    def forked(parent: str, name: str, **given: Any) -> tuple[bytes, list[str]]:
        fork = wb.attach(parent).fork(name=name, **given)
        (path,) = fork.directory.code.iterdir()
        return path.read_bytes(), fork.checkpoints[-1].meta["mended"]

    assert forked("walk", "fork") == (code, [])
    assert untried.is_there(run), "the run itself is left alone"
    new, tried = forked("walk", "mended", environment=mended())
    assert new != code and tried == ["environment.pkl"]
    assert forked("mended", "again") == (new, ["environment.pkl"]), "it has not trained"
    assert forked("walk", "same", environment=Walk) == (code, []), "it has trained"


def test_a_network_that_a_resume_gives_is_no_longer_that_of_the_class(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def whose() -> object:
        return run.read()["code"].get("network")

    run.write(code={"environment": True, "network": "class"})
    code = sealed.read(run.code / "environment.pkl") or b""
    (run.code / "network.pkl").write_bytes(sealed.sealed("network.pkl", code))
    in_place_of_a_start(monkeypatch, lambda _: None)
    monkeypatch.setattr(launch, "taken_back_if_it_fails", lambda _: nullcontext())
    wb.resume("walk", environment=mended())
    assert whose() == "class" and taking_back.take_back(Control(run))
    wb.resume("walk", network=lambda spec: None)
    assert whose() is True and taking_back.take_back(Control(run)) and whose() == "class"


def test_code_that_is_adopted_while_another_process_settles_stays(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one has looked into the folder of adopted code just before there was one."""
    def files_in(folder: Path) -> list[Path]:
        found = list(map(Path, sealed_files_in(folder)))
        if folder.name == ".tried" and not found and untried.is_there(run):
            os.rename(run.before_mending.parent, folder)
        return found

    sealed_files_in = untried.files_in
    untried.begin(run, {"environment.pkl": b"new"}, None)
    monkeypatch.setattr(untried, "files_in", files_in)
    untried.settle(run)
    assert loaded(run) == b"new"
    untried.adopt(run)
    assert (run.code / "environment.pkl").read_bytes() == b"new"


def test_code_that_is_adopted_half_way_is_the_runs(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    untried.begin(run, {"environment.pkl": b"new", "network.pkl": b"new"}, None)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", killed)
        untried.adopt(run)
    for name in ("environment.pkl", "network.pkl"):
        assert untried.loaded(run)[name].read_bytes() == b"new"
        assert next(path for path in untried.places(run, name) if path.exists()).read_bytes() == b"new"
    assert not taking_back.take_back(Control(run)) and untried.before(run) is None
    assert {path.name: path.read_bytes() for path in run.code.iterdir()} == {
        "environment.pkl": b"new", "network.pkl": b"new"}


def test_code_whose_supervisor_did_not_see_that_it_trained_stays(run: RunDirectory) -> None:
    def written(frames: int, updates: int) -> None:
        meta = {"steps": frames, "updates": updates, "time_s": 3.0, "config": run.config().to_json()}
        checkpoints.write(run.checkpoints, frames=frames, groups={"model": {}}, meta=meta, requested=False)

    written(800, updates=8)
    code = (run.code / "environment.pkl").read_bytes()
    untried.begin(run, {"environment.pkl": code}, None)
    (run.code / "environment.pkl").write_bytes(b"former")
    written(900, updates=8)
    assert untried.before(run) is not None
    written(1000, updates=9)
    choosing.to_play("walk", trust_code=False)
    assert untried.before(run) is None and (run.code / "environment.pkl").read_bytes() == code


@pytest.mark.parametrize("damaged", ['{"updates": 8, "rec', "[]", "{}", '{"updates": "x", "record": {}}'])
@pytest.mark.parametrize("call", ["resume", "fork", "config"])
def test_a_damaged_record_of_what_was_before_is_called_so_with_a_remedy(
    run: RunDirectory, damaged: str, call: str
) -> None:
    untried.begin(run, {"environment.pkl": b"new"}, None)
    run.before_mending.write_text(damaged)
    calls = {"resume": lambda: wb.resume("walk"), "fork": lambda: wb.attach("walk").fork(name="fork"),
             "config": lambda: untried.tried_config(run)}
    with pytest.raises(StorageFailed, match=r"before\.json has the settings of .*Make it readable; or delete it, and"):
        calls[call]()


def test_a_copy_gets_the_code_that_has_trained_with_its_settings(run: RunDirectory, tmp_path: Path) -> None:
    code, config = contents(run)["environment.pkl"], run.config()
    untried.begin(run, {"environment.pkl": b"never trained"}, None)
    run.write(config=config.replaced(actors=7).to_json())
    run_copy.write(run, tmp_path / "copy", [])
    copied = RunDirectory(tmp_path / "copy")
    assert (copied.code / "environment.pkl").read_bytes() == code and copied.config() == config


def test_what_is_kept_and_cannot_be_removed_is_said(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    def locked(control: Control) -> bool:
        raise sqlite3.OperationalError("database is locked")

    untried.begin(run, {"environment.pkl": b"new"}, None)
    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.raises(StorageFailed, match=r"cannot remove .*before\.json: Read-only file system\. Make its folder w"):
        taking_back.take_back(Control(run))
    monkeypatch.setattr(taking_back, "take_back", locked)
    with pytest.raises(ArithmeticError), taking_back.taken_back_if_it_fails(Control(run)):
        raise ArithmeticError


def test_nothing_is_taken_back_from_a_run_that_another_process_starts(run: RunDirectory) -> None:
    untried.begin(run, {"environment.pkl": b"of another process"}, None)
    with lock.held(lock.of_start(run), wait_s=0):
        with pytest.raises(ArithmeticError) as raised, taking_back.taken_back_if_it_fails(Control(run)):
            raise ArithmeticError
        with pytest.raises(RunExists, match="walk is being started by another process"):
            taking_back.take_back(Control(run))
    assert not hasattr(raised.value, "__notes__")
    assert loaded(run) == b"of another process"


def test_a_run_that_is_still_ending_is_waited_for(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    untried.begin(run, {"environment.pkl": b"new"}, None)
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
    lambda run: untried.begin(run, {"environment.pkl": b"of another process"}, None),
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
    assert not run.read().get("mended") and not untried.is_there(run)


@pytest.mark.parametrize(("error", "said"), [
    ("EnvironmentFailed", r"a traceback\nMend it, and .*: wb\.resume\('walk', environment=Walk\)\.$"),
    ("AlgorithmFailed", "a traceback$"),
    ("NetworkFailed", r"a traceback\nMend it, and .*: wb\.resume\('walk', network=YourNetwork\)\.$"),
])
def test_waiting_for_a_run_whose_own_code_failed_says_how_it_goes_on(run: RunDirectory, error: str, said: str) -> None:
    run.write(state="failed", error={"type": error, "message": "a traceback\n"},
              code={"environment": True, "network": True})
    with pytest.raises(RunFailed, match=said):
        wb.attach("walk").wait(progress=False)


def test_a_run_that_paused_itself_goes_on_with_mended_code_where_that_can_be_at_fault(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = f"10 {rundir.NOT_FINITE} (loss nan, gradient norm nan)"
    assert going_on_paused(run, reason) == ""
    run.write(code={"environment": True, "network": True})
    assert going_on_paused(run, reason) == (
        " Or mend its code: wb.attach('walk').stop(), then wb.resume('walk', network=YourNetwork).")
    assert going_on_paused(run, "the disk is full") == ""
    monkeypatch.setattr(RunDirectory, "owner", property(lambda _: "alice's"))
    assert going_on_paused(run, reason) == ""


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
    assert wb.attach("walk").state == "failed" and untried.is_there(rundir.find("walk"))
    run = wb.resume("walk", progress=False)
    assert run.state == "training" and code.read_bytes() == before
    run.stop()
    run = wb.resume("walk", environment=mended(), progress=False)
    try:
        assert code.read_bytes() != before and not untried.is_there(run.directory), "it trains"
    finally:
        run.stop()

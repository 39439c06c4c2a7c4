"""A deleted run lies in the trash, whole; one that is alive is refused, and its forks and handles do not mind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import SMALL
from tests.widgets import recorded
from workbench import checkpoints, rundir
from workbench.__main__ import main
from workbench.config import RunConfig
from workbench.errors import (
    AlgorithmFailed,
    EnvironmentFailed,
    InvalidInput,
    NetworkFailed,
    RunAlive,
    RunFailed,
    RunNotFound,
    StorageFailed,
    WorkbenchError,
)
from workbench.rundir import RunDirectory, lock
from workbench.running import deletion, launch
from workbench.running.starts.starting import started


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_deleted_run_is_in_the_trash_whole_and_can_be_moved_back(home: Path) -> None:
    run = wb.attach(recorded.vtrace("old").path)
    before = files(run.path)
    where = run.delete()
    assert where.parent == home / "trash" and re.fullmatch(r"old-\d{8}-\d{6}", where.name)
    assert before.items() <= files(where).items()
    assert len(wb.runs()) == 0 and not run.path.exists()
    assert (home / "trash").stat().st_mode & 0o777 == 0o700
    with pytest.raises(RunNotFound, match=f"no run 'old' in .* One of this name lies in the trash: {where}\\."):
        wb.attach("old")
    os.rename(where, run.path)
    assert run.status.frames == recorded.STATUS["frames"] and wb.runs()[0].name == "old"


@pytest.mark.parametrize(("error", "kept"), [
    (InvalidInput, False), (AlgorithmFailed, False), (NetworkFailed, False), (EnvironmentFailed, False),
    (RunFailed, True)])
def test_a_run_that_was_refused_before_it_trained_is_in_the_trash(
    home: Path, error: type[WorkbenchError], kept: bool
) -> None:
    config = RunConfig.build("CartPole-v1").to_json()
    directory = rundir.create("new", {"created": 1.0, "config": config, "state": "failed", "error": None, "lives": 1})
    with pytest.raises(error) as raised, deletion.trashed_if_refused(directory):
        raise error("refused")
    notes = getattr(raised.value, "__notes__", [])
    said = any("new has trained nothing, and lies in" in note for note in notes)
    assert directory.path.exists() is kept and said is not kept


@pytest.mark.parametrize(("updates", "reason"), [
    ((0,), {}), ((1,), {}), ((5, 5), {"fork": {}}), ((5, 6), {"fork": {}})])
def test_a_run_that_made_an_update_before_it_failed_stays(
    home: Path, updates: tuple[int, ...], reason: dict[str, Any]
) -> None:
    config = RunConfig.build("CartPole-v1").to_json()
    directory = rundir.create("new", {"created": 1.0, "config": config, "state": "failed", "error": None, "lives": 1})
    for frames, made in enumerate(updates):
        meta = {"steps": 1, "updates": made, "time_s": 1.0, **(reason if not frames else {})}
        checkpoints.write(directory.checkpoints, frames=frames, groups={"model": {}}, requested=False, meta=meta)
    with pytest.raises(EnvironmentFailed), deletion.trashed_if_refused(directory):
        raise EnvironmentFailed("in its first step")
    assert directory.path.exists() is (updates in ((1,), (5, 6)))


def test_two_runs_of_one_name_deleted_in_one_moment_are_both_kept(home: Path) -> None:
    places = {wb.attach(recorded.vtrace("old").path).delete() for _ in range(3)}
    assert len(places) == 3 and all((place / "run.json").exists() for place in places)


def test_handles_and_names_of_a_deleted_run_say_so(home: Path) -> None:
    run, other = (wb.attach(directory.path) for directory in (recorded.vtrace("old"), recorded.vtrace("older")))
    same = wb.attach("old")
    run.delete()
    for look in (lambda: same.status, lambda: same.config, lambda: same.checkpoints, lambda: same.metric_names,
                 same.pause, same.stop, same.delete, same.dashboard, lambda: same.fork()):
        with pytest.raises(RunNotFound, match=r"old is gone: the run was deleted\. Look for it in .*trash"):
            look()
    assert "old" in repr(same)
    with pytest.raises(RunNotFound, match="there is no run 'old' in .* Did you mean 'older'"):
        wb.resume("old")
    assert other.status.frames > 0


def test_a_handle_of_a_deleted_run_is_not_that_of_the_next_run_of_its_name(home: Path) -> None:
    same = wb.attach(recorded.vtrace("old").path)
    wb.attach("old").delete()
    after = wb.attach(recorded.vtrace("old").path)
    after.directory.write(created=after.directory.read()["created"] + 1)
    for look in (lambda: same.status, lambda: same.config, lambda: same.checkpoints, lambda: same.metrics("loss"),
                 same.stop, same.delete, same.wait, same.checkpoint, lambda: wb.attach(same), lambda: same.events):
        with pytest.raises(RunNotFound, match=r"old is another run now: .* wb\.attach\('old'\) takes the new one\.$"):
            look()
    assert wb.attach("old").status.frames > 0


@pytest.mark.parametrize("file", ["lock", "start.lock"])
def test_a_run_that_is_alive_or_being_started_is_refused(home: Path, file: str) -> None:
    directory = recorded.vtrace("busy")
    with lock.held(directory.path / file, wait_s=1.0) as held:
        assert held
        with pytest.raises(RunAlive, match=r"busy was not deleted: it is training. Stop it first: wb\.attach\('busy'"):
            deletion.delete(directory)
        directory.write(state="stopped")
        with pytest.raises(RunAlive, match="its processes are still ending. Try again in a moment."):
            deletion.delete(directory)
    assert directory.record.exists() and not (home / "trash").exists()


def test_a_lock_that_cannot_be_opened_is_one_clear_error_and_moves_nothing(home: Path) -> None:
    directory = recorded.vtrace("old")
    lock.of_start(directory).mkdir()  # root may open what is not writable
    with pytest.raises(StorageFailed, match="cannot open .*start.lock: Is a directory"):
        deletion.delete(directory)
    assert directory.record.exists()


def test_a_trash_that_cannot_be_written_is_one_clear_error_and_moves_nothing(home: Path) -> None:
    directory = recorded.vtrace("old")
    (home / "trash").write_text("in the way")
    with pytest.raises(StorageFailed, match="cannot move .*old to .*trash/old-"):
        deletion.delete(directory)
    assert directory.record.exists()


def test_a_run_of_another_disk_is_not_copied(home: Path) -> None:
    other = Path("/dev/shm") / f"wb-{os.getpid()}"
    directory = recorded.vtrace("old")
    if not other.parent.is_dir() or other.parent.stat().st_dev == home.stat().st_dev:
        pytest.skip("needs a second file system in /dev/shm")
    shutil.copytree(directory.path, other)
    try:
        with pytest.raises(StorageFailed, match="It is on another disk. Move .* away by hand"):
            wb.attach(other).delete()
        assert (other / "run.json").exists()
    finally:
        shutil.rmtree(other)


def test_a_damaged_run_can_be_deleted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = recorded.vtrace("torn")
    directory.record.write_text("{")
    assert main(["delete", "torn"]) == 0
    where = Path(capsys.readouterr().out.strip())
    assert where.parent == home / "trash" and (where / "run.json").read_text() == "{"


def test_the_command_line_deletes_and_refuses_in_one_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = recorded.vtrace("typed")
    with lock.held(lock.of_supervisor(directory), wait_s=1.0):
        assert main(["delete", "typed"]) == 2
        assert "workbench stop typed" in capsys.readouterr().err
    told = subprocess.run([sys.executable, "-m", "workbench", "delete", "typed"], capture_output=True, text=True)
    assert told.returncode == 0 and Path(told.stdout.strip(), "run.json").exists()
    assert main(["delete", "typed"]) == 2
    assert "there is no run 'typed'" in capsys.readouterr().err


@pytest.mark.full
def test_a_live_run_is_refused_and_its_fork_outlives_it(home: Path) -> None:
    run = wb.launch("CartPole-v1", name="parent", **{**SMALL, "actors": 1})
    run.wait(updates=5, timeout_s=240)
    with pytest.raises(RunAlive, match="it is (starting|training)"):
        run.delete()
    assert run.state == "training"
    fork = run.fork(name="child")
    run.stop()
    where = run.delete()
    fork.wait(updates=fork.status.updates + 3, timeout_s=240)
    stopped = fork.stop()
    again = wb.resume("child")
    assert again.wait(updates=stopped.updates + 3, timeout_s=240).frames > stopped.frames
    again.fork(name="grandchild").stop()
    again.stop()
    parent = again.directory.parent()
    assert parent is not None and parent["run"] == "parent" and not Path(parent["checkpoint"]).exists()
    assert where.is_dir() and {one.name for one in wb.runs()} == {"child", "grandchild"}


@pytest.mark.full
def test_a_run_begins_and_goes_on_without_the_run_whose_weights_it_took(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = wb.launch("CartPole-v1", name="source", **{**SMALL, "actors": 1})
    source.wait(updates=3, timeout_s=240)
    source.stop()

    def pruned(directory: RunDirectory, *given: Any, **more: Any) -> Any:
        shutil.rmtree(source.checkpoints[-1].path)
        return started(directory, *given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(launch, "started", pruned)
        taken = wb.launch("CartPole-v1", name="taken", checkpoint="source", **{**SMALL, "actors": 1})
    taken.stop()
    source.delete()
    assert wb.resume("taken").wait(updates=taken.status.updates + 3, timeout_s=240).updates > 0
    taken.stop()


def test_a_run_of_before_that_has_lost_its_source_says_where_it_may_be(home: Path) -> None:
    parent = rundir.parent_of(home / "runs" / "source" / "checkpoints" / "000000000012", take="weights")
    config = RunConfig.build("CartPole-v1").to_json()
    rundir.create("taken", {"created": 1.0, "config": config, "state": "stopped", "parent": parent})
    with pytest.raises(InvalidInput, match=r"taken starts from the checkpoint .*/source/.*, which is gone. If its run "
                                           r"source was deleted, move it back from .*/trash"):
        wb.resume("taken")
    assert wb.attach("taken").state == "stopped"

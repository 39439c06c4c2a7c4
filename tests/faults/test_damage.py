"""Damaged files of a run: the checkpoint before is used and an event says so; a moved run goes on elsewhere."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import eventually, processes_of
from tests.faults.harm import COUNTING, complete, messages
from workbench.errors import ConnectionLost, InvalidInput, RunExists, RunNotFound


def truncate(folder: Path) -> None:
    file = folder / "model.safetensors"
    os.truncate(file, file.stat().st_size // 2)


def flip_a_bit(folder: Path) -> None:
    file = folder / "optimizer.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 0x10
    file.write_bytes(data)


def remove_a_file(folder: Path) -> None:
    (folder / "rng.safetensors").unlink()


def remove_the_description(folder: Path) -> None:
    (folder / "meta.json").unlink()


def empty_the_description(folder: Path) -> None:
    os.truncate(folder / "meta.json", 0)


DAMAGE = [truncate, flip_a_bit, remove_a_file, remove_the_description, empty_the_description]


@pytest.fixture(scope="module")
def whole(module_home: Path) -> wb.Run:
    """A run that was stopped, with as many checkpoints as there is damage, and one more."""
    run = wb.launch("testing/counting-v0", **COUNTING, environment_options={"step_ms": 2.0}, name="whole")
    for _ in DAMAGE:
        run.wait(updates=run.checkpoint().updates + 5, timeout_s=240)
    run.stop()
    return run


def test_the_newest_good_checkpoint_is_found_behind_all_kinds_of_damage(
    whole: wb.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    made = whole.checkpoints
    expected, bad = made[-len(DAMAGE) - 1], [one.path for one in made[-len(DAMAGE) :]]
    for damage, folder in zip(DAMAGE, bad, strict=True):
        damage(folder)
    run = wb.resume(whole.name)
    printed = capsys.readouterr().out
    said = eventually(lambda: messages(run, "restore"))
    assert said == [f"continues from the checkpoint at {expected.frames:,} frames"]
    passed = [one for one in messages(run, "error") if one.startswith("checkpoint passed over: ")]
    assert len(passed) == len(DAMAGE)
    for folder in bad:
        assert any(str(folder) in one for one in passed), f"{folder.name} is not named"
        assert re.search(f"Passed over: .*{folder}", printed)
    status = run.wait(updates=expected.updates + 5, timeout_s=240)
    assert status.frames > expected.frames
    run.stop()


@pytest.mark.full
def test_a_run_without_one_good_checkpoint_says_so_and_is_not_trained_anew(whole: wb.Run) -> None:
    directory = shutil.copytree(whole.path, whole.path.with_name("hopeless"))
    for one in wb.attach("hopeless").checkpoints:
        truncate(one.path)
    before = wb.attach("hopeless").status
    with pytest.raises(InvalidInput, match=r"^hopeless has no good checkpoint\. .* Put one back, or launch a new run"):
        wb.resume("hopeless")
    run = wb.attach("hopeless")
    assert (run.status.state, run.status.frames) == ("stopped", before.frames) and before.frames > 0
    assert len(run.metrics("loss")) > 0 and not processes_of(directory)


def test_a_run_whose_checkpoints_are_gone_says_so_and_is_not_trained_anew(whole: wb.Run) -> None:
    directory = shutil.copytree(whole.path, whole.path.with_name("emptied"))
    shutil.rmtree(directory / "checkpoints")
    with pytest.raises(InvalidInput, match=r"^emptied has no good checkpoint any more: there is nothing in .* Put one"):
        wb.resume("emptied")
    run = wb.attach("emptied")
    assert run.status.state == "stopped" and len(run.metrics("loss")) > 0


@pytest.mark.full
def test_a_damaged_record_is_told_and_hides_no_other_run(whole: wb.Run) -> None:
    directory = shutil.copytree(whole.path, whole.path.with_name("torn"))
    (directory / "run.json").write_text('{"state": "stop')
    assert whole.name in [one.name for one in wb.runs()]
    with pytest.raises(OSError, match=r"cannot read .*run\.json"):
        wb.attach("torn").status  # noqa: B018
    (directory / "run.json").unlink()
    with pytest.raises(RunNotFound):
        wb.attach("torn")


@pytest.mark.full
def test_damaged_metrics_are_told_and_keep_nobody_from_the_checkpoints(whole: wb.Run) -> None:
    directory = shutil.copytree(whole.path, whole.path.with_name("scratched"))
    for file in directory.glob("metrics.sqlite-*"):
        file.unlink()
    data = bytearray((directory / "metrics.sqlite").read_bytes())
    data[:100] = bytes(100)
    (directory / "metrics.sqlite").write_bytes(data)
    run = wb.attach("scratched")
    assert "metrics.sqlite" in run.status.warning
    assert [one.frames for one in run.checkpoints] == [one.frames for one in whole.checkpoints]


def test_a_run_that_was_moved_goes_on_where_it_is_now(whole: wb.Run, tmp_path: Path) -> None:
    elsewhere = Path(shutil.copytree(whole.path, tmp_path / "moved"))
    run = wb.resume(elsewhere)
    before = run.checkpoints[-1]
    try:
        status = run.wait(updates=before.updates + 5, timeout_s=240)
        assert (run.name, run.path, status.state) == ("moved", elsewhere, "training")
        old = list(whole.metrics("loss")["updates"])
        assert list(run.metrics("loss")["updates"])[: len(old)] == old
    finally:
        run.stop()
    assert str(run.checkpoints[-1].path).startswith(str(elsewhere))
    assert processes_of(elsewhere) == []


@pytest.fixture
def alive(home: Path) -> wb.Run:
    return wb.launch("testing/counting-v0", **COUNTING, checkpoint_interval_s=2.0)


def moved_away(run: wb.Run) -> Callable[[], Path]:
    """Move a run's directory; call what is returned to move it back."""
    there = run.path.rename(run.path.with_name("away"))
    return lambda: there.rename(run.path)


@pytest.mark.full
def test_a_run_whose_directory_is_moved_while_it_is_alive_waits_until_it_is_back(alive: wb.Run) -> None:
    before = complete(alive)
    back = moved_away(alive)
    try:
        there = wb.attach("away")
        held = eventually(lambda: (s := there.status).state == "paused" and s)
        assert "is gone: it was moved or deleted while the run is alive. Move it back" in held.reason
        with pytest.raises(RunNotFound):
            alive.status  # noqa: B018
        with pytest.raises(RunExists, match=f"moved or deleted while it lives.*end process {before.supervisor_pid}"):
            wb.launch("testing/counting-v0", **COUNTING, name=alive.name)
        assert not alive.path.exists(), "nothing is written where it was"
    finally:
        back()
    after = alive.wait(updates=held.updates + 5, timeout_s=240)
    assert (after.state, after.learner_pid) == ("training", before.learner_pid)


def test_a_run_whose_directory_is_deleted_while_it_is_alive_ends_and_frees_its_name(alive: wb.Run) -> None:
    complete(alive)
    while alive.path.exists():  # its processes write meanwhile
        shutil.rmtree(alive.path, ignore_errors=True)
    eventually(lambda: not processes_of(alive.path), what="its processes have ended")
    assert not alive.path.exists(), "nothing is written where it was"
    again = wb.launch("testing/counting-v0", **COUNTING, name=alive.name)
    try:
        assert again.wait(updates=1, timeout_s=240).state == "training"
        assert list(again.events["kind"])[0] == "launch" and "restore" not in set(again.events["kind"])
    finally:
        again.stop()


@pytest.mark.full
def test_a_run_that_lives_is_left_alone_by_who_calls_its_home_by_another_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long, link = tmp_path / ("a-long-name" * 10), tmp_path / "link"  # too long for a socket beside the run
    link.symlink_to(long)
    monkeypatch.setenv("WORKBENCH_HOME", str(long))
    run = wb.launch("testing/counting-v0", **COUNTING)
    try:
        monkeypatch.setenv("WORKBENCH_HOME", str(link))
        with pytest.raises(ConnectionLost, match="another path of .*nothing was changed. Set WORKBENCH_HOME to"):
            wb.resume(run.name)
    finally:
        monkeypatch.setenv("WORKBENCH_HOME", str(long))
        assert run.stop().state == "stopped", "its token is the same"


@pytest.mark.full
def test_a_run_that_is_stopped_while_it_is_moved_is_resumed_where_it_is(alive: wb.Run) -> None:
    complete(alive)
    made = alive.checkpoint()
    moved_away(alive)
    there = wb.attach("away")
    with pytest.raises(ConnectionLost, match="away lives, and its folder was moved here from .*; nothing was changed"):
        wb.resume("away")
    there.stop()
    eventually(lambda: not processes_of(alive.path))
    run = wb.resume("away")
    assert run.wait(updates=made.updates + 5, timeout_s=240).state == "training"

"""A disk that is full: training waits, says why, and goes on by itself when there is room; nothing stored is lost."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import workbench as wb
from tests import conftest
from tests.conftest import eventually, mounted_disk, processes_of
from tests.faults.harm import COUNTING, complete, full, messages
from workbench.errors import HomeNotWritable, StorageFailed
from workbench.lessons.harm import no_room_for

WAITS = "waiting for the disk, to go on by itself: "


@pytest.fixture
def disk(home: Path) -> Iterator[Path]:
    """A disk of 4 MiB for all runs; they are ended before it is taken away."""
    for folder in mounted_disk(home / "runs", size="4m"):
        try:
            yield folder
        finally:
            conftest._end_all()


def waiting(run: wb.Run) -> wb.RunStatus:
    """The status once training waits for the disk."""
    return eventually(
        lambda: (s := run.status).state == "paused" and s.reason.startswith(WAITS) and s,
        what="the run waits for the disk",
    )


def check_history(run: wb.Run) -> None:
    """Every episode is in the metrics once, and no counter ever goes back."""
    run.pause()
    eventually(lambda: run.status.reason == "paused by hand")
    eventually(lambda: len(run.metrics("episode_return")) == run.status.episodes, what="all episodes are stored")
    rows = run.metrics("learner_memory_gb")
    assert all(rows[counter].is_monotonic_increasing for counter in ("frames", "steps", "updates", "time_s"))
    assert "metrics_dropped" not in set(run.events["kind"])


def test_training_waits_while_the_learner_can_store_nothing(home: Path) -> None:
    run = wb.launch("testing/counting-v0", **COUNTING, environment_options={"step_ms": 5.0})
    before = complete(run)
    with no_room_for(before.learner_pid):
        held = waiting(run)
        assert str(run.path) in held.reason
        with run.paused():
            frames = eventually(lambda: (s := run.status).reason == "paused by hand" and s).frames
        assert waiting(run).frames == frames, "nothing is acted or trained meanwhile"
    after = run.wait(updates=held.updates + 5, timeout_s=240)
    assert (after.state, after.learner_pid) == ("training", before.learner_pid)
    assert eventually(lambda: not run.status.warning), "the status is of the last second"
    assert any(one.startswith(WAITS) for one in messages(run, "pause"))
    assert "the disk takes what the run makes again; training goes on" in messages(run, "resume")
    check_history(run)


@pytest.mark.full
def test_training_waits_while_somebody_locks_the_metrics(home: Path) -> None:
    run = wb.launch("testing/counting-v0", **COUNTING)
    complete(run)
    with closing(sqlite3.connect(run.directory.metrics, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        held = waiting(run)
        assert "database is locked. Another process holds the file" in held.reason
        assert eventually(lambda: run.status.warning), "the supervisor, too, says what it cannot write"
        other.execute("ROLLBACK")
    run.wait(updates=held.updates + 5, timeout_s=240)
    eventually(lambda: (s := run.status).state == "training" and s.warning == "")
    check_history(run)


@pytest.mark.full
def test_a_full_disk_stops_nothing_for_good(disk: Path) -> None:
    run = wb.launch("testing/counting-v0", **COUNTING, checkpoint_interval_s=2.0, keep_checkpoints=2)
    complete(run)
    eventually(lambda: len(run.checkpoints))
    with full(disk):
        held = waiting(run)
        eventually(lambda: wb.runs()[run.name].frames_per_second == 0.0, what="the last row on disk is old")
        assert len(run.metrics("loss")) > 0
        with pytest.raises(StorageFailed, match="cannot write a checkpoint"):
            run.checkpoint()
        with pytest.raises(HomeNotWritable, match="No space left"):
            wb.launch("testing/counting-v0", **COUNTING, name="second")
        assert [one.name for one in wb.runs()] == [run.name]
        os.kill(held.actors[0].pid, signal.SIGKILL)
        eventually(lambda: (s := run.status).actors[0].alive and s.actors[0].pid != held.actors[0].pid)
        assert run.status.learner_pid == held.learner_pid
    newest = run.checkpoints[-1].updates
    run.wait(updates=held.updates + 5, timeout_s=240)
    eventually(lambda: run.checkpoints[-1].updates > newest, what="checkpoints are written again")
    check_history(run)


@pytest.mark.full
def test_a_learner_that_dies_on_a_full_disk_goes_on_when_there_is_room(disk: Path) -> None:
    run = wb.launch("testing/counting-v0", **COUNTING)
    before = complete(run)
    made = run.checkpoint()
    with full(disk):
        os.kill(before.learner_pid, signal.SIGKILL)
        eventually(lambda: run.status.learner_pid not in (None, before.learner_pid))
    after = run.wait(updates=before.updates + 50, timeout_s=240)
    assert after.state == "training"
    eventually(lambda: f"continues from the checkpoint at {made.frames:,} frames" in messages(run, "restore"))


@pytest.mark.full
def test_a_finished_run_waits_for_room_for_its_last_checkpoint(home: Path) -> None:
    run = wb.launch("testing/counting-v0", **COUNTING)
    status = complete(run)
    with no_room_for(status.learner_pid):
        run.tune(total_frames=status.frames + 20)
        held = eventually(lambda: (s := run.status).reason.startswith(WAITS) and s)
        assert held.state in ("training", "paused")
        assert len(run.checkpoints) == 0
    assert run.wait(timeout_s=240).state == "finished"
    assert run.checkpoints[-1].frames == run.status.frames


@pytest.mark.full
def test_a_stop_without_room_ends_at_once_and_says_what_is_lost(home: Path) -> None:
    run = wb.launch("testing/counting-v0", **COUNTING)
    with no_room_for(complete(run).learner_pid):
        assert run.stop().state == "stopped"
    assert processes_of(run.path) == []
    said = messages(run, "error")[-1]
    assert said.startswith("the learner ended with ") and "without a last checkpoint" in said
    assert "unix:" not in said and "UNAVAILABLE" not in said

"""When a learner writes a checkpoint because the run was never better: seldom, and not for noise."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workbench import checkpoints
from workbench.errors import StorageFailed, WorkbenchError
from workbench.learner.devices.device import Device
from workbench.learner.disk_guard import DiskGuard
from workbench.learner.training import checkpoint_writer
from workbench.learner.training.checkpoint_writer import CheckpointWriter
from workbench.metrics import Progress
from workbench.rundir import RunDirectory


class Course:
    """A writer at a made time, of a run with a made return; `look` is what training does after an update."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full, self.by, self.updates = False, "episode_return", 1
        self.trained_s = 900.0  # since the run's first life began
        self.now, self.took, self.mean, self.spread, self.episodes = 0.0, 0.0, 0.0, 10.0, 100
        self.run = RunDirectory(folder)
        monkeypatch.setattr(checkpoint_writer, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(checkpoint_writer.checkpointing, "groups_of", self._groups)
        monkeypatch.setattr(CheckpointWriter, "_meta", lambda writer, reason, progress: {
            "steps": 1, "updates": 1, "time_s": 1.0, "reason": reason, "episode_return": self.mean,
            "judged": {"by": self.by, "mean": self.mean, "episodes": self.episodes}})
        experience = SimpleNamespace(arrays=lambda config, requested: {}, filling="")
        parts = SimpleNamespace(trainer=None, inference=SimpleNamespace(generator=None), experience=experience,
                                device=Device("cpu", precision="fp32"))
        config = SimpleNamespace(checkpoint_interval_s=600.0, keep_checkpoints=3, hyperparameters=None)
        self.state: Any = SimpleNamespace(paused=None, config=config, parts=parts,
                                          progress=Progress(1, 1, 1, self.trained_s))
        self.there_at_commit: list[int] = []  # checkpoints, whenever rows are committed
        log: Any = SimpleNamespace(event=lambda *_, **__: None, commit=self._commit,
                                   episodes=SimpleNamespace(status=self._status))
        nothing: Any = None
        monkeypatch.setattr(RunDirectory, "check_place", lambda self: None)
        self.writer = CheckpointWriter(self.run, state=self.state, disk=DiskGuard(), log=log, orders=nothing,
                                       commands=nothing)

    def begin(self, *, at_checkpoint: bool = True) -> None:
        schedule: Any = SimpleNamespace(first_checkpoint_s=60.0, longest_interval_s=np.inf, at_checkpoint=at_checkpoint,
                                        checkpoint={"reason": "interval"}, checkpointed=lambda: None)
        self.writer.begin(schedule)

    def _groups(self, *_: Any) -> dict[str, Any]:
        if self.full:
            raise StorageFailed("no room")
        self.now += self.took
        return {"model": {"weight": np.zeros(3, np.float32)}}

    def _commit(self) -> str:
        self.there_at_commit.append(len(checkpoints.every(self.run.checkpoints)))
        return ""

    def _status(self) -> dict[str, Any]:
        return {"judged_by": self.by, self.by: self.mean, "episodes_in_mean": self.episodes,
                "evaluation_episodes": self.episodes, "judged_spread": self.spread}

    def look(self, seconds: float, mean: float, *, trains: bool = True) -> str:
        """The reason of the checkpoint that is written after so many seconds, at that mean; "" without one."""
        before = checkpoints.every(self.run.checkpoints)[-1:]
        self.now, self.mean = self.now + seconds, mean
        self.updates += trains
        self.state.progress = Progress(int(self.now), 1, self.updates, self.trained_s)
        self.writer.write_if_due()
        newest = checkpoints.every(self.run.checkpoints)[-1:]
        return str(newest[0].meta["reason"]) if newest != before else ""


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    return Course(tmp_path / "run", monkeypatch)


def test_a_new_best_is_written_between_two_intervals_once_a_minute_at_most(course: Course) -> None:
    course.begin()
    assert course.look(61, 5) == "interval"
    assert [course.look(19, mean) for mean in (50, 80, 90)] == ["", "", ""], "within a minute of the last one"
    assert course.look(4, 95) == checkpoints.BEST
    assert course.look(61, 94) == course.look(61, 95.5) == "", "noise of a mean of a hundred"
    assert course.look(61, 200) == checkpoints.BEST
    assert course.look(400, 100) == "interval", "which comes when it would have come anyway"


def test_what_a_young_run_learns_is_kept_before_it_can_be_lost(course: Course) -> None:
    course.trained_s = 20.0
    course.state.progress = Progress(1, 1, 1, 20.0)
    course.begin()
    assert [course.look(4, 50), course.look(2, 60)] == ["", checkpoints.BEST]
    assert [course.look(4, 80), course.look(2, 90)] == ["", checkpoints.BEST]
    course.trained_s = 200.0
    assert course.look(6, 120) == checkpoints.BEST
    assert [course.look(12, 150), course.look(7, 180), course.look(2, 200)] == ["", "", checkpoints.BEST], "a tenth"


def test_mended_code_has_no_checkpoint_before_its_first_update(course: Course) -> None:
    mark = course.run.before_mending
    course.begin()
    mark.parent.mkdir(parents=True)
    mark.touch()
    with pytest.raises(WorkbenchError, match="nothing to checkpoint yet: the mended code has made no update"):
        course.writer.write_requested("requested", replay=None)
    mark.unlink()
    assert course.look(61, 5) == "interval"
    course.begin()
    mark.touch()
    newest = course.writer.write_requested("requested", replay=None)
    course.state.stopping = course.state.finished = True
    course.writer.write_last()
    assert course.look(61, 500, trains=False) == "" and checkpoints.every(course.run.checkpoints) == [newest]
    assert course.look(1, 500) == "interval"


def test_a_few_episodes_or_a_pause_or_an_open_stretch_make_no_best(course: Course) -> None:
    course.begin()
    course.look(61, 5)
    course.episodes = 99
    assert course.look(61, 50) == ""
    course.episodes, course.state.paused = 100, "by hand"
    assert course.look(61, 50) == ""
    course.state.paused = None
    course.begin(at_checkpoint=False)
    assert course.look(61, 50) == ""


def test_a_resumed_run_compares_with_what_is_on_disk(course: Course) -> None:
    course.begin()
    assert course.look(61, 500) == "interval"
    course.begin()
    assert course.look(59, 499) == "" and course.look(2, 499) == "interval"
    assert course.look(61, 500.5) == "" and course.look(61, 502) == checkpoints.BEST


def test_a_disk_that_refuses_the_best_is_tried_again_soon_whatever_the_return_is_then(course: Course) -> None:
    course.begin()
    course.look(61, 5)
    course.full = True
    assert course.look(61, 50) == "" and course.writer._disk.hold
    course.full = False
    assert course.look(3, 4) == "interval" and not course.writer._disk.hold


def test_large_weights_are_written_less_often(course: Course) -> None:
    course.begin()
    course.look(61, 5)
    course.took = 30.0
    assert course.look(61, 50) == checkpoints.BEST
    assert [course.look(100, mean) for mean in (100, 150, 200)] == ["", "", ""], "30 s are 2 % of 1500 s"


def test_a_best_by_another_measure_is_no_bar(course: Course) -> None:
    course.begin()
    assert course.look(61, 400) == "interval"
    course.by = "evaluation_return"
    assert course.look(70, 200) == checkpoints.BEST
    assert course.look(70, 190) == "", "the bar is that of the new measure now"


def test_where_nothing_is_learnt_no_interval_pushes_an_older_checkpoint_out(course: Course) -> None:
    course.begin()
    assert course.look(601, 1.0) == "interval"
    assert [course.look(601, 1.0, trains=False) for _ in range(10)] == [""] * 10, "its environments hang, say"
    assert course.look(601, 1.0) == "interval"


def test_what_a_checkpoint_covers_is_committed_before_it_is_there(course: Course) -> None:
    course.begin()
    course.writer.write("requested")
    course.state.progress = Progress(7, 1, 2, 1.0)
    course.writer.write("requested")
    assert course.there_at_commit == [0, 1] and len(checkpoints.every(course.run.checkpoints)) == 2

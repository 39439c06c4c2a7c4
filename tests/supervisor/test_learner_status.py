"""What follows from a learner's answers, and from none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from workbench import checkpoints
from workbench.metrics.status import ActorStatus, LearnerPhase, LearnerStatus
from workbench.supervisor import last_checkpoint, learner_status
from workbench.supervisor.diagnosis import reason
from workbench.supervisor.learner_status import LearnerTracker
from workbench.supervisor.process_group import ProcessGroup


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of tracker: [seconds]."""
    now = [0.0]
    monkeypatch.setattr(learner_status, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def look(at: float, *, steps: int = 7, stepping: bool = True) -> tuple[LearnerPhase, LearnerStatus]:
    """A learner's answer with a new look at its one actor."""
    actor = ActorStatus(0, steps=steps, last_seen_s=at, connected=True, stepping=stepping)
    return LearnerPhase("training"), LearnerStatus(frames=7, actors=(actor,))


def test_an_actor_that_does_not_answer_its_actions_is_hung(clock: list[float]) -> None:
    tracker = LearnerTracker()
    for second in range(31):
        clock[0] = float(second)
        tracker.note_status(*look(clock[0]), alive={0})
    assert tracker.hung() == [(0, 30.0)]


def test_an_actor_that_waits_for_actions_is_not(clock: list[float]) -> None:
    tracker = LearnerTracker()
    for second in range(31):
        clock[0] = float(second)
        tracker.note_status(*look(clock[0], stepping=second == 30), alive={0})
    assert tracker.hung() == []


def test_what_stood_still_while_everything_slept_is_not_hung(clock: list[float]) -> None:
    tracker = LearnerTracker()
    tracker.note_status(*look(0.0), alive={0})
    clock[0] = 3600.0
    tracker.note_status(*look(3600.0), alive={0})
    assert (tracker.hung(), tracker.stalls.frozen_s(3600.0)) == ([], 0.0)


def test_actors_of_a_learner_that_says_nothing_wait_for_it(clock: list[float]) -> None:
    tracker = LearnerTracker()
    tracker.note_status(*look(0.0), alive={0})
    for clock[0] in (30.0, 60.0):  # no answer, then one with the look of before
        assert tracker.hung() == []
        tracker.note_status(*look(0.0), alive={0})
    assert tracker.hung() == []
    for second in range(61, 92):
        clock[0] = float(second)
        tracker.note_status(*look(clock[0]), alive={0})
    assert tracker.hung() == [(0, 30.0)]


def test_an_answer_with_an_old_look_is_no_new_look(clock: list[float]) -> None:
    tracker = LearnerTracker()
    for second in range(31):
        clock[0] = float(second)
        tracker.note_status(*look(0.0), alive={0})
    clock[0] = 31.0
    tracker.note_status(*look(31.0), alive={0})
    assert tracker.hung() == []


def test_a_learner_that_begins_again_says_how_many_frames_it_repeats() -> None:
    tracker = LearnerTracker()
    group = cast(ProcessGroup, SimpleNamespace(
        actors={}, learner=SimpleNamespace(restarts=1, alive=True, started_at=0.0, waits_for=lambda: "")))
    reasons = []
    for frames in (5_000, 7_000, 4_000, 6_999, 7_001):
        tracker.note_status(LearnerPhase("training"), LearnerStatus(frames=frames), alive=set())
        reasons.append(reason("training", tracker, group, {}))
    again = "the learner began again from earlier: {} frames are to be made again"
    assert reasons == ["", "", again.format("3,000"), again.format("1"), ""]


@pytest.mark.parametrize("means, told", [
    ({"episode_return": 7.5, "episodes": 120, "judged_by": "episode_return"}, (7.5, 120, "episode_return")),
    ({"episode_return": "7.5", "no such": 1}, (None, 100, "")),  # damaged, or of another version
    (None, (3.0, 100, "")),  # written before checkpoints told it
])
def test_a_status_at_a_checkpoint_has_its_counters_and_its_means(
    tmp_path: Path, means: object, told: tuple[float | None, int, str]
) -> None:
    meta = {"steps": 5, "updates": 2, "time_s": 1.0, "means": means}
    checkpoint = checkpoints.write(tmp_path, frames=20, groups={"model": {}}, meta=meta, requested=False)
    status = last_checkpoint.at(checkpoint, LearnerStatus(frames=18, episode_return=3.0, episodes=100, hint="wait"))
    assert (status.frames, status.steps, status.updates, status.hint) == (20, 5, 2, "wait")
    assert (status.episode_return, status.episodes, status.judged_by) == told

"""Which endings of a process end the run."""

from __future__ import annotations

import pytest

from workbench.metrics.status import LearnerPhase, LearnerStatus
from workbench.supervisor.endings import Endings
from workbench.supervisor.hosts.life import ProcessEnding
from workbench.supervisor.hosts.local import Child
from workbench.supervisor.learner_status import LearnerTracker
from workbench.supervisor.process_group import EndedChild
from workbench.wire.lifeline import PASSING


@pytest.mark.parametrize(
    ("stepped", "starting", "hopeless"), [(False, True, True), (False, False, True), (True, True, True),
                                          (True, False, False)],
)
def test_an_actor_that_crashes_and_is_of_no_use_ends_the_run_however_slowly_it_starts(
    tmp_path, stepped: bool, starting: bool, hopeless: bool
) -> None:
    tracker, actor = LearnerTracker(), Child("actor-3", [], logs=tmp_path, environment={})
    endings = Endings(tracker)
    tracker.stepped = {3} if stepped else set()
    crash = EndedChild(actor, 3, ProcessEnding(-11, None, recent=1, first=False))  # the one before is long forgotten
    said = [endings.is_hopeless(crash, starting=starting) for _ in range(6)]
    assert said == [False] * 5 + [hopeless]


def test_an_actor_whose_machine_is_taken_now_and_then_before_it_steps_is_started_again(tmp_path) -> None:
    endings = Endings(LearnerTracker())
    actor = Child("actor-3", [], logs=tmp_path, environment={})
    lost = EndedChild(actor, 3, ProcessEnding(-9, None, recent=1, first=False, lost="its node is gone"))
    assert not any(endings.is_hopeless(lost, starting=True) for _ in range(10))


def test_a_learner_that_never_makes_an_update_ends_the_run_however_slowly_it_starts(tmp_path) -> None:
    tracker, learner = LearnerTracker(), Child("learner", [], logs=tmp_path, environment={})
    endings = Endings(tracker)
    crash = EndedChild(learner, None, ProcessEnding(1, None, recent=1, first=False))  # the one before is long forgotten
    for updates in (1000, 2000):  # it goes on from a checkpoint, dies now and then, and comes further
        tracker.note_status(LearnerPhase("training"), LearnerStatus(updates=updates), alive=set())
        assert not any(endings.is_hopeless(crash, starting=False) for _ in range(5))
    assert endings.is_hopeless(crash, starting=False)


def test_lives_of_a_learner_that_are_lost_with_their_machine_count_within_a_minute_alone(tmp_path) -> None:
    endings, learner = Endings(LearnerTracker()), Child("learner", [], logs=tmp_path, environment={})

    def lost(recent: int) -> EndedChild:
        return EndedChild(learner, None, ProcessEnding(-9, None, recent, first=False, lost="its node is gone"))

    crash = EndedChild(learner, None, ProcessEnding(1, None, recent=1, first=False))
    assert not any(endings.is_hopeless(lost(1), starting=True) for _ in range(10))
    assert not any(endings.is_hopeless(crash, starting=True) for _ in range(5))
    assert endings.is_hopeless(lost(6), starting=True)


def test_an_exit_code_of_a_users_own_is_no_ending_that_passes(tmp_path) -> None:
    endings = Endings(LearnerTracker())
    actor = Child("actor-0", [], logs=tmp_path, environment={})
    ended = [EndedChild(actor, 0, ProcessEnding(PASSING, None, recent, first=recent == 1)) for recent in range(1, 8)]
    assert all(endings.note(one) for one in ended)
    assert [endings.is_hopeless(one, starting=True) for one in ended] == [False] * 5 + [True] * 2


def test_the_event_of_a_process_that_raised_says_what(tmp_path) -> None:
    endings, learner = Endings(LearnerTracker()), Child("learner", [], logs=tmp_path, environment={})
    learner.log.write_text("Traceback (most recent call last):\n  File x\nValueError: my own network\n")
    for code, said in ((1, "exit code 1: ValueError: my own network"), (-9, "signal 9 (SIGKILL)")):
        ended = EndedChild(learner, None, ProcessEnding(code, None, recent=1, first=True))
        assert endings.event(ended) == ("error", f"learner ended with {said}")

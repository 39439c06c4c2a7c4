"""What stands still is named, in numbers and in words."""

from workbench.supervisor.stalls import Stalls, explain


def test_an_actor_without_steps_while_others_go_on_is_hung() -> None:
    stalls = Stalls(now=0.0)
    for now in range(13):
        stalls.note_steps(float(now), frames=now, actor_steps={"0": 5, "1": now})
    assert stalls.hung(12.0) == [("0", 12.0)]


def test_an_actor_that_waits_for_actions_is_not_hung() -> None:
    stalls = Stalls(now=0.0)
    for now in (0.0, 30.0, 60.0):
        stalls.note_steps(now, frames=0, actor_steps={"0": 5, "1": 7}, waiting={"0"})
    assert stalls.hung(60.0) == [("1", 60.0)]
    assert stalls.frozen_s(60.0) == 60.0
    stalls.forget("1")
    assert stalls.hung(60.0) == []


def test_what_was_meant_to_stand_still_starts_counting_anew() -> None:
    stalls = Stalls(now=0.0)
    stalls.note_steps(0.0, frames=3, actor_steps={"0": 5, "1": 7})
    stalls.restart_clocks(60.0)
    stalls.note_steps(61.0, frames=4, actor_steps={"0": 5, "1": 8})
    assert stalls.hung(61.0) == []
    assert stalls.frozen_s(61.0) == 0.0


def test_an_actor_that_is_gone_is_forgotten() -> None:
    stalls = Stalls(now=0.0)
    stalls.note_steps(0.0, frames=0, actor_steps={"0": 5, "1": 7})
    stalls.note_steps(30.0, frames=9, actor_steps={"1": 9})
    assert stalls.hung(31.0) == []


def told(**changes: object) -> str:
    calm = {
        "paused": False, "learner_down": "", "learner_silent_s": 0.0, "learner_mute": "", "learner_reason": "",
        "dead_actors": [], "actors": 4, "hung": [], "late": [], "frozen_s": 0.0,
    }  # fmt: skip
    return explain(**{**calm, **changes})  # type: ignore[arg-type]


def test_a_run_at_full_speed_needs_no_reason() -> None:
    assert told() == ""


def test_a_stall_is_told_in_plain_words() -> None:
    dead = [("1", "signal 9 (SIGKILL)"), ("3", "exit code 1")]
    assert told(dead_actors=dead, frozen_s=12.2) == "2 of 4 actors dead (exit code 1), batch waiting 12 s"
    assert told(hung=[("2", 14.6)]) == "actor 2 has made no step for 15 s"
    assert told(late=[("2", 14.6)]) == "actor 2 has been starting for 15 s"
    assert told(learner_silent_s=9.0) == "the learner has not answered for 9 s"
    assert told(learner_silent_s=9.0, learner_mute="KeyError: 3") == "the learner has not answered for 9 s: KeyError: 3"


def test_a_pause_is_no_stall() -> None:
    assert told(paused=True, frozen_s=600.0, learner_reason="paused by hand") == "paused by hand"


def test_a_dead_learner_is_the_whole_reason() -> None:
    assert told(learner_down="the learner ended", frozen_s=20.0) == "the learner ended"

"""The clocks of actors that make no step, and of a run without frames."""

from workbench.supervisor.stalls import Stalls


def test_an_actor_without_steps_while_others_go_on_is_hung() -> None:
    stalls = Stalls(now=0.0)
    for now in range(13):
        stalls.note_steps(float(now), frames=now, actor_steps={0: 5, 1: now})
    assert stalls.hung(12.0) == [(0, 12.0)]


def test_an_actor_that_waits_for_actions_is_not_hung() -> None:
    stalls = Stalls(now=0.0)
    for now in (0.0, 30.0, 60.0):
        stalls.note_steps(now, frames=0, actor_steps={0: 5, 1: 7}, waiting={0})
    assert stalls.hung(60.0) == [(1, 60.0)]
    assert stalls.frozen_s(60.0) == 60.0
    stalls.forget(1)
    assert stalls.hung(60.0) == []


def test_what_was_meant_to_stand_still_starts_counting_anew() -> None:
    stalls = Stalls(now=0.0)
    stalls.note_steps(0.0, frames=3, actor_steps={0: 5, 1: 7})
    stalls.restart_clocks(60.0)
    stalls.note_steps(61.0, frames=4, actor_steps={0: 5, 1: 8})
    assert stalls.hung(61.0) == []
    assert stalls.frozen_s(61.0) == 0.0


def test_an_actor_that_is_gone_is_forgotten() -> None:
    stalls = Stalls(now=0.0)
    stalls.note_steps(0.0, frames=0, actor_steps={0: 5, 1: 7})
    stalls.note_steps(30.0, frames=9, actor_steps={1: 9})
    assert stalls.hung(31.0) == []

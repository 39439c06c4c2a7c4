"""Why a run is not at full speed, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from workbench.metrics.status import LearnerPhase
from workbench.supervisor import diagnosis
from workbench.supervisor.learner_status import LearnerTracker
from workbench.supervisor.process_group import ProcessGroup

NOW = 100.0
ACTORS = 4


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "time", SimpleNamespace(monotonic=lambda: NOW))


def told(
    state: str = "training", *, down: bool = False, silent_s: float = 0.0, mute: str = "", phase: str = "",
    dead: Mapping[int, str] | None = None, hung: Sequence[tuple[int, float]] = (),
    late: Mapping[int, float] | None = None, frozen_s: float = 0.0,
) -> str:
    """The reason of a run with ACTORS actors.

    Args:
        dead: how actors ended that have no process; late: seconds since others were connected to the learner.
    """
    endings: dict[int | None, str] = {None: "exit code 1", **(dead or {})}
    tracker = SimpleNamespace(
        has_status_of=lambda learner: not down, silent_s=lambda: silent_s, mute=mute, phase=LearnerPhase(state, phase),
        to_repeat=0, unconnected={index: NOW - seconds for index, seconds in (late or {}).items()},
        hung=lambda: hung, stalls=SimpleNamespace(frozen_s=lambda now: frozen_s))
    group = SimpleNamespace(learner=child(alive=not down), actors={
        index: child(alive=index not in endings) for index in range(ACTORS)})
    return diagnosis.reason(state, cast(LearnerTracker, tracker), cast(ProcessGroup, group), endings)


def child(*, alive: bool) -> SimpleNamespace:
    return SimpleNamespace(alive=alive, restarts=0, started_at=NOW - 60.0, waits_for=lambda: "", waiting_s=lambda: 1.6)


def test_a_run_at_full_speed_needs_no_reason() -> None:
    assert told() == ""


def test_a_stall_is_told_in_plain_words() -> None:
    dead = {1: "signal 9 (SIGKILL)", 3: "exit code 1"}
    assert told(dead=dead, frozen_s=12.2) == "2 of 4 actors dead (exit code 1), batch waiting 12 s"
    assert told(hung=[(2, 14.6)]) == "actor 2 has made no step for 15 s"
    assert told(late={2: 14.6}) == "actor 2 has been starting for 15 s"
    assert told(silent_s=9.0) == "the learner has not answered for 9 s"
    assert told(silent_s=9.0, mute="KeyError: 3") == "the learner has not answered for 9 s: KeyError: 3"


def test_of_several_reasons_the_learners_come_first_and_what_it_says_itself_last() -> None:
    assert told(silent_s=9.0, dead={3: ""}, hung=[(0, 20.0)], late={1: 30.0}, frozen_s=12.0, phase="compiling") == (
        "the learner has not answered for 9 s, 1 of 4 actors dead, actor 0 has made no step for 20 s, actor 1 has been "
        "starting for 30 s, batch waiting 12 s, compiling")


def test_of_a_run_that_starts_the_actors_are_told_that_make_no_step() -> None:
    assert told("starting", frozen_s=600.0, hung=[(2, 600.0)], late={1: 30.0}, phase="collecting") == (
        "actor 2 has made no step for 600 s, actor 1 has been starting for 30 s, collecting")


def test_a_pause_is_no_stall() -> None:
    assert told("paused", frozen_s=600.0, hung=[(2, 600.0)], late={1: 600.0}, phase="paused by hand") == (
        "paused by hand")


def test_a_dead_learner_is_the_whole_reason() -> None:
    assert told(down=True, frozen_s=20.0, dead={1: ""}) == (
        "the learner is being restarted (in 1.6 s): it ended with exit code 1")

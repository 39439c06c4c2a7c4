"""Several learners as one child: when it lives, and which of them is the reason for its end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from workbench.supervisor import learner_group as module
from workbench.supervisor.hosts.life import BackOff, ProcessEnding
from workbench.supervisor.learner_group import LearnerGroup
from workbench.wire.lifeline import PEERS_LOST


class Member:
    """A learner that ends when the test says so, or when it is killed."""

    def __init__(self, name: str) -> None:
        self.name, self.restarts, self.started_at = name, -1, 0.0
        self.pid: int | None = None
        self.alive = False
        self.asked: list[tuple[str, float]] = []
        self.code: int | None = None

    def waiting_s(self) -> float:
        return 0.0

    def start_if_due(self) -> bool:
        self.alive, self.code, self.restarts, self.asked = True, None, self.restarts + 1, []
        return True

    def poll(self) -> ProcessEnding | None:
        if not self.alive or self.code is None:
            return None
        self.alive = False
        return ProcessEnding(self.code, None, 0 if self.asked else 1, first=self.restarts == 0)

    def end(self, grace_s: float) -> None:
        self.asked.append(("end", grace_s))

    def expect_end(self, grace_s: float) -> None:
        self.asked.append(("expect_end", grace_s))
        if grace_s == 0 and self.code is None:
            self.code = -signal.SIGKILL

    def kill(self) -> None:
        self.code = -signal.SIGKILL

    def log_tail(self) -> str:
        return f"log of {self.name}"


Started = tuple[LearnerGroup, list[Member]]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    monkeypatch.setattr(module, "_SHOW_S", 0.0)
    members = [Member("learner"), Member("learner-1"), Member("learner-2")]
    begun: list[str] = []
    group = LearnerGroup(members, begin=lambda: begun.append("begun"))
    assert group.start_if_due() and not group.start_if_due()
    assert begun == ["begun"] and group.alive and group.restarts == 0
    yield group, members


def test_what_fails_before_all_start_is_tried_again_after_a_back_off(capfd: pytest.CaptureFixture[str]) -> None:
    begin = Mock(side_effect=[OSError("stale file handle"), None])
    group = LearnerGroup([Member("learner"), Member("learner-1")], begin=begin)
    assert not group.start_if_due() and not group.alive and group.waiting_s() > 0
    assert "stale file handle" in capfd.readouterr().err, "for its log"
    group.back_off = BackOff()
    assert group.start_if_due() and group.restarts == 0


def ending_of(group: LearnerGroup) -> ProcessEnding:
    """How the group ended, within a few turns of its supervisor."""
    for _ in range(5):
        if (ending := group.poll()) is not None:
            return ending
    raise AssertionError("the group goes on")


def test_one_that_dies_ends_all_and_is_the_reason(started: Started) -> None:
    group, members = started
    assert group.poll() is None
    members[0].code = PEERS_LOST  # it saw that sooner than the supervisor
    members[2].code = -signal.SIGSEGV
    ending = ending_of(group)
    assert (ending.code, ending.recent, ending.first, group.name) == (-signal.SIGSEGV, 1, True, "learner-2")
    assert group.log_tail() == "log of learner-2"
    assert not group.alive and group.poll() is None and group.waiting_s() > 0


def test_one_that_hangs_until_the_others_give_up_is_killed_and_is_the_reason(started: Started) -> None:
    group, members = started
    members[0].code = members[2].code = PEERS_LOST
    ending = ending_of(group)
    assert group.name == "learner-1" and "no answer to the other learners" in str(ending)


def test_those_that_have_finished_are_waited_for(started: Started) -> None:
    group, members = started
    members[1].code = members[2].code = 0
    assert group.poll() is None and group.alive, "the first one writes the last checkpoint"
    assert not members[0].asked
    members[0].code = 0
    assert ending_of(group).code == 0 and group.name == "learner"


def test_a_last_checkpoint_that_fails_is_the_reason_though_the_others_finished(started: Started) -> None:
    group, members = started
    members[1].code = members[2].code = 0
    assert group.poll() is None
    members[0].code = 1
    assert ending_of(group).code == 1 and group.name == "learner"


def test_once_the_first_one_has_stopped_the_others_are_asked_to(started: Started) -> None:
    group, members = started
    group.expect_end(60.0)
    assert [member.asked for member in members] == [[("expect_end", 60.0)]] * 3
    members[0].code = 0
    assert group.poll() is None
    assert members[1].asked[-1][0] == members[2].asked[-1][0] == "end"
    members[1].code = members[2].code = PEERS_LOST
    ending = ending_of(group)
    assert (ending.code, ending.recent) == (PEERS_LOST, 0), "asked for: no failure"


def test_all_are_killed_together(started: Started) -> None:
    group, members = started
    group.kill()
    assert ending_of(group).code == -signal.SIGKILL

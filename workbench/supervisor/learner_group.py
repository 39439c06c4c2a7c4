"""The learners of a run as one child: they start together, and the end of one ends all, with its exit as the reason.

A learner that loses its connection to another ends with PEERS_LOST, which is no reason: the other has it. If all ends
so far are PEERS_LOST, the learners that still live hang.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from workbench.supervisor.hosts.life import Life, ProcessEnding
from workbench.wire.lifeline import PEERS_LOST

_SHOW_S = 3.0  # for the end of a learner after the others have lost it
_FOLLOW_S = 3.0  # for the end of the others after a requested end of the first learner


class LearnerGroup(Life):
    """Several learners as one `Life`.

    Attributes:
        name: of the learner that ended first while all are down; else "learner".
        members: the learners by rank.
    """

    def __init__(self, members: Sequence[Life], *, begin: Callable[[], object]) -> None:
        super().__init__(members[0].name)
        self.members = members
        self._begin = begin
        self._endings: list[tuple[Life, ProcessEnding]] = []  # in the order in which `poll` saw them
        self._hung: list[Life] = []  # alive, though the others have lost them
        self._alive = False

    @property
    def alive(self) -> bool:
        return self._alive

    @property
    def pid(self) -> int | None:
        """The first learner's process, while it is alive."""
        return self.members[0].pid

    def waiting_s(self) -> float:
        return max(super().waiting_s(), *(member.waiting_s() for member in self.members))

    def waits_for(self) -> str:
        """What a life that began still waits for before all learners have a process; "": nothing."""
        return next((waits for member in self.members if (waits := member.waits_for())), "")

    def start_if_due(self) -> bool:
        """Begin a life of all if there is none and the back-off is over; returns whether it did."""
        if self.alive or self.waiting_s() > 0 or not self.back_off.started(self._begin):
            return False
        started = [member.start_if_due() for member in self.members]  # a list: the others start after a failure too
        if not any(started):
            return False
        self.name = self.members[0].name
        self._began()
        self._endings, self._hung, self._alive = [], [], True
        if not all(started):
            self._kill_at = 0.0
        return True

    def poll(self) -> ProcessEnding | None:
        """How this life ended, returned once, after the end of all learners; None otherwise."""
        if not self._alive:
            return None
        for member in self.members:
            if (ending := member.poll()) is not None:
                self._note_ending(member, ending)
        if time.monotonic() > self._kill_at:  # learners that hang
            self._kill_at = float("inf")
            self._hung = [member for member in self.members if member.alive and self._endings]
            self._end_rest(0.0)
        if any(member.alive for member in self.members):
            return None
        self._alive = False
        return self._group_ending()

    def _note_ending(self, member: Life, ending: ProcessEnding) -> None:
        """End the others after a failure of `member`; after PEERS_LOST, wait _SHOW_S for the end of the lost one."""
        if member in self._hung:
            ending = replace(ending, lost="no answer to the other learners, and was killed")
        self._endings.append((member, ending))
        if ending.code not in (0, PEERS_LOST):
            self._end_rest(0.0)
        elif ending.code == PEERS_LOST:
            self._kill_at = min(self._kill_at, time.monotonic() + _SHOW_S)
        elif self._asked_to_end and member is self.members[0]:
            self._end_rest(_FOLLOW_S)

    def _end_rest(self, grace_s: float) -> None:
        for member in self.members:
            if member.alive:
                (member.end if grace_s else member.expect_end)(grace_s)

    def _group_ending(self) -> ProcessEnding:
        """The earliest ending other than PEERS_LOST; that of the first learner if all have finished."""
        if not any(ending.code for _, ending in self._endings):
            self._endings.sort(key=lambda pair: self.members.index(pair[0]))
        culprit, ending = min(self._endings, key=lambda pair: _RANKS.get(pair[1].code, 0))
        self.name = culprit.name
        return self._ended(ending.code, ending.error, lost=ending.lost)

    def end(self, grace_s: float) -> None:
        self._asked_to_end = True
        self._end_rest(grace_s)

    def expect_end(self, grace_s: float) -> None:
        self._asked_to_end = True
        for member in self.members:
            if member.alive:
                member.expect_end(grace_s)

    def kill(self) -> None:
        """Kill all learners and what they started."""
        for member in self.members:
            member.kill()

    def log_tail(self) -> str:
        """The last lines of the log of the learner that ended first, or of the first learner."""
        return next(member for member in self.members if member.name == self.name).log_tail()


_RANKS = {PEERS_LOST: 1, 0: 2}  # of exit codes as the reason of an end; any other code has rank 0

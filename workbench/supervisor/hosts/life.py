"""One process of a run through all its lives, wherever they are: how they end, and the delay before the next one.

The process group starts, polls and ends every `Life` in the same way. Its subclasses: `local.Child`, a process of this
machine; `ray.RemoteChild`, one on some node; `launchers.inline.threads.ThreadLife`; `learner_group.LearnerGroup`.
"""

from __future__ import annotations

import math
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from workbench.tables import exit_words

POLL_S = 0.02  # between two polls of a life whose end somebody waits for

_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 10.0
_FAILURE_WINDOW_S = 60.0  # failures older than this are forgotten


@dataclass(frozen=True)
class ProcessEnding:
    """How one life ended.

    Attributes:
        code: exit code; negative: the signal that ended it.
        error: {"type", "message"} that it wrote, if it ended with FATAL.
        recent: failures within the last minute, this one included; 0: the end was requested.
        first: whether this was its first life.
        lost: the cause, where the ending is unknown because the watching machine or process is gone.
    """

    code: int
    error: dict[str, str] | None
    recent: int
    first: bool
    lost: str = ""

    def __str__(self) -> str:
        if self.lost:
            return self.lost
        if self.error is not None:
            return f"{self.error['type']}: {self.error['message'].splitlines()[0]}" if self.error["message"] else ""
        return exit_words(self.code)


class BackOff:
    """The delay before a restart: 0.1 s, doubled by each failure within a minute, up to 10 s."""

    def __init__(self) -> None:
        self._failures: deque[float] = deque()
        self._next = 0.0

    def failed(self) -> int:
        """Count a failure; returns the number of failures within the last minute."""
        now = time.monotonic()
        self._failures.append(now)
        while self._failures[0] < now - _FAILURE_WINDOW_S:
            self._failures.popleft()
        doubled = _FIRST_DELAY_S * 2.0 ** min(len(self._failures) - 1, 16)
        self._next = now + min(doubled, _LONGEST_DELAY_S)
        return len(self._failures)

    def waiting_s(self) -> float:
        """Seconds until the next start is due; 0: now."""
        return max(0.0, self._next - time.monotonic())

    def started(self, start: Callable[[], object]) -> bool:
        """Call `start` if it is due; returns whether it began a life. An error of it is a failure like any other: no
        memory, no cluster now."""
        if self.waiting_s() > 0:
            return False
        try:
            start()
        except Exception:
            traceback.print_exc()
            self.failed()
            return False
        return True


class Life(ABC):
    """A child of a run as the process group uses it.

    Attributes:
        name: "learner", "learner-1" or "actor-3"; names its log.
        restarts: lives after the first; -1 before it.
        started_at: when this life began, on the monotonic clock.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.restarts = -1
        self.started_at = 0.0
        self.back_off = BackOff()
        self._asked_to_end = False
        self._kill_at = math.inf  # on the monotonic clock

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether a life goes on whose end `poll` has not returned."""

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """Its process on its machine, while it is alive."""

    @abstractmethod
    def start_if_due(self) -> bool:
        """Begin a life if there is none and the back-off is over; returns whether it did."""

    def waiting_s(self) -> float:
        """Seconds until the next start is due; 0: now."""
        return self.back_off.waiting_s()

    def waits_for(self) -> str:
        """What a life that began still waits for before it has a process, in words; "": nothing."""
        return ""

    @abstractmethod
    def poll(self) -> ProcessEnding | None:
        """How this life ended, returned once; None otherwise."""

    @abstractmethod
    def end(self, grace_s: float) -> None:
        """Request the end of this life; `poll` kills it after `grace_s` seconds."""

    def expect_end(self, grace_s: float) -> None:
        """Count the coming end of this life as requested, no failure; `poll` kills it after `grace_s` seconds."""
        if self.alive:
            self._asked_to_end, self._kill_at = True, time.monotonic() + grace_s

    @abstractmethod
    def kill(self) -> None:
        """Kill this life and what it started."""

    @abstractmethod
    def log_tail(self) -> str:
        """The last lines that this life has logged."""

    def _began(self) -> None:
        """Count a life that begins now."""
        self.restarts += 1
        self.started_at = time.monotonic()
        self._asked_to_end, self._kill_at = False, math.inf

    def _ended(self, code: int, error: dict[str, str] | None, *, lost: str = "") -> ProcessEnding:
        """The ending of this life; one that nobody requested is a failure, which lengthens the back-off."""
        recent = 0 if self._asked_to_end else self.back_off.failed()
        return ProcessEnding(code, error, recent, first=self.restarts == 0, lost=lost)

"""A child process of a run, its log, and when it may start again.

Each life of a child has its own process group, so that what it started itself ends with it, and a pipe as standard
input whose other end only the supervisor holds: when the supervisor dies, the pipe closes and the child ends itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from workbench.rundir.files import place_or, tail, to_append
from workbench.wire.lifeline import FATAL

POLL_S = 0.02

_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 10.0
_FATAL_GRACE_S = 3.0  # for a child that has left its error and does not end
_FAILURE_WINDOW_S = 60.0  # failures older than this are forgotten
_LOG_TAIL_BYTES = 4000


@dataclass(frozen=True)
class Ending:
    """How one life of a child ended.

    Attributes:
        code: exit code; negative: the signal that ended it.
        error: {"type", "message"} that it left behind, if it ended with FATAL.
        recent: failures of this child within the last minute, this one included; 0: it was asked to end.
        first: whether this was its first life.
        lost: what is known where the machine or process that watched over it is gone, and with it how it ended.
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
        if self.code < 0:
            return f"signal {-self.code} ({signal.Signals(-self.code).name})"
        return f"exit code {self.code}"


class BackOff:
    """When to start again: at once after 0.1 s, then doubling to 10 s while failures go on."""

    def __init__(self) -> None:
        self._failures: deque[float] = deque()
        self._next = 0.0

    def failed(self) -> int:
        """Note a failure; returns how many there were within the last minute."""
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


class Child:
    """One background process of a run through all its lives.

    Attributes:
        name: "learner" or "actor-3"; names its log.
        restarts: lives after the first; -1 before it.
        started_at: when this life began, on the monotonic clock.
    """

    def __init__(
        self, name: str, arguments: Sequence[str], *, logs: Path, environment: Mapping[str, str],
        keep_open: int | None = None,
    ) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        self.restarts = -1
        self.started_at = 0.0
        self.back_off = BackOff()
        self._arguments = [sys.executable, "-P", "-m", "workbench", *arguments]
        self._error = logs / f"{name}.error.json"
        self._environment = dict(environment)
        self._keep_open = keep_open
        self._process: subprocess.Popen[bytes] | None = None
        self._kill_at = float("inf")
        self._asked_to_end = False

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def waiting_s(self) -> float:
        """Seconds until the next start is due; 0: now."""
        return self.back_off.waiting_s()

    def waits_for(self) -> str:
        """Nothing: the process begins with the life."""
        return ""

    def start(self) -> None:
        """Begin a life."""
        self._error.unlink(missing_ok=True)
        with to_append(self.log) as log:
            self._process = subprocess.Popen(
                self._arguments,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=place_or(self.log.parent),
                process_group=0,
                pass_fds=() if self._keep_open is None else (self._keep_open,),
            )
        self.restarts += 1
        self.started_at = time.monotonic()
        self._kill_at, self._asked_to_end = float("inf"), False

    def start_if_due(self) -> bool:
        """Begin a life if there is none and the back-off is over; returns whether it did."""
        if self.alive or self.back_off.waiting_s() > 0:
            return False
        try:
            self.start()
        except OSError:  # no memory or no process to be had now: as any failure
            traceback.print_exc()
            self.back_off.failed()
            return False
        return True

    def poll(self) -> Ending | None:
        """How this life ended, once; None while it goes on or after that was told."""
        if self._process is None:
            return None
        gave_up = self._error.exists()
        if gave_up and not self._asked_to_end:  # it has said why it ends; threads that hang must not keep it
            self._kill_at = min(self._kill_at, time.monotonic() + _FATAL_GRACE_S)
        if time.monotonic() > self._kill_at:
            self.kill()
        if not _has_ended(self._process.pid):
            return None
        self.kill()  # what is left of its process group; its own pid is not reaped, so the group is still its own
        code = self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None
        recent = 0 if self._asked_to_end else self.back_off.failed()
        return Ending(code, self._left_error() if code == FATAL or gave_up else None, recent, first=self.restarts == 0)

    def end(self, grace_s: float) -> None:
        """Ask this life to end; `poll` kills it after `grace_s` seconds."""
        if self._process is None or self._asked_to_end:
            return
        self.expect_end(grace_s)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill this life and what it started."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def expect_end(self, grace_s: float) -> None:
        """Somebody wants this life to end: that is no failure, and `poll` kills it after `grace_s` seconds."""
        self._asked_to_end = True
        self._kill_at = time.monotonic() + grace_s

    def log_tail(self) -> str:
        """The last lines of the log."""
        return tail(self.log, _LOG_TAIL_BYTES)

    def _left_error(self) -> dict[str, str]:
        try:
            told = json.loads(self._error.read_bytes())
            return {"type": str(told["type"]), "message": str(told["message"])}
        except (OSError, ValueError, KeyError, TypeError):
            return {"type": "RunFailed", "message": f"{self.name} gave up. Its log ends:\n{self.log_tail()}"}


def _has_ended(pid: int) -> bool:
    """Whether our child has ended; does not reap it, so that its pid and group stay its own."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


class Polled(Protocol):
    """A child as `wait_for_all` sees it."""

    @property
    def alive(self) -> bool: ...

    def poll(self) -> Ending | None: ...


def wait_for_all(children: Sequence[Polled]) -> None:
    """Poll until every child has ended; each must have been asked to end or killed."""
    while any(child.alive for child in children):
        for child in children:
            child.poll()
        time.sleep(POLL_S)

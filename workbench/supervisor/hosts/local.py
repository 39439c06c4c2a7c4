"""A child process of a run, with its log and its restarts.

Each life of a child has a process group, which also ends the processes that the child starts, and a pipe as standard
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workbench.rundir.files import place_or, tail, to_append
from workbench.tables import exit_words
from workbench.wire.lifeline import FATAL

POLL_S = 0.02

_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 10.0
_FATAL_GRACE_S = 3.0  # for the end of a child that has written its error
_FAILURE_WINDOW_S = 60.0  # failures older than this are forgotten


@dataclass(frozen=True)
class ProcessEnding:
    """How one life of a child ended.

    Attributes:
        code: exit code; negative: the signal that ended it.
        error: {"type", "message"} that the child wrote, if it ended with FATAL.
        recent: failures of this child within the last minute, this one included; 0: the end was requested.
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

    def started(self, start: Callable[[], None]) -> bool:
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


class Child:
    """One background process of a run through all its lives; its methods are those of `hosts.host.Life`.

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
        return not self.alive and self.back_off.started(self.start)

    def poll(self) -> ProcessEnding | None:
        if self._process is None:
            return None
        gave_up = self._error.exists()
        if gave_up and not self._asked_to_end:  # its error is written; threads that hang must not keep it alive
            self._kill_at = min(self._kill_at, time.monotonic() + _FATAL_GRACE_S)
        if time.monotonic() > self._kill_at:
            self.kill()
        if not _has_ended(self._process.pid):
            return None
        self.kill()  # the rest of its process group, which no other process can have before the pid is reaped
        code = self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None
        recent = 0 if self._asked_to_end else self.back_off.failed()
        error = self._written_error() if code == FATAL or gave_up else None
        return ProcessEnding(code, error, recent, first=self.restarts == 0)

    def end(self, grace_s: float) -> None:
        if self._process is None or self._asked_to_end:
            return
        self.expect_end(grace_s)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def expect_end(self, grace_s: float) -> None:
        self._asked_to_end = True
        self._kill_at = time.monotonic() + grace_s

    def log_tail(self) -> str:
        return tail(self.log)

    def _written_error(self) -> dict[str, str]:
        try:
            error = json.loads(self._error.read_bytes())
            return {"type": str(error["type"]), "message": str(error["message"])}
        except (OSError, ValueError, KeyError, TypeError):
            return {"type": "RunFailed", "message": f"{self.name} ended with {exit_words(FATAL)} and left no reason"
                                               f"\nIts log ends:\n{self.log_tail() or '(it is empty)'}"}


def _has_ended(pid: int) -> bool:
    """Whether our child has ended. It is not reaped, so that no other process can get its pid and group."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

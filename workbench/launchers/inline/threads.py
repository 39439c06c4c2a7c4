"""A life as a thread of this process, with the interface of a child process (`supervisor.hosts.host.Life`).

A thread cannot be killed. What a process would be killed for, a thread is asked to leave at once; one that is stuck in
somebody's code for longer is given up: its life counts as over, and the next one waits until it is really gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from workbench.errors import WorkbenchError
from workbench.rundir.files import tail, to_append
from workbench.supervisor.hosts.local import BackOff, Ending
from workbench.wire.lifeline import FATAL

GIVEN_UP_AFTER_S = 5.0  # of a thread that was told to leave at once
_LOG_TAIL_BYTES = 4000


class Work(Protocol):
    """What a life does; `end` and `leave` come from other threads, also before `run`."""

    def run(self) -> None:
        """Do it until it is done or asked to end. What it raises is how this life ended."""

    def end(self) -> None:
        """Come to an orderly end soon."""

    def leave(self) -> None:
        """Return from `run`, or raise, at the first chance, without last words."""


class ThreadLife:
    """One child of a run through all its lives, each a thread.

    Attributes:
        name: "learner" or "actor-3"; names its log.
        restarts: lives after the first; -1 before it.
        started_at: when this life began, on the monotonic clock.
        exception: what the last life that failed raised, with its traceback, for `pdb.post_mortem`; None: none did.
    """

    def __init__(self, name: str, make: Callable[[], Work], *, logs: Path) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        self.restarts = -1
        self.started_at = 0.0
        self.back_off = BackOff()
        self.exception: BaseException | None = None
        self._make = make
        self._work: Work | None = None
        self._thread: threading.Thread | None = None  # of this life; None: none goes on
        self._former: threading.Thread | None = None  # of a life that was given up
        self._raised: BaseException | None = None
        self._leave_at = self._give_up_at = float("inf")
        self._asked_to_end = self._told_to_leave = False

    @property
    def alive(self) -> bool:
        """Whether a life goes on that `poll` has not told the end of."""
        return self._thread is not None

    @property
    def pid(self) -> int | None:
        """This process, while it is alive."""
        return os.getpid() if self.alive else None

    @property
    def lingers(self) -> bool:
        """Whether a thread of this or of a former life is still there."""
        return any(one is not None and one.is_alive() for one in (self._thread, self._former))

    def waiting_s(self) -> float:
        """Seconds until the next start is due; 0: now."""
        return self.back_off.waiting_s()

    def waits_for(self) -> str:
        """Nothing: the thread begins with the life."""
        return ""

    def start_if_due(self) -> bool:
        """Begin a life if there is none, the back-off is over and no thread lingers; returns whether it did."""
        if self.alive or self.lingers or self.back_off.waiting_s() > 0:
            return False
        self.restarts += 1
        self.started_at = time.monotonic()
        self._leave_at = self._give_up_at = float("inf")
        self._asked_to_end = self._told_to_leave = False
        self._raised, self._work, self._former = None, self._make(), None
        self._thread = threading.Thread(target=self._live, args=(self._work,), name=self.name, daemon=True)
        self._note(f"{self.name} begins, as a thread of process {os.getpid()}")
        self._thread.start()
        return True

    def _live(self, work: Work) -> None:
        try:
            work.run()
        except BaseException as error:  # as a process it would have ended with this
            self._raised = error

    def poll(self) -> Ending | None:
        """How this life ended, once; None while it goes on or after that was told."""
        if self._thread is None or self._work is None:
            return None
        now = time.monotonic()
        if now > self._leave_at and not self._told_to_leave:
            self.kill()
        if self._thread.is_alive():
            if now < self._give_up_at:
                return None
            self._note(f"{self.name} does not leave; it is here, and cannot be killed:\n{_stack(self._thread)}")
            self._former = self._thread
        self._thread = self._work = None
        return self._ending()

    def _ending(self) -> Ending:
        raised, asked = self._raised, self._asked_to_end
        if raised is not None and not self._told_to_leave:
            self._note("".join(traceback.format_exception(raised)))
            self.exception = raised
        error, code = None, 0
        if self._told_to_leave:
            code = -signal.SIGKILL  # what a process would have ended with
        elif isinstance(raised, WorkbenchError):
            error, code = {"type": type(raised).__name__, "message": str(raised)}, FATAL
        elif raised is not None:
            code = 1
        recent = 0 if asked else self.back_off.failed()
        return Ending(code, error, recent, first=self.restarts == 0)

    def end(self, grace_s: float) -> None:
        """Ask this life to end; `poll` tells it to leave at once after `grace_s` seconds."""
        if self._work is None or self._asked_to_end:
            return
        self.expect_end(grace_s)
        self._work.end()

    def expect_end(self, grace_s: float) -> None:
        """Somebody wants this life to end: that is no failure, and `poll` tells it to leave after `grace_s` seconds."""
        self._asked_to_end = True
        self._leave_at = time.monotonic() + grace_s

    def kill(self) -> None:
        """Tell this life to leave at once; it is given up when it does not."""
        if self._work is not None and not self._told_to_leave:
            self._told_to_leave, self._give_up_at = True, time.monotonic() + GIVEN_UP_AFTER_S
            self._work.leave()

    def log_tail(self) -> str:
        """The last lines of the log."""
        return tail(self.log, _LOG_TAIL_BYTES)

    def _note(self, text: str) -> None:
        with suppress(OSError), to_append(self.log) as log:
            log.write(f"{time.strftime('%F %T')} {text.rstrip()}\n".encode())


def _stack(thread: threading.Thread) -> str:
    """Where a thread is now."""
    frame = sys._current_frames().get(thread.ident or 0)
    return "".join(traceback.format_stack(frame)) if frame else ""

"""A life as a thread of this process, with the interface of a child process.

A thread cannot be killed. Where a process would be killed, a thread is asked to leave at once. One that stays longer,
stuck in some code, is given up: its life counts as over, and the next life waits until the thread has ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from workbench.errors import WorkbenchError, record_of
from workbench.rundir.dated_lines import append_dated
from workbench.rundir.files import tail
from workbench.supervisor.hosts.life import Life, ProcessEnding
from workbench.wire.lifeline import FATAL

GIVEN_UP_AFTER_S = 5.0  # after a thread was asked to leave at once


class Work(Protocol):
    """The work of a life; other threads call `end` and `leave`, possibly before `run`."""

    def run(self) -> None:
        """Work until done, or until `end` or `leave`. What it raises says how this life ended."""

    def end(self) -> None:
        """Come to an orderly end soon."""

    def leave(self) -> None:
        """Let `run` return or raise as soon as possible, without a last checkpoint."""


class ThreadLife(Life):
    """One child of a run in all its lives, each a thread.

    Attributes:
        exception: of the last life that failed, with its traceback, for `pdb.post_mortem`; None: no life failed.
    """

    def __init__(self, name: str, make: Callable[[], Work], *, logs: Path) -> None:
        super().__init__(name)
        self.log = logs / f"{name}.log"
        self.exception: BaseException | None = None
        self._make = make
        self._work: Work | None = None
        self._thread: threading.Thread | None = None  # of this life; None: there is none
        self._former: threading.Thread | None = None  # of a life that was given up
        self._error: BaseException | None = None
        self._give_up_at = float("inf")
        self._asked_to_leave = False

    @property
    def alive(self) -> bool:
        return self._thread is not None

    @property
    def pid(self) -> int | None:
        """This process, while it is alive."""
        return os.getpid() if self.alive else None

    @property
    def lingers(self) -> bool:
        """Whether a thread of this or of a former life still runs."""
        return any(thread is not None and thread.is_alive() for thread in (self._thread, self._former))

    def start_if_due(self) -> bool:
        """Begin a life if there is none, the back-off is over and no thread lingers. Returns whether it did."""
        if self.alive or self.lingers or self.waiting_s() > 0:
            return False
        self._began()
        self._give_up_at = float("inf")
        self._asked_to_leave = False
        self._error, self._work, self._former = None, self._make(), None
        self._thread = threading.Thread(target=self._live, args=(self._work,), name=self.name, daemon=True)
        self._note(f"{self.name} begins, as a thread of process {os.getpid()}")
        self._thread.start()
        return True

    def _live(self, work: Work) -> None:
        try:
            work.run()
        except BaseException as error:  # a process would have ended with it
            self._error = error

    def poll(self) -> ProcessEnding | None:
        if self._thread is None or self._work is None:
            return None
        now = time.monotonic()
        if now > self._kill_at and not self._asked_to_leave:
            self.kill()
        if self._thread.is_alive():
            if now < self._give_up_at:
                return None
            self._note(f"{self.name} does not leave, and cannot be killed; it is here:\n{_stack(self._thread)}")
            self._former = self._thread
        self._thread = self._work = None
        return self._ending()

    def _ending(self) -> ProcessEnding:
        exception, report, code = self._error, None, 0
        if exception is not None and not self._asked_to_leave:
            self._note("".join(traceback.format_exception(exception)))
            self.exception = exception
        if self._asked_to_leave:
            code = -signal.SIGKILL  # what a process would have ended with
        elif isinstance(exception, WorkbenchError):
            report, code = record_of(exception), FATAL
        elif exception is not None:
            code = 1
        return self._ended(code, report)

    def end(self, grace_s: float) -> None:
        """Ask this life to end; after `grace_s` seconds, `poll` asks it to leave at once."""
        if self._work is None or self._asked_to_end:
            return
        self.expect_end(grace_s)
        self._work.end()

    def kill(self) -> None:
        """Ask this life to leave at once; it is given up if it does not."""
        if self._work is not None and not self._asked_to_leave:
            self._asked_to_leave, self._give_up_at = True, time.monotonic() + GIVEN_UP_AFTER_S
            self._work.leave()

    def log_tail(self) -> str:
        return tail(self.log)

    def _note(self, text: str) -> None:
        append_dated(self.log, text.rstrip())


def _stack(thread: threading.Thread) -> str:
    """The stack of a running thread; "" if it has ended."""
    frame = sys._current_frames().get(thread.ident or 0)
    return "".join(traceback.format_stack(frame)) if frame else ""

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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from workbench.rundir.files import place_or, tail, to_append
from workbench.supervisor.hosts.life import Life, ProcessEnding
from workbench.tables import exit_words
from workbench.wire import child_group
from workbench.wire.lifeline import FATAL

_FATAL_GRACE_S = 3.0  # for the end of a child that has written its error


class Child(Life):
    """One background process of a run on this machine."""

    def __init__(
        self, name: str, arguments: Sequence[str], *, logs: Path, environment: Mapping[str, str],
        keep_open: int | None = None,
    ) -> None:
        super().__init__(name)
        self.log = logs / f"{name}.log"
        self._arguments = [sys.executable, "-P", "-m", "workbench", *arguments]
        self._error = logs / f"{name}.error.json"
        self._environment = dict(environment)
        self._keep_open = keep_open
        self._process: subprocess.Popen[bytes] | None = None
        self._logged = 0  # bytes of its log, of the lives before

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int | None:
        process = self._process  # which another thread may end in between
        return process.pid if process else None

    def start(self) -> None:
        """Begin a life."""
        self._error.unlink(missing_ok=True)
        with to_append(self.log) as log:
            self._logged = os.fstat(log.fileno()).st_size
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
        self._began()

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
        if not child_group.has_ended(self._process.pid):
            return None
        code = child_group.code_of(self._process)
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None
        return self._ended(code, self._written_error() if code == FATAL or gave_up else None)

    def end(self, grace_s: float) -> None:
        if self._process is None or self._asked_to_end:
            return
        self.expect_end(grace_s)
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGTERM)  # alone: an actor closes what it started; the rest is killed

    def kill(self) -> None:
        if self._process is not None:
            child_group.kill(self._process.pid)

    def log_tail(self) -> str:
        return tail(self.log, since=self._logged)

    def _written_error(self) -> dict[str, str]:
        try:
            error = json.loads(self._error.read_bytes())
            return {"type": str(error["type"]), "message": str(error["message"])}
        except (OSError, ValueError, KeyError, TypeError):
            return {"type": "RunFailed", "message": f"{self.name} ended with {exit_words(FATAL)} and left no reason"
                                               f"\nIts log ends:\n{self.log_tail() or '(it is empty)'}"}

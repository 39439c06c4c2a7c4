"""Keeps the run of a trial going: begins it, waits for a machine, and goes on with it where its supervisor died.

Where Ray moves a run from a lost node, or has no room for it, the run begins by itself sooner or later, and is left to
Ray. A cluster that does not answer is asked again. None of that is a failure.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from workbench.errors import ConnectionLost, InvalidInput, RunExists, RunFailed, StorageFailed, WorkbenchError
from workbench.launchers.contract import Launched, Launcher
from workbench.metrics.status import RunStatus
from workbench.rundir import RunDirectory, lock
from workbench.running import launch
from workbench.running.connection import stored_status
from workbench.running.waiting import ended_early

MOST_LIVES = 3  # of a run whose supervisor dies
_AGAIN_S = 30.0  # between questions to a cluster that does not answer


def go_on(run: RunDirectory, place: Launcher, **changes: Any) -> Launched | None:
    """Begin a run, or go on with it, unless it lives or has finished in the meantime. Raises WorkbenchError."""
    try:
        return launch.begun_again(run, place, **changes)
    except InvalidInput:
        if stored_status(run).state != "finished":
            raise
        return None


def withdraw(run: RunDirectory, place: Launcher) -> None:
    """Let a run that waits for a machine no longer begin by itself. Does nothing to one that does not wait."""
    try:
        if lock.is_alive(run) or not place.waits_for(run):
            return
        place.withdraw(run)
    except ConnectionLost:
        pass  # the record says it, should the cluster answer again
    with suppress(StorageFailed):
        if not lock.is_alive(run):
            run.write(state="stopped")


class KeptRun:
    """A run that goes on until it has ended.

    Attributes:
        waits: what it waits for to begin, or to go on, in words; "": nothing.
    """

    def __init__(self, run: RunDirectory, place: Launcher, *, waits: str = "") -> None:
        self.waits = waits
        self._run, self._place = run, place
        self._lives = 1
        self._launched: Launched | None = None  # a start whose supervisor has not been seen
        self._owed: dict[str, Any] | None = None  # changes with which it is still to be begun
        self._ask_at = 0.0  # when a cluster that does not answer is asked again
        self._lost_cluster = False  # since it last had a supervisor

    def begin(self, **changes: Any) -> None:
        """Begin it, or go on with it, with these changes; it may then wait for a machine. Raises WorkbenchError."""
        self._owed = changes
        try:
            self._launched, self._owed = go_on(self._run, self._place, **changes), None
        except (ConnectionLost, RunExists) as error:
            self._ask_later(error)

    def has_supervisor(self, status: RunStatus) -> bool:
        """Whether it has a supervisor, or has ended; otherwise does what is due. Raises RunFailed, WorkbenchError."""
        if self._owed is None and status.state != "dead":
            if self._launched is not None and self._run.read()["supervisor_pid"] is not None:
                self._launched = None
            self.waits, self._lost_cluster = _awaited_room(status), False
            return True
        if time.monotonic() < self._ask_at:
            return False
        if self._owed is not None:
            self.begin(**self._owed)
        elif self._launched is not None and self._launched.poll() is not None:
            raise ended_early(f"the supervisor of {self._run.name}", self._launched)
        elif not self._begins_by_itself():
            self._revive()
        return False

    def _begins_by_itself(self) -> bool:
        """Whether it does once there is a machine for it, or may, since its cluster does not answer."""
        try:
            what = self._place.waits_for(self._run)
        except ConnectionLost as error:
            self._ask_later(error)
            return True
        self.waits = what or self.waits
        return bool(what)

    def _ask_later(self, error: WorkbenchError) -> None:
        self.waits, self._ask_at = str(error), time.monotonic() + _AGAIN_S
        self._lost_cluster |= isinstance(error, ConnectionLost)

    def _revive(self) -> None:
        """Go on with it after its supervisor died, at most MOST_LIVES - 1 times; the loss of its whole cluster does not
        count. (That Ray holds the host of a dead supervisor for some seconds more says nothing.)"""
        if not self._lost_cluster:
            if self._lives >= MOST_LIVES:
                raise RunFailed(f"its supervisor died {self._lives} times; see {self._run.logs}")
            self._lives += 1
        self.begin()


def _awaited_room(status: RunStatus) -> str:
    """What a run with a supervisor waits for before it can train, in words; "": nothing."""
    waits = "to spare" in status.reason and not status.frames_per_second  # see `RemoteChild.waits_for`
    return "a start of its learners or its actors on a node of the cluster" if waits else ""

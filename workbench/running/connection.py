"""A client's connection to a run's supervisor, and the files to read when there is none.

Every way in which a run can be out of reach is one clear error: RunNotFound (its directory is gone), AccessDenied
(it is another user's, or its token is not one's own alone), RunNotAlive (it ended, or its supervisor is dead; with
the remedy).
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

from workbench import rundir
from workbench.errors import AccessDenied, ConnectionLost, RunNotAlive, WorkbenchError
from workbench.metrics import MetricsReader
from workbench.metrics.status import RunStatus
from workbench.rundir import ENDED, RunDirectory, lock
from workbench.wire.endpoints import SUPERVISOR, reaching
from workbench.wire.rpc import Caller

_LOOKS = ("ping", "status")
_AGAIN_S = 0.1
_STALE_S = 5.0  # a supervisor that lives writes its status each second


class Control:
    """Calls the supervisor of one run; connects when first used. Usable from several threads."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self._guard = threading.Lock()
        self._caller: Caller | None = None
        self._place = (0, 0, "")  # device and inode of the folder that it was opened for, and the token

    def call(self, method: str, *, timeout_s: float = 10.0, **arguments: Any) -> Any:
        """The supervisor's answer; of one that is just being started once it listens, but for mere looks.

        Raises what it raised, RunNotFound, AccessDenied, RunNotAlive or ConnectionLost.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self._called(method, timeout_s, arguments)
            except ConnectionLost:
                starting = method not in _LOOKS and lock.is_held(lock.of_start(self.directory))
                if not starting or time.monotonic() > deadline:
                    raise
                time.sleep(_AGAIN_S)

    def _called(self, method: str, timeout_s: float, arguments: dict[str, Any]) -> Any:
        name = self.directory.name
        self.directory.check_own()
        self._refuse_ended()
        if not (lock.is_alive(self.directory) or lock.is_held(lock.of_start(self.directory))):
            raise RunNotAlive(f"{name} is dead: {_dead(name)}")  # its files may name anybody's address
        caller = self._open()
        try:
            return caller.call(method, timeout_s=timeout_s, **arguments)
        except ConnectionLost as error:
            self._drop(caller)
            self._refuse_ended()  # it did so while it was asked
            if lock.is_alive(self.directory):
                raise ConnectionLost(f"{name} did not answer {method!r} within {timeout_s:g} s: {error}") from None
            raise RunNotAlive(f"{name} is dead: {_dead(name)}") from None

    def _refuse_ended(self) -> None:
        name, state = self.directory.name, self.directory.read()["state"]
        if state in ENDED:
            raise RunNotAlive(f"{name} is {state}. wb.resume({name!r}) continues it from its newest checkpoint.")

    def _open(self) -> Caller:
        status, token = self.directory.path.stat(), self._token()
        place = (status.st_dev, status.st_ino, token)
        with self._guard:
            if self._caller is None or self._place != place:  # another run, or life, may be where this one was
                self._place, self._caller = place, Caller(reaching(self.directory, SUPERVISOR), token)
            return self._caller

    def _token(self) -> str:
        try:
            return self.directory.token()
        except FileNotFoundError:
            raise AccessDenied(f"{self.directory.path / 'token'} is gone, so nobody may steer this run.") from None

    def close(self) -> None:
        """Drop the connection; calls under way are still answered, and the next one opens another."""
        self._drop(self._caller)

    def _drop(self, caller: Caller | None) -> None:
        """Use it no more. It is not closed, since other threads may wait for its answers: the last of them frees it."""
        with self._guard:
            if self._caller is caller:
                self._caller = None

    def status(self) -> RunStatus:
        """How the run is now; from its files if its supervisor is gone. Raises RunNotFound, AccessDenied."""
        name, state = self.directory.name, self.directory.read()["state"]
        if state in ENDED or self.directory.owner:
            return stored_status(self.directory)
        try:
            return RunStatus.from_json(self.call("status", timeout_s=5.0), name=name)
        except (RunNotAlive, ConnectionLost):
            return stored_status(self.directory)


def stored_status(directory: RunDirectory) -> RunStatus:
    """The last known state, from files alone: no network, no secret. Raises RunNotFound."""
    record = directory.read()
    try:
        stored = MetricsReader(directory.metrics).status()
    except WorkbenchError as damage:  # it must not hide how the run is
        stored = ({"warning": str(damage)}, time.time())
    row, stored_at = stored or ({}, record.get("created", time.time()))
    state, error, owner = record["state"], record.get("error"), directory.owner
    status = RunStatus.from_json(
        {"state": state, **row}, name=directory.name, age_s=max(0.0, time.time() - stored_at),
        error=f"{error['type']}: {error['message']}" if error else None)
    better: dict[str, Any] = {"reason": f"the run is {owner}: this is what its files say."} if owner else {}
    # another user's lock cannot be asked; a supervisor that lives wrote its status just now
    if state not in ENDED and not (status.age_s <= _STALE_S if owner else lock.is_alive(directory)):
        if directory.read()["state"] in ENDED:  # it came to its end between the two looks
            return stored_status(directory)
        state = "dead"
        better |= {"reason": _dead(directory.name), "actors": (), "supervisor_pid": None, "learner_pid": None}
    elif state not in ENDED and status.state not in ENDED:  # else the row is of the life before
        state = status.state
    elif state == "stopped" and not row and not record.get("lives"):
        better["reason"] = f"not started yet. wb.resume({directory.name!r}) starts it."
    status = replace(status, state=state, **better)
    old = state in (*ENDED, "dead") or status.age_s > _STALE_S
    return replace(status.standing_still(), eta_s=None) if old else status


def _dead(name: str) -> str:
    return f"its supervisor is gone. wb.resume({name!r}) continues it from its newest checkpoint."


def checked(directory: RunDirectory) -> RunDirectory:
    """The directory. Raises RunNotFound if the run in it was deleted."""
    if not directory.record.exists():
        raise rundir.gone(directory.path)
    return directory

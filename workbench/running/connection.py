"""A client's connection to a run's supervisor, and the status from the run's files when there is no supervisor.

A run that cannot be reached is one of these errors: RunNotFound (its directory is gone), AccessDenied (it is another
user's, or others can read its token), RunNotAlive (it has ended, or its supervisor is dead).
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from workbench import checkpoints
from workbench.config import RunConfig
from workbench.copies import of_its_copy
from workbench.errors import AccessDenied, ConnectionLost, RunNotAlive, StorageFailed, WorkbenchError
from workbench.metrics import MetricsReader, Progress, holds_nothing
from workbench.metrics.status import RunStatus
from workbench.rundir import ENDED, RunDirectory, lock
from workbench.supervisor import stopping_rules
from workbench.wire.endpoints import SUPERVISOR, reaching
from workbench.wire.rpc import Caller

_READING = ("ping", "status")  # calls that change nothing
_RETRY_S = 0.1
COMMAND_S = 40.0  # the learner obeys between two updates, and one update of a large network takes its time
_STALE_S = 5.0  # a supervisor that lives writes its status each second


class Control:
    """Calls the supervisor of one run; connects at the first call. Several threads may use it.

    `kept`: what must live for as long as this does, such as a process that follows the run.
    """

    def __init__(self, directory: RunDirectory, *, kept: object = None) -> None:
        self.directory = directory
        self._kept = kept
        self._guard = threading.Lock()
        self._caller: Caller | None = None
        self._opened_for = (0, 0, "")  # device and inode of the folder, and the token

    def call(self, method: str, *, timeout_s: float = 10.0, **arguments: Any) -> Any:
        """The supervisor's answer. A call that changes something waits for a supervisor that is being started.

        Raises the supervisor's error, RunNotFound, AccessDenied, RunNotAlive or ConnectionLost.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self._call_once(method, timeout_s, arguments)
            except ConnectionLost:
                starting = method not in _READING and lock.is_held(lock.of_start(self.directory))
                if not starting or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_S)

    def _call_once(self, method: str, timeout_s: float, arguments: dict[str, Any]) -> Any:
        name = self.directory.name
        self.directory.check_own()
        self._refuse_ended()
        if not lock.is_followed(self.directory):
            raise ConnectionLost(_unfollowed(name))
        if not (lock.is_alive(self.directory) or lock.is_alive(self.directory)):  # one lock may have replaced the other
            raise RunNotAlive(f"{name} is dead: {_dead(self.directory)}")  # an address in its files may be a stranger's
        caller, began_at = self._open(), time.monotonic()
        try:
            return caller.call(method, timeout_s=timeout_s, **arguments)
        except ConnectionLost as error:
            self._drop(caller)
            self._refuse_ended()  # it has ended during the call
            if lock.is_alive(self.directory):
                waited = f" within {timeout_s:g} s" if time.monotonic() - began_at >= timeout_s else ""
                raise ConnectionLost(f"{name} did not answer {method!r}{waited}: {error}") from None
            raise RunNotAlive(f"{name} is dead: {_dead(self.directory)}") from None

    def _refuse_ended(self) -> None:
        name, state = self.directory.name, self.directory.read()["state"]
        if state in ENDED:
            raise RunNotAlive(f"{name} is {state}. {resuming(self.directory, state)}")

    def _open(self) -> Caller:
        entry, token = self.directory.path.stat(), self._token()
        opened_for = (entry.st_dev, entry.st_ino, token)
        with self._guard:
            if self._caller is None or self._opened_for != opened_for:  # another run, or life, may have taken the path
                self._opened_for, self._caller = opened_for, Caller(reaching(self.directory, SUPERVISOR), token)
            return self._caller

    def _token(self) -> str:
        try:
            return self.directory.token()
        except FileNotFoundError:
            raise AccessDenied(f"{self.directory.path / 'token'} is gone, so nobody can steer this run.") from None

    def close(self) -> None:
        """Drop the connection. Calls under way are still answered, and the next call opens another connection."""
        self._drop(self._caller)

    def _drop(self, caller: Caller | None) -> None:
        """Forget the caller, without closing it: other threads may wait for its answers, and the last one frees it."""
        with self._guard:
            if self._caller is caller:
                self._caller = None

    def status(self) -> RunStatus:
        """The run's status now; from its files if its supervisor is gone. Raises RunNotFound, AccessDenied."""
        name, state = self.directory.name, self.directory.read()["state"]
        if state in ENDED or self.directory.owner:
            return stored_status(self.directory)
        try:
            return RunStatus.from_json(self.call("status", timeout_s=5.0), name=name)
        except (RunNotAlive, ConnectionLost):
            return stored_status(self.directory)


_NO_PROCESSES: dict[str, Any] = {"actors": (), "supervisor_pid": None, "learner_pid": None, "learner_pids": ()}


def stored_status(directory: RunDirectory) -> RunStatus:
    """The last status that the run's files hold; needs neither network nor token. Raises RunNotFound."""
    owner, followed = directory.owner, lock.is_followed(directory)
    lived = not owner and lock.is_alive(directory)  # before run.json, which a supervisor writes before it goes
    record = directory.read()
    try:
        stored, damage = MetricsReader(directory.metrics).status(), ""
    except WorkbenchError as unread:  # which must not hide the run's state
        stored, damage = None, str(unread)
    row, stored_at = stored or ({}, time.time() if damage else record["created"])
    state, error = record["state"], record.get("error")
    status = RunStatus.from_json(
        {"state": state, **row}, name=directory.name, age_s=max(0.0, time.time() - stored_at),
        error=f"{error['type']}: {error['message']}" if error else None)
    corrections: dict[str, Any] = {"reason": f"the run is {owner}: this is what its files say."} if owner else {}
    if not followed:
        corrections = {"reason": _unfollowed(directory.name)}
    # Another user's lock cannot be tested, but a live supervisor writes its status each second.
    lives = status.age_s <= _STALE_S if owner else lived or not followed or lock.is_alive(directory)
    if state not in ENDED and not lives:
        state = "dead"
        corrections |= _of_last_checkpoint(directory, status)
        corrections |= {**_NO_PROCESSES, "reason": _dead(directory)}
    elif state not in ENDED:
        pid = record.get("supervisor_pid")
        if status.state in ENDED or status.supervisor_pid != pid:  # a row of the life before
            corrections = {**_NO_PROCESSES, "supervisor_pid": pid, "reason": "", **corrections}
        else:
            state = status.state
    elif state == "stopped" and not row and not record.get("lives"):
        corrections["reason"] = f"not started yet. wb.resume({directory.name!r}) starts it."
    if not lives and lost_history(directory):
        lost = f"{directory.metrics} is empty" if directory.metrics.exists() else f"there is no {directory.metrics}"
        damage = f"its history is gone: {lost}.{_with_its_copy(directory)}"
    if damage:
        corrections |= {**_of_last_checkpoint(directory, status), "warning": damage, "unread": True}
    status = replace(status, state=state, **corrections)
    old = state in (*ENDED, "dead") or status.age_s > _STALE_S
    return replace(status.standing_still(), eta_s=None) if old else status


def lost_history(directory: RunDirectory) -> bool:
    """Whether a run that has been started has no history, or an empty file in its place."""
    return holds_nothing(directory.metrics) and bool(directory.read().get("lives"))


def lost_checkpoints(directory: RunDirectory) -> bool:
    """Whether there is no checkpoint of a run that has written one, or has no history that says so any more."""
    if checkpoints.every(directory.checkpoints):
        return False
    try:
        return lost_history(directory) or bool(MetricsReader(directory.metrics).last_checkpoint())
    except StorageFailed:
        return False


def _with_its_copy(directory: RunDirectory) -> str:
    """Where what a run has lost may be; "" without a copy."""
    with suppress(WorkbenchError):
        copied = of_its_copy(directory.config())
        return f" wb.resume({directory.name!r}) brings that {copied}." if copied else ""
    return ""


def _of_last_checkpoint(directory: RunDirectory, status: RunStatus) -> dict[str, Any]:
    """The counters of a run's newest checkpoint where the last status, of a second before or lost, is behind it."""
    newest = checkpoints.newest(directory.checkpoints)
    if newest is None or newest.frames <= status.frames:
        return {}
    return vars(Progress.of(newest))


def resuming(directory: RunDirectory, state: str) -> str:
    """How a run that has ended goes on, as a sentence."""
    call = f"wb.resume({directory.name!r})"
    if state == "finished":
        call = call_to_resume(directory.name, directory.config(), stored_status(directory))
    begun = checkpoints.every(directory.checkpoints) or lost_checkpoints(directory)
    return f"{call} {'continues it from its newest checkpoint' if begun else 'begins it again: it has no checkpoint'}."


def to_go_on(config: RunConfig, status: RunStatus) -> dict[str, Any]:
    """The changes by which a run that has ended goes on: one that has finished needs more frames, or a rule less."""
    if status.state != "finished":
        return {}
    rule, _ = stopping_rules.reached(config, status)
    return {rule: None} if rule else {"total_frames": 2 * config.total_frames}


def arguments_to_go_on(config: RunConfig, status: RunStatus) -> str:
    """The same as arguments of a call, such as "total_frames=60_000"."""
    return ", ".join(f"{name}={f'{value:_}' if value else value}" for name, value in to_go_on(config, status).items())


def call_to_resume(name: str, config: RunConfig, status: RunStatus) -> str:
    """The call by which a run that has ended goes on."""
    return f"wb.resume({', '.join(filter(None, (repr(name), arguments_to_go_on(config, status))))})"


def _unfollowed(name: str) -> str:
    return f"nothing follows this run here now, and this is what its copy says. wb.attach({name!r}) follows it."


def _dead(directory: RunDirectory) -> str:
    return f"its supervisor is gone. {resuming(directory, 'dead')}"


def still_there(directory: RunDirectory) -> RunDirectory:
    """The same directory. Raises RunNotFound if the run in it was deleted, also where another one has its name."""
    with suppress(StorageFailed):  # a damaged record does not say which run it is of
        directory.read()
    return directory

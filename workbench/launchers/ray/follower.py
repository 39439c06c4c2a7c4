"""The process that follows a run on a cluster: `python -m workbench.launchers.ray.follower ray://HOST:PORT/NAME`.

It is Ray's client, keeps the copy of the run up to date (`copies.remote_copy`), and stands in for the supervisor there:
it holds the copy's lock while the run is alive, and passes on the calls that come to the copy's socket. So a handle of
the copy is a handle like any other. It says {"following": DIRECTORY} or {"error": …} on standard output, and ends when
its input does, or when nothing is left to follow. Of several that follow one run, one does so and the others wait for
its end.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

from workbench.copies.remote_copy import RemoteCopy
from workbench.errors import ConnectionLost, RunNotFound, StorageFailed, WorkbenchError, lines_of, record_of
from workbench.launchers.ray.connecting import connect
from workbench.launchers.ray.finding import check_versions, parted, place_of, reader_at
from workbench.rundir import ENDED, RunDirectory, lock
from workbench.rundir.dated_lines import append_dated
from workbench.wire.endpoints import SUPERVISOR, SUPERVISOR_CALLS, serve_run
from workbench.wire.rpc import Handler, Server, result_of

_READING = {"ping", "status", "watch", "wall", "flights"}
RESUME = "resume_there"
LOG = "follower.log"  # of the copy
_TURN_S, _IDLE_S = 1.0, 2.0  # between two looks at a run that is alive, and that is not
_CHECKPOINTS_S = 5.0
_RETRY_S, _GONE_S = 2.0, 10.0
_ASK_S, _CALL_S, _MARGIN_S = 60.0, 60.0, 10.0
_CHECKPOINT_S = 1800.0
_RESUME_S = 450.0
_LARGEST_ANSWER = 2**28  # bytes


class Follower:
    """Follows one run. `say`: reports to the launching process."""

    def __init__(self, address: str, say: Any) -> None:
        self._address, self._say = address, say
        self._cluster, _ = parted(address)
        self._reader: Any = None  # while it answers
        self._former: Any = None
        self._path: str | None = None
        self._created: object = None
        self._lock: int | None = None
        self._guard_of_lock = threading.Lock()
        self._copy: RemoteCopy | None = None
        self._problem = ""  # why the copy cannot be written now
        self._noted = ""
        self._server: Server | None = None

    def begin(self) -> RemoteCopy:
        """Connect, and find the run. Raises ConnectionLost, AccessDenied, RunNotFound, InvalidInput, StorageFailed,
        and RunFailed for another version of the workbench there."""
        self._reach()
        assert self._path is not None
        check_versions("of its supervisor", str(self.ask("versions")))
        record = self.ask("record")["record"]
        self._created = record.get("created")
        self._copy = RemoteCopy(self._address, self._path, record, self.ask)
        self._copy.begin()
        return self._copy

    def _reach(self) -> None:
        """Connect to the cluster where that is due, and make a reader where the run is now."""
        import ray

        self._reader = None
        if not ray.is_initialized():
            connect(self._cluster)
        place = place_of(self._address, known=self._path)
        if self._path not in (None, place.path):
            raise RunNotFound(f"{self._path} is not to be found on {self._cluster} now.")
        if self._former is not None:
            with suppress(Exception):  # it may be there yet, on a node that answers late
                ray.kill(self._former)
        self._path, self._former = place.path, reader_at(place)
        self._reader = self._former

    def ask(self, method: str, /, *, wait_s: float = _ASK_S, **arguments: Any) -> Any:
        """The reader's answer. Raises its WorkbenchError, or ConnectionLost, after which `follow` looks for the run."""
        reader = self._reader
        if reader is None:
            raise ConnectionLost(f"{self._address} cannot be reached now: the connection to its cluster, or the run's "
                                 "machine, was lost. It is looked for.")
        try:
            answer = self._sent(reader, method, json.dumps(arguments).encode(), wait_s)
        except Exception as error:
            if self._reader is reader and (method == "record" or type(error).__name__ != "GetTimeoutError"):
                self._reader = None
            reason = lines_of(error)[0]
            raise ConnectionLost(f"{self._address} did not answer {method}: {reason:.200}") from None
        if not isinstance(answer, bytes) or len(answer) > _LARGEST_ANSWER:
            raise ConnectionLost(f"{self._address} answered {method} as no run does.")
        return result_of(answer, method, self._address)

    def _sent(self, reader: Any, method: str, request: bytes, wait_s: float) -> Any:
        import ray

        return ray.get(reader.ask.remote(method, request), timeout=wait_s)

    # --- in place of the supervisor ---------------------------------------------------------------------------------

    def follow(self, copy: RemoteCopy, *, takes_over: bool = False) -> None:
        """Keep the copy up to date, and its lock as the run's is, for as long as the copy is there.

        `takes_over`: handles use the copy already, so an error of the first look is none for them either. Raises
        WorkbenchError where the first copy fails.
        """
        if takes_over:
            copy.alive = copy.directory.read()["state"] not in ENDED  # as far as is known
        else:
            copy.update()
            copy.copy_checkpoints(most=1)
        self._hold_lock_if(copy.alive)
        self._server = serve_run(copy.directory, SUPERVISOR, calls=self._calls(copy), threads=16)
        threading.Thread(target=self._copy_checkpoints, args=[copy], name="checkpoints", daemon=True).start()
        self._say(following=str(copy.directory.path))
        while copy.is_there:
            time.sleep(_TURN_S if copy.alive else _IDLE_S)
            wait_s = self._turn(copy)
            if copy.is_there:
                time.sleep(wait_s)

    def _turn(self, copy: RemoteCopy) -> float:
        """Look at the run once; returns for how long to leave it alone after a failure, in s."""
        try:
            if self._reader is None:
                self._look_again()
            self._hold_lock_if(copy.update())
            self._problem = ""
            return 0.0
        except RunNotFound as error:  # it was deleted there, and the copy stays; or the copy was
            self._hold_lock_if(False)
            self._note(str(error))
            return _GONE_S
        except WorkbenchError as error:
            if isinstance(error, StorageFailed):
                self._problem = str(error)
            self._note(str(error))
            return _RETRY_S

    def _copy_checkpoints(self, copy: RemoteCopy) -> None:
        """Copy the checkpoints of a live run, which may be large, while `follow` goes on."""
        while copy.is_there:
            if copy.alive and self._reader is not None:
                try:
                    copy.copy_checkpoints()
                except WorkbenchError as error:
                    self._note(str(error))
            time.sleep(_CHECKPOINTS_S)

    def _note(self, problem: str) -> None:
        """Write a problem to `LOG` of the copy; once, while it is the same."""
        if self._copy is not None and self._copy.is_there and problem != self._noted:
            self._noted = problem
            append_dated(self._copy.directory.logs / LOG, problem)

    def _look_again(self) -> None:
        """Find the run anew after a loss: of its node, or of the connection. Raises WorkbenchError."""
        import ray

        try:
            self._reach()
        except RunNotFound:
            raise
        except WorkbenchError:
            with suppress(Exception):  # a client whose connection was lost makes no other
                ray.shutdown()
            raise
        except Exception as error:
            with suppress(Exception):
                ray.shutdown()
            raise ConnectionLost(f"{self._cluster} cannot be reached: {error!s:.200}") from None

    def _hold_lock_if(self, alive: bool) -> None:
        assert self._copy is not None
        with self._guard_of_lock:
            if alive and self._lock is None:
                self._lock = lock.hold(lock.of_supervisor(self._copy.directory), wait_s=_RETRY_S)
            elif not alive and self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _calls(self, copy: RemoteCopy) -> dict[str, Handler]:
        def passed_on(method: str, **arguments: Any) -> Any:
            longest_s = _CHECKPOINT_S if method == "checkpoint" else _CALL_S
            answer = self.ask("call", wait_s=longest_s + _MARGIN_S, method=method, arguments=arguments,
                              timeout_s=longest_s, created=self._created)
            if method == "checkpoint":
                return {**answer, "path": str(copy.copied_checkpoint(answer["path"]))}
            if method == "ping":
                return {**answer, "name": copy.directory.name}
            if method == "status" and (problem := self._problem or copy.problem) and not answer.get("warning"):
                return {**answer, "warning": problem}
            if method not in _READING:
                with suppress(WorkbenchError):  # the change is made; the next turn sees it
                    copy.update()
            return answer

        def resume_there(changes: dict[str, Any], trust_code: bool = False) -> None:
            self.ask("resume", wait_s=_RESUME_S, changes=changes, trust_code=trust_code, created=self._created)
            self._hold_lock_if(copy.update())

        return {**{method: partial(passed_on, method) for method in SUPERVISOR_CALLS}, RESUME: resume_there}


def stand_by(directory: RunDirectory, say: Any) -> bool:
    """Hold the copy's lock to the end of this process, once no other process follows the run; until then the copy is
    that one's. Returns whether it was said meanwhile that the run is followed."""
    path = lock.of_follower(directory)
    descriptor = lock.hold(path, wait_s=0)
    told = False
    while descriptor is None:
        if not told and directory.record.exists():
            say(following=str(directory.path))
            told = True
        descriptor = lock.hold(path, wait_s=1.0)
    return told


def run(address: str, say: Any) -> None:
    """Follow the run at that address to the end of this process, or report why that cannot be."""
    try:
        follower = Follower(address, say)
        copy = follower.begin()
        follower.follow(copy, takes_over=stand_by(copy.directory, say))
    except Exception as error:
        say(error=record_of(error))


def main(address: str) -> int:
    """Follow until standard input ends, or nothing is followed any more: a copy whose lock is held is kept up to date.
    Returns the exit code."""
    real_output = os.dup(1)
    os.dup2(2, 1)  # Ray may print

    def say(**message: Any) -> None:
        os.write(real_output, (json.dumps(message) + "\n").encode())

    over = threading.Event()

    def follow() -> None:
        run(address, say)
        over.set()

    def listen() -> None:
        while sys.stdin.readline():
            continue
        over.set()

    for part in (follow, listen):
        threading.Thread(target=part, name=part.__name__, daemon=True).start()
    over.wait()
    with suppress(Exception):
        import ray

        ending = threading.Thread(target=ray.shutdown, daemon=True)  # which ends the reader at once
        ending.start()
        ending.join(5.0)
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1]))

"""The other end of `playing.worker.game_server`: starts the process in which a person plays, and talks with it.

A thread reads the messages. It holds this object, not the user's handle, so that dropping the handle ends the process.
If this process ends in any way, the pipe closes, which ends that one. What its environment started ends with it, for
which another thread waits: programs that it forked keep the pipe of the messages open.
"""

from __future__ import annotations

import itertools
import json
import logging
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from contextlib import suppress
from typing import Any

from workbench import rundir
from workbench.errors import WorkbenchError, error_of
from workbench.playing import worker_process
from workbench.rundir.files import place_or
from workbench.wire import child_group

START_S, ANSWER_S, END_S = 180.0, 60.0, 10.0
_TAIL_BYTES = 4000

_LOG = logging.getLogger(__name__)

Listener = Callable[[dict[str, Any], bytes], None]


class GameProcess:
    """A process that plays, after its first picture. Raises the error that it answers instead, or WorkbenchError.

    Attributes:
        header: the facts that stay the same for all steps.
        latest: the last message with a state, and its picture.
        listener: gets each further one in the reading thread, and at last {"ended": why, "code": exit code}.
    """

    def __init__(self, request: Mapping[str, Any]) -> None:
        command, environment = worker_process.command_of("_play", request)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # open for the life of this object
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            cwd=place_or(rundir.home()), start_new_session=True)  # an interrupt goes to the cell alone
        self._writing, self._numbers = threading.Lock(), itertools.count(1)
        first: Future[dict[str, Any]] = Future()
        self._pending: dict[int, Future[dict[str, Any]]] = {0: first}
        self._ended: WorkbenchError | None = None
        self.header: dict[str, Any] = {}
        self.latest: tuple[dict[str, Any], bytes] = ({}, b"")
        self.listener: Listener = lambda message, picture: None
        self._reaper = threading.Thread(target=child_group.code_of, args=[self._process], name="workbench-game-end",
                                        daemon=True)
        self._reaper.start()
        self._reader = threading.Thread(target=self._read, name="workbench-game", daemon=True)
        self._reader.start()
        try:
            self._answer(0, first, START_S)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still answers."""
        return self._ended is None

    def ask(self, what: str, **fields: Any) -> dict[str, Any]:
        """Send a command, and return the state after it. Raises its error, or WorkbenchError if the process ended."""
        number, future = next(self._numbers), Future[dict[str, Any]]()
        self._pending[number] = future
        self.tell(what, id=number, **fields)
        return self._answer(number, future, ANSWER_S)

    def tell(self, what: str, **fields: Any) -> None:
        """Send a command without waiting for an answer. Raises WorkbenchError if the process ended."""
        try:
            with self._writing:
                assert self._process.stdin is not None
                self._process.stdin.write(json.dumps({"do": what, **fields}).encode() + b"\n")
                self._process.stdin.flush()
        except (OSError, ValueError):
            self._reader.join(END_S)  # it sets the error
            raise self._ended or WorkbenchError("the game has ended.") from None

    def close(self) -> None:
        """End the process, which stores the current episode; kill it if it has not ended within 10 s."""
        with self._writing, suppress(OSError, ValueError):  # it has ended; closed already
            assert self._process.stdin is not None
            self._process.stdin.write(b'{"do": "end"}\n')
            self._process.stdin.close()
        self._reaper.join(END_S)
        if self._reaper.is_alive():
            child_group.kill(self._process.pid)
            self._reaper.join()
        if threading.current_thread() is not self._reader:
            self._reader.join(END_S)

    def _answer(self, number: int, future: Future[dict[str, Any]], within_s: float) -> dict[str, Any]:
        if self._ended is not None and not future.done():
            raise self._ended
        try:
            return future.result(within_s)
        except NoAnswer:
            raise WorkbenchError(f"the game did not answer within {within_s:g} s. game.close() ends it.") from None
        finally:
            self._pending.pop(number, None)

    # --- the thread -----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        with suppress(OSError, ValueError):  # a message was cut off
            assert self._process.stdout is not None
            while line := self._process.stdout.readline():
                message = json.loads(line)
                self._receive(message, self._process.stdout.read(message["size"]))
        self._reaper.join()
        code = self._process.returncode
        self._ended = self._ended or WorkbenchError(
            f"the process of the game ended with exit code {code}{self._tail()}" if code
            else "this game has ended. wb.play(...) begins another.")
        for future in list(self._pending.values()):
            if not future.done():
                future.set_exception(self._ended)
        self._hand_on({"ended": str(self._ended), "code": code}, b"")

    def _hand_on(self, message: dict[str, Any], picture: bytes) -> None:
        try:
            self.listener(message, picture)
        except Exception:  # pending commands must still get their answers
            _LOG.exception("what a game told could not be shown")

    def _receive(self, message: dict[str, Any], picture: bytes) -> None:
        if "header" in message:
            self.header = message["header"]
            return
        future = self._pending.get(message["id"]) if message["id"] is not None else None
        if "state" in message:
            self.latest = message, picture
            self._hand_on(message, picture)
        if future is None:
            return
        if "error" in message:
            future.set_exception(error_of(message["error"]))
        else:
            future.set_result(message["state"])

    def _tail(self) -> str:
        self._log.seek(0, 2)
        self._log.seek(max(0, self._log.tell() - _TAIL_BYTES))
        text = self._log.read().decode(errors="replace").strip()
        return f":\n{text}" if text else "."

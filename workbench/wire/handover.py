"""How an actor gets the memory that it shares with the learner of its machine (`wire.shared_rows`).

The learner makes the memory and hands over its descriptor on a socket of the run, so that nothing has a name and
nothing is left when either side is killed. The connection then carries the headers of steps and actions, as packets.
The life's gRPC stream stays open beside it: hello, welcome and refusals travel there, and it tells how the life ended.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from workbench.errors import AccessDenied, ConnectionLost
from workbench.wire.messages import Hello

MOST_GROUPS = 64  # of an actor; as many headers fit into a socket, so that sending one never waits
_LARGEST_REQUEST = 4096  # bytes
_SILENCE_S = 2.0  # after which a peer that has said nothing is sent away
_PATIENCE_S = 10.0  # for an answer, behind some who say nothing
_BACKLOG = 128
_PAUSE_S = 0.1  # after a connection that could not be accepted

Grant = Callable[[int, int, socket.socket], int]


def available() -> bool:
    """Whether processes of this machine can share memory so: on Linux."""
    return hasattr(os, "memfd_create") and hasattr(socket, "SOCK_SEQPACKET")


def ask(path: str, token: str, hello: Hello) -> tuple[int, socket.socket]:
    """The descriptor of the memory for the life of that hello, and the socket for its headers.

    Raises ConnectionLost if nothing listens at `path`, or hands over no memory.
    """
    request = json.dumps({"token": token, "actor": hello.actor, "run_id": hello.run_id}).encode()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(_PATIENCE_S)
        connection.connect(path)
        connection.send(request)
        answer, descriptors, _, _ = socket.recv_fds(connection, _LARGEST_REQUEST, 1)
        if not descriptors:
            raise ConnectionLost(f"the learner hands over no memory at {path}: {answer.decode(errors='replace')}")
        connection.settimeout(None)
        return descriptors[0], connection
    except OSError as error:  # ConnectionLost is one
        connection.close()
        if isinstance(error, ConnectionLost):
            raise
        raise ConnectionLost(f"the learner hands over no memory at {path}: {error}") from None
    except BaseException:
        connection.close()
        raise


class Handover:
    """Listens at `path` and hands memory to whoever has the run's token; `close` ends it.

    Args:
        grant: returns the descriptor of memory for the life of that actor and run id, whose headers will come on that
            socket. Raises WorkbenchError if there is no such life.
    """

    def __init__(self, path: str, token: str, grant: Grant) -> None:
        self.path, self._token, self._grant = path, token, grant
        self._closed = False
        Path(path).unlink(missing_ok=True)  # of a learner that was killed: the run's lock admits one of each
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        Path(path).chmod(0o600)
        self._listener.listen(_BACKLOG)
        threading.Thread(target=self._serve, name="handover", daemon=True).start()

    def _serve(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed, or this process may open nothing more for now
                time.sleep(_PAUSE_S)
                continue
            try:
                self._answer(connection)
            except Exception as error:  # whatever a stranger's JSON raises
                with suppress(OSError):
                    connection.send(f"{error}"[:_LARGEST_REQUEST // 4].encode())
                connection.close()

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(_SILENCE_S)
        request = json.loads(connection.recv(_LARGEST_REQUEST))
        if not hmac.compare_digest(str(request["token"]).encode(), self._token.encode()):
            raise AccessDenied("the token is not this run's")
        actor, run_id = int(request["actor"]), int(request["run_id"])
        connection.setblocking(False)
        descriptor = self._grant(actor, run_id, connection)
        with suppress(OSError):  # the peer is gone, as whoever reads its headers will see
            socket.send_fds(connection, [b"here"], [descriptor])
        os.close(descriptor)

    def close(self) -> None:
        """Hand over nothing more; connections stay."""
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        Path(self.path).unlink(missing_ok=True)

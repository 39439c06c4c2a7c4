"""An actor's connection to its learner: a gRPC stream, and memory that they share where both are on one machine."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import suppress

from workbench.errors import ConnectionLost
from workbench.wire import grpc, handover
from workbench.wire.messages import GroupActions, GroupStep, Hello, Welcome
from workbench.wire.rpc import Endpoint, method_path, open_stream_channel, token_metadata
from workbench.wire.shared_rows import LARGEST_PACKET, SharedRows

_CONNECT_S = 5.0


class Stream:
    """One connection to the learner: from the hello until either side goes away.

    gRPC's asyncio API, because it sends and receives in the thread that steps: the synchronous API sends in its own
    thread, which would wait for Python's lock until the next group has been stepped. The loop does not run while
    environments step, so that they may run one themselves.

    Attributes:
        by_socket: whether it reaches the learner by a socket of the file system, as on the machine of both.
    """

    def __init__(self, runner: asyncio.Runner, where: str | Endpoint, token: str, hello: Hello) -> None:
        self._runner, self._hello = runner, hello
        self.by_socket = (where if isinstance(where, str) else where.address).startswith("unix:")
        self._channel = runner.run(_connect(where))
        play = self._channel.stream_stream(method_path("play"))
        self._call = play(metadata=token_metadata(token), wait_for_ready=True)

    def welcome(self) -> Welcome:
        """Sends the hello. Returns the learner's answer, once the learner is ready."""
        return Welcome.decode(self._runner.run(self._exchange(self._hello.encode())))

    def send(self, step: GroupStep) -> None:
        """Sends a group's step; waits only while the connection is congested."""
        self._runner.run(self._write(step.encode()))

    def exchange(self, step: GroupStep | None = None) -> GroupActions:
        """Sends a group's step, if any. Returns the next actions. Raises EOFError if the learner closes."""
        reply = self._runner.run(self._exchange(None if step is None else step.encode()))
        return GroupActions.decode(reply, self._hello.spec.actions)

    async def _exchange(self, message: bytes | None) -> bytes:
        if message is not None:
            await self._write(message)
        reply: bytes = await self._call.read()
        if reply is grpc.aio.EOF:
            raise EOFError
        return reply

    async def _write(self, message: bytes) -> None:
        with suppress(asyncio.InvalidStateError):  # the call has ended: the next reply says how
            await self._call.write(message)

    def close(self) -> None:
        """Ends the connection."""
        self._call.cancel()
        self._runner.run(self._channel.close())


async def _connect(where: str | Endpoint) -> grpc.aio.Channel:
    """A channel of the running loop. Raises TimeoutError if nothing listens at `where`, which may have moved."""
    channel = open_stream_channel(where)
    try:
        await asyncio.wait_for(channel.channel_ready(), _CONNECT_S)
    except BaseException:
        await channel.close()
        raise
    return channel


class SharedStream:
    """Steps through memory that this actor shares with the learner, and their headers on a socket.

    Args:
        stream: of the same life; it says how that ended, once the socket has.
    """

    def __init__(self, stream: Stream, rows: SharedRows, doorbell: socket.socket) -> None:
        self._stream, self._rows, self._doorbell = stream, rows, doorbell

    def send(self, step: GroupStep) -> None:
        """As `Stream.send`."""
        with suppress(OSError):  # the life has ended: the next reply says how
            self._doorbell.send(self._rows.write(step))

    def exchange(self, step: GroupStep | None = None) -> GroupActions:
        """As `Stream.exchange`."""
        if step is not None:
            self.send(step)
        packet = b""
        with suppress(OSError):
            packet = self._doorbell.recv(LARGEST_PACKET)
        return self._rows.read_actions(packet) if packet else self._stream.exchange()

    def close(self) -> None:
        """Ends the connection, and lets its memory go."""
        self._doorbell.close()
        del self._rows  # at once: asyncio's errors of the stream's end may hold this object for long
        self._stream.close()


def shared(stream: Stream, path: str, token: str, hello: Hello) -> Stream | SharedStream:
    """`stream`, with memory from the learner's socket at `path`; without it, in words in the log, if there is none."""
    try:
        descriptor, doorbell = handover.ask(path, token, hello)
    except ConnectionLost as error:
        print(f"steps travel by gRPC: {error}", file=sys.stderr, flush=True)
        return stream
    try:
        return SharedStream(stream, SharedRows(descriptor, hello.spec, hello.environments), doorbell)
    finally:
        os.close(descriptor)

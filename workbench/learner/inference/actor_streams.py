"""The actors' streams: handshake, one reader per stream, replies in the order in which batches run.

An actor of this machine may get memory to share (`offer_memory`). Its steps then come on a socket that the inference
thread itself reads; its stream stays open, and ends with it.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from workbench.environment_spec import EnvironmentSpec
from workbench.errors import ConnectionLost, ShapeMismatch, WorkbenchError
from workbench.learner.inference.batcher import Batcher, Request
from workbench.learner.metrics.meters import Meters
from workbench.wire import grpc, shared_rows
from workbench.wire.handover import MOST_GROUPS, Handover
from workbench.wire.messages import GroupActions, GroupStep, Hello, Welcome
from workbench.wire.shared_rows import LARGEST_PACKET, SharedRows

LARGEST_ACTOR = 4096
Send = Callable[[GroupActions, int], None]  # actions, and the actor's first environment of their group
Admit = Callable[[Hello, Callable[[], bool]], int]
_LONGEST_DETAILS = 1000  # characters; a client accepts 8 KiB of metadata, and a character takes up to 12 bytes


@dataclass
class ActorLife:
    """One stream of one actor."""

    hello: Hello
    alive: bool = True
    last_seen: float = field(default_factory=time.monotonic)
    steps: int = 0
    error: str = ""  # about a message that does not fit
    outbox: queue.SimpleQueue[bytes | None] = field(default_factory=queue.SimpleQueue)
    doorbell: socket.socket | None = None  # of an actor that shares memory
    pending: set[int] = field(default_factory=set)
    served_s: dict[int, float] = field(default_factory=dict)  # by group: time from its last message to its actions

    def is_alive(self) -> bool:
        """False once the stream has ended."""
        return self.alive


class ActorStreams:
    """Serves actors; `admit` checks the hello of each, and returns the seed of its life. It may take long, and is given
    a function that says whether the actor is still there."""

    def __init__(
        self, *, envs_per_actor: int, batcher: Batcher, meters: Meters, admit: Admit,
        learners: int = 1, rank: int = 0,
    ) -> None:
        self._envs_per_actor, self._learners, self._rank = envs_per_actor, learners, rank
        self._batcher, self._meters, self._admit = batcher, meters, admit
        self._lock = threading.Lock()
        self._handover: Handover | None = None
        self.lives: dict[int, ActorLife] = {}

    def offer_memory(self, path: str, token: str) -> None:
        """From now on share memory with actors that ask for it at the socket `path`."""
        self._handover = Handover(path, token, self._share)

    def play(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """The handler of an actor's stream."""
        try:
            hello = Hello.decode(next(requests))
            self._check(hello)
            self._refuse_second(hello, context)
            seed = self._admit(hello, context.is_active)
        except (StopIteration, grpc.RpcError):  # the actor left without a hello
            return
        except ConnectionLost as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, _details(error))
            return
        except WorkbenchError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, _details(error))
            return
        life = self._begin(hello, context)
        if not context.add_callback(lambda: self._end(life)):
            self._end(life)
            return
        offered = self._handover if hello.groups <= MOST_GROUPS else None
        yield Welcome(seed, offered.path if offered is not None else "").encode()
        threading.Thread(target=self._read, args=(life, requests), name=f"actor-{hello.actor}", daemon=True).start()
        yield from iter(life.outbox.get, None)
        if life.error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, life.error)

    def _check(self, hello: Hello) -> None:
        if hello.environments != self._envs_per_actor:
            raise ShapeMismatch(f"actor {hello.actor} has {hello.environments} environments, the run's configuration "
                                f"says envs_per_actor={self._envs_per_actor}.")
        if hello.environments % hello.spec.agents:
            raise ShapeMismatch(f"actor {hello.actor} has {hello.environments} environments, which do not divide into "
                                f"games of {hello.spec.agents} agents.")
        if not 0 <= hello.actor < LARGEST_ACTOR:
            raise ShapeMismatch(f"actor number {hello.actor} is out of bounds: it must lie in [0, {LARGEST_ACTOR}).")
        if hello.actor % self._learners != self._rank:  # its rows here belong to another actor
            raise ShapeMismatch(f"actor {hello.actor} belongs to the learner of rank {hello.actor % self._learners}, "
                                f"and this one is of rank {self._rank}.")

    def _refuse_second(self, hello: Hello, context: grpc.ServicerContext) -> None:
        """Refuse the actor if it has a live stream; it may try again later."""
        with self._lock:
            before = self.lives.get(hello.actor)
        if before is not None and before.alive:
            _abort_second(hello, context)

    def _begin(self, hello: Hello, context: grpc.ServicerContext) -> ActorLife:
        """Register the life, unless the same actor has got a live one meanwhile."""
        with self._lock:
            before = self.lives.get(hello.actor)
            if free := before is None or not before.alive:
                life = self.lives[hello.actor] = ActorLife(hello)
                self._batcher.expect(hello.environments)
        if not free:
            _abort_second(hello, context)
        if before is not None and before.error:  # the actor may have missed it when its stream ended
            self._end(life)
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, before.error)
        return life

    def _end(self, life: ActorLife) -> None:
        with self._lock:
            if not life.alive:
                return
            life.alive = False
        self._batcher.expect(-life.hello.environments)
        life.outbox.put(None)
        if life.doorbell is not None:
            with suppress(OSError):  # it is closed
                life.doorbell.shutdown(socket.SHUT_RDWR)

    def _share(self, actor: int, run_id: int, connection: socket.socket) -> int:
        """The descriptor of memory for that life of an actor, whose steps come on `connection` from now on.

        Raises ConnectionLost if there is no such life, or it has its memory.
        """
        with self._lock:
            life = self.lives.get(actor)
            if life is None or not life.alive or life.hello.run_id != run_id or life.doorbell is not None:
                raise ConnectionLost(f"actor {actor} has no life {run_id} here that waits for memory.")
            life.doorbell = connection
        descriptor = shared_rows.create(life.hello.spec, life.hello.environments)
        try:
            rows = SharedRows(descriptor, life.hello.spec, life.hello.environments)
            self._batcher.watch(connection, partial(self._receive, life, rows, connection))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _receive(self, life: ActorLife, rows: SharedRows, connection: socket.socket) -> bool:
        """Take the step whose header has come. Returns False once the life is over."""
        def send(actions: GroupActions, first_env: int) -> None:
            connection.send(rows.write_actions(actions, first_env))

        with self._ending_if_wrong(life):
            if packet := connection.recv(LARGEST_PACKET):
                message, sent = rows.read(packet)
                self._take(life, message, send, sent)
                return True
        self._end(life)
        return False

    def _read(self, life: ActorLife, requests: Iterator[bytes]) -> None:
        """Pass the groups of a stream to the batcher until it ends or sends a message that does not fit."""
        def send(actions: GroupActions, first_env: int) -> None:
            life.outbox.put(actions.encode())

        with self._ending_if_wrong(life):
            for data in requests:
                self._take(life, GroupStep.decode(data, life.hello.spec), send, time.perf_counter())
        self._end(life)

    @contextmanager
    def _ending_if_wrong(self, life: ActorLife) -> Iterator[None]:
        """An actor that is gone, or sends what does not fit, fails in this block; the latter's life learns why."""
        try:
            yield
        except (grpc.RpcError, OSError):
            pass  # the actor is gone
        except ShapeMismatch as error:
            life.error = _details(error)
        except Exception as error:
            life.error = _details(f"a message could not be read: {type(error).__name__}: {error}")

    def _take(self, life: ActorLife, message: GroupStep, send: Send, arrived: float) -> None:
        hello, count = life.hello, len(message.step.reward)
        if message.group in life.pending or len(life.pending) >= hello.groups:
            raise ShapeMismatch(f"group {message.group} was sent again before it got its actions.")
        if message.first_env + count > hello.environments:
            raise ShapeMismatch(f"group {message.group} has environments beyond the actor's {hello.environments}.")
        life.pending.add(message.group)
        life.last_seen = time.monotonic()
        self._meters.add("environments", message.stepping_s)
        if message.round_trip_s:  # otherwise it is a reset
            life.steps += count
            self._meters.add("wire", max(0.0, message.round_trip_s - life.served_s.get(message.group, 0.0)))
        first = hello.actor // self._learners * self._envs_per_actor + message.first_env

        def reply(actions: GroupActions) -> None:
            life.served_s[message.group] = time.perf_counter() - arrived
            life.pending.discard(message.group)
            with suppress(OSError):  # the actor is gone
                send(actions, message.first_env)

        self._batcher.put(
            Request(np.arange(first, first + count), hello.run_id, message, reply, life.is_alive, arrived)
        )

    def close(self, *, but: Collection[int] = ()) -> None:
        """End all streams except those of the run ids `but`."""
        for life in list(self.lives.values()):
            if life.hello.run_id not in but:
                self._end(life)

    def end(self) -> None:
        """End all streams, and share no more memory."""
        if self._handover is not None:
            self._handover.close()
        self.close()

    @property
    def connected(self) -> int:
        """Actors with a live stream."""
        return sum(life.alive for life in list(self.lives.values()))

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the environments' actions, from the first actor; () before it has connected."""
        return next((life.hello.action_names for life in list(self.lives.values())), ())

    @property
    def groups(self) -> int:
        """Groups of environments of live streams."""
        return sum(life.hello.groups for life in list(self.lives.values()) if life.alive)


def _abort_second(hello: Hello, context: grpc.ServicerContext) -> None:
    context.abort(grpc.StatusCode.ALREADY_EXISTS, f"actor {hello.actor} is connected already")


def _details(error: object) -> str:
    """An error as details of a gRPC status: cut to a length, and encodable in UTF-8."""
    return str(error)[:_LONGEST_DETAILS].encode("utf-8", "backslashreplace").decode()


def check_same_environment(expected: EnvironmentSpec, spec: EnvironmentSpec) -> None:
    """Raises ShapeMismatch with the first field in which an actor's environment differs."""
    for name, value in expected.to_json().items():
        other = spec.to_json()[name]
        if value != other:
            raise ShapeMismatch(f"the actor's environment has {name}={other!r}, the learner's {name}={value!r}. Let "
                                "every copy of the environment have the same spaces, whichever process makes it.")

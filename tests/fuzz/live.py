"""What is fuzzed over real gRPC: a learner that trains, and a run's supervisor and learner as they are steered.

All of it runs in this process: the real `Learner` with its threads, the real `Supervisor` and `Service`. Only the
supervisor's main loop does not turn, so that no call starts or ends a process.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from tests.fuzz.fuzzing import Fault, Target, plain
from tests.fuzz.mutation import Mutator
from tests.fuzz.targets import PLAIN, step_message
from workbench import errors, rundir
from workbench.config import RunConfig
from workbench.learner.learner import Learner
from workbench.metrics import MetricsWriter
from workbench.rundir import RunDirectory
from workbench.supervisor.hosts.host import ThisMachine
from workbench.supervisor.service import Service
from workbench.supervisor.supervisor import Supervisor
from workbench.wire.messages import Hello
from workbench.wire.rpc import method_path, open_channel, serve, token_metadata

ANSWER_S = 45.0  # on a loaded machine; whoever waits longer was left hanging
_ENVIRONMENTS = 4
_REFUSALS = {grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS,
             grpc.StatusCode.RESOURCE_EXHAUSTED}
_SIZE = struct.Struct("<I")


def _home(**fields: Any) -> tuple[Path, RunDirectory]:
    """A home of its own with one run in it."""
    folder = Path(tempfile.mkdtemp(prefix="wbf"))
    before = os.environ.get("WORKBENCH_HOME")
    os.environ["WORKBENCH_HOME"] = str(folder)
    try:
        config = RunConfig.build("testing/counting-v0", **fields)
        told = {"config": config.to_json(), "created": 0.0, "state": "training", "error": None, "supervisor_pid": None}
        return folder, rundir.create("fuzzed", told)
    finally:
        os.environ.pop("WORKBENCH_HOME")
        if before is not None:
            os.environ["WORKBENCH_HOME"] = before


def joined(messages: list[bytes]) -> bytes:
    """A stream as one string of bytes."""
    return b"".join(_SIZE.pack(len(one)) + one for one in messages)


def parted(data: bytes) -> list[bytes]:
    """The messages of a stream, however their lengths were changed."""
    messages = []
    while len(data) >= _SIZE.size and len(messages) < 64:
        (size,) = _SIZE.unpack_from(data)
        messages.append(data[_SIZE.size : _SIZE.size + size])
        data = data[_SIZE.size + size :]
    return messages


class Streams:
    """Whole streams to the inference service of a learner that trains; actor 0 plays on all the time.

    An input is a stream. Its messages are sent as fast as the connection takes them, or, where the first byte is odd,
    each when the one before was answered.
    """

    name = "stream"

    def __init__(self) -> None:
        self._folder, self.run = _home(
            actors=8, envs_per_actor=_ENVIRONMENTS, groups_per_actor=2, max_batch=64, batch_timeout_ms=1.0,
            batch_size=2, unroll_length=5, learner_threads=1, device="cpu", checkpoint_interval_s=1e7,
            total_frames=10**13,
        )
        self.learner = Learner(self.run)
        self.failures: list[BaseException] = []
        self._thread = threading.Thread(target=self._train, daemon=True)
        self._thread.start()
        self._channel, self._metadata = _connected(self.run.learner_address()), token_metadata(self.run.token())
        self._play = self._channel.stream_stream(method_path("play"))
        self._number = 0
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._outbox.put(Hello(0, 99, _ENVIRONMENTS, 2, PLAIN).encode())
        self._actor = self._play(iter(self._outbox.get, None), metadata=self._metadata)
        next(self._actor)

    def _train(self) -> None:
        try:
            self.learner.run()
        except BaseException as error:
            self.failures.append(error)

    def seeds(self) -> list[bytes]:
        hello = Hello(1, 2**61, _ENVIRONMENTS, 2, PLAIN).encode()
        steps = [step_message(PLAIN, group=number % 2, first_env=number % 2 * 2) for number in range(8)]
        ended = step_message(PLAIN, finals=2)
        streams = ([hello], [hello, *steps[:2]], [hello, *steps, ended])
        return [mode + joined(messages) for mode in (b"\0", b"\1") for messages in streams]

    def make(self, mutator: Mutator, seed: bytes, pool: list[bytes]) -> bytes:
        random, messages = mutator.random, parted(seed[1:])
        if mutator.maybe(0.05):
            return mutator.bytes(seed, pool)
        if messages and mutator.maybe(0.8):
            messages[0] = _said_hello(mutator, messages[0])
        if len(messages) > 1 and mutator.maybe(0.8):
            at = random.randrange(1, len(messages))
            match random.randrange(5):
                case 0:
                    messages.insert(at, random.choice(messages))
                case 1:
                    del messages[at]
                case 2:
                    messages[at] = step_message(PLAIN, group=random.randrange(3), first_env=random.randrange(4),
                                                count=random.randrange(1, 5), finals=random.randrange(2))
                case _:
                    messages[at] = mutator.bytes(messages[at], messages)
        return random.choice((b"\0", b"\1")) + joined(messages[:16])

    def size(self, data: bytes) -> int:
        return max(1, len(parted(data[1:])))

    def give(self, data: bytes) -> str:
        self._keep_playing()
        messages, one_by_one = parted(data[1:]), bool(data[:1] and data[0] & 1)
        answered = threading.Semaphore(0)
        ended = threading.Event()
        call = self._play(_sent(messages, answered if one_by_one else None, ended), metadata=self._metadata,
                          timeout=ANSWER_S)
        replies = 0
        try:
            for _ in call:
                replies += 1
                answered.release()
        except grpc.RpcError as error:
            said = _refused(error)
        else:
            said = f"accepted: {min(replies, 3)} replies"
        finally:
            ended.set()
            answered.release()
        for life in list(self.learner.streams.lives.values()):
            if life.error.startswith("a message could not be read"):
                raise Fault(life.error)
        return said

    def _keep_playing(self) -> None:
        """Every now and then: actor 0 is answered, the learner trains, and nobody took what is actor 0's."""
        self._number += 1
        if self.failures or not self._thread.is_alive():
            raise Fault(f"the learner ended: {self.failures}")
        if self._number % 20:
            return
        self._outbox.put(step_message(PLAIN))
        answer: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=lambda: answer.put(next(self._actor)), daemon=True).start()
        try:
            answer.get(timeout=ANSWER_S)
        except queue.Empty:
            raise Fault("a live actor gets no actions any more") from None
        life = self.learner.streams.lives[0]
        if not life.alive or life.hello.run_id != 99:
            raise Fault("a stranger is the live actor now")
        calls = self.learner.calls
        if calls.state == "paused":  # ten updates in a row were not finite, from rewards that are none
            calls.resume()

    def close(self) -> None:
        self.learner.stop()
        self._outbox.put(None)
        self._actor.cancel()
        self._channel.close()
        self._thread.join(240)
        shutil.rmtree(self._folder, ignore_errors=True)


def _said_hello(mutator: Mutator, data: bytes) -> bytes:
    """Another hello: mostly one that is welcome."""
    random = mutator.random
    if mutator.maybe(0.7):
        life, groups = random.randrange(1, 2**62), random.choice((1, 2, 4))
        return Hello(random.randrange(8), life, _ENVIRONMENTS, groups, PLAIN).encode()
    try:
        return mutator.json_bytes(json.loads(data))
    except (ValueError, RecursionError):
        return mutator.bytes(data)


def _sent(messages: list[bytes], answered: threading.Semaphore | None, ended: threading.Event) -> Iterator[bytes]:
    for message in messages:
        yield message
        if answered is not None:
            answered.acquire(timeout=2.0)
        if ended.is_set():
            return


def _refused(error: grpc.RpcError) -> str:
    code, details = error.code(), str(error.details())
    if code not in _REFUSALS:
        raise Fault(f"a stream ends with {code.name}: {details}")
    return f"{code.name}: {plain(details)}"


def _connected(address: str) -> grpc.Channel:
    channel = open_channel(address)
    grpc.channel_ready_future(channel).result(240)
    return channel


class Calls:
    """JSON calls to supervisor and learner. An input is JSON: server, method, kind of token, body in Latin-1."""

    name = "control"

    def __init__(self) -> None:
        self._folder, run = _home(actors=2, envs_per_actor=4)
        self._token = run.token()
        self._learner = Learner(run)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._obey, daemon=True)
        self._thread.start()
        self._supervisor = Supervisor(run, MetricsWriter(run.metrics), place=ThisMachine(run, keep_open=0))
        self._supervisor.state = "training"
        calls = {"learner": self._learner.calls.methods(), "supervisor": Service(self._supervisor).calls()}
        self._methods = {server: sorted(known) for server, known in calls.items()}
        addresses = {"learner": run.learner_address(), "supervisor": run.supervisor_address}
        self._servers = [serve(addresses[name], self._token, calls=known) for name, known in calls.items()]
        self._channels = {name: _connected(address) for name, address in addresses.items()}

    def _obey(self) -> None:
        """The learner's main thread, as it is before there is an actor."""
        while not self._over.is_set():
            self._learner.commands.wait(0.5)
            self._learner.commands.run_pending()

    def seeds(self) -> list[bytes]:
        bodies = {"tune": {"changes": {"learning_rate": 1e-3}}, "scale": {"actors": 3},
                  "watch": {"env": 0, "since": ""}, "wall": {"since": {}},
                  "checkpoint": {"reason": "requested", "replay": None},
                  "restart_actor": {"index": 0, "kill": False}, "stop": {}}
        return [_call(server, method, "right", json.dumps(bodies.get(method, {})).encode())
                for server, methods in self._methods.items() for method in methods
                if (server, method) != ("supervisor", "checkpoint")]

    def make(self, mutator: Mutator, seed: bytes, pool: list[bytes]) -> bytes:
        random, told = mutator.random, json.loads(seed)
        body = told["body"].encode("latin-1")
        if mutator.maybe(0.9):
            try:
                body = mutator.json_bytes(json.loads(body))
            except (ValueError, RecursionError):
                body = mutator.bytes(body)
        method, token = told["method"], "right"
        if mutator.maybe(0.03):
            method = random.choice(("", "__init__", "play", "x" * 300, "run/../x", "_configure", "ask_learner"))
        if mutator.maybe(0.1):
            token = random.choice(("", "missing", "short", "long", "other", "upper"))
            if mutator.maybe(0.01):
                token = "huge"  # seldom: the client connects anew after it, which takes a second
        return _call(told["server"], method, token, body)

    def size(self, data: bytes) -> int:
        return 1

    def give(self, data: bytes) -> str:
        told = json.loads(data)
        rpc = self._channels[told["server"]].unary_unary(method_path(told["method"]))
        known = told["method"] in self._methods[told["server"]]
        try:
            answer = rpc(told["body"].encode("latin-1"), timeout=ANSWER_S, metadata=self._shown(told["token"]))
        except grpc.RpcError as error:
            allowed = {grpc.StatusCode.UNAUTHENTICATED} if told["token"] != "right" else {grpc.StatusCode.UNIMPLEMENTED}
            if told["token"] == "huge":
                allowed |= {grpc.StatusCode.RESOURCE_EXHAUSTED}  # more metadata than is read
            if error.code() not in allowed or (told["token"] == "right" and known):
                raise Fault(f"{error.code().name}: {error.details()}") from error
            return f"{error.code().name}: {told['token'] if not known else ''}"
        if told["token"] != "right":
            raise Fault(f"a call with the token {told['token']} was answered")
        return _told(told["method"], json.loads(answer))

    def _shown(self, kind: str) -> tuple[tuple[str, str], ...]:
        token = self._token
        tokens = {"right": token, "": "", "short": token[:-1], "long": token + "0", "upper": token.swapcase(),
                  "other": "0" * len(token), "huge": token * 400}
        return () if kind == "missing" else token_metadata(tokens[kind])

    def close(self) -> None:
        self._over.set()
        self._learner.commands.close()
        for channel in self._channels.values():
            channel.close()
        for server in self._servers:
            server.stop(0)
        self._thread.join(240)
        self._supervisor.close()
        with suppress(Exception):
            self._learner.log.close()
        time.sleep(0.1)
        shutil.rmtree(self._folder, ignore_errors=True)


def _call(server: str, method: str, token: str, body: bytes) -> bytes:
    return json.dumps({"server": server, "method": method, "token": token, "body": body.decode("latin-1")}).encode()


def _told(method: str, answer: dict[str, Any]) -> str:
    """What a call was answered. Raises Fault where that is an exception of Python's in a coat of ours."""
    if "error" not in answer:
        return f"accepted: {method}"
    kind, message = answer["error"]["type"], answer["error"]["message"]
    if not issubclass(getattr(errors, kind, int), errors.WorkbenchError):
        raise Fault(f"{method} was refused as {kind}")
    inner = message.partition(":")[0]
    if kind == "WorkbenchError" and inner.isidentifier() and inner.endswith(("Error", "Exception", "Interrupt")):
        raise Fault(f"{method if method == 'tune' else 'a call'} hides {inner}")
    return f"{kind}: {plain(message)}"


LIVE: dict[str, type[Target]] = {one.name: one for one in (Streams, Calls)}

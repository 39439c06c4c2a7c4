"""One contract for both ways in which steps travel: by gRPC, and through memory that actor and learner share."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import pytest

from tests.conftest import LONGEST_S
from tests.fuzz.targets import SPECS
from workbench.actor.actor_stream import SharedStream, Stream, shared
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import ConnectionLost, ShapeMismatch
from workbench.learner.inference.actor_streams import ActorStreams
from workbench.learner.inference.batcher import Batcher, Request
from workbench.learner.metrics.meters import Meters
from workbench.trajectory import StepBatch
from workbench.wire import handover, shared_rows
from workbench.wire.messages import GroupActions, GroupStep, Hello
from workbench.wire.rpc import serve
from workbench.wire.shared_rows import SharedRows

TOKEN = "secret"
ENVIRONMENTS, GROUPS = 6, 2
PLAIN = SPECS[0]


class Service:
    """A learner's streams and batcher; the test answers the batches itself."""

    def __init__(self, folder: str, transport: str) -> None:
        self.transport, self.address, self.memory = transport, f"unix:{folder}/learner", f"{folder}/memory"
        self.batcher = Batcher(max_batch=1, timeout_s=0.0)
        self.streams = ActorStreams(envs_per_actor=ENVIRONMENTS, batcher=self.batcher, meters=Meters(),
                                    admit=lambda *_: 7)
        self.server = serve(self.address, TOKEN, calls={}, streams={"play": self.streams.play})
        if transport == "auto":
            self.streams.offer_memory(self.memory, TOKEN)

    @contextmanager
    def actor(self, spec: EnvironmentSpec = PLAIN, index: int = 0) -> Iterator[Stream | SharedStream]:
        """A connected actor of its own process's loop; it shares memory if the learner offers that."""
        with asyncio.Runner() as runner, self.life(runner, spec, index) as stream:
            yield stream

    @contextmanager
    def life(
        self, runner: asyncio.Runner, spec: EnvironmentSpec = PLAIN, index: int = 0
    ) -> Iterator[Stream | SharedStream]:
        """One connection of an actor that has that loop for all of its lives."""
        hello = Hello(index, random.getrandbits(60) + 1, ENVIRONMENTS, GROUPS, spec, ("left", "right"))
        stream: Stream | SharedStream = Stream(runner, self.address, TOKEN, hello)
        try:
            welcome = stream.welcome()
            if welcome.memory:
                stream = shared(stream, welcome.memory, TOKEN, hello)
            assert isinstance(stream, SharedStream) == (self.transport == "auto")
            assert welcome.seed == 7
            yield stream
        finally:
            stream.close()

    def request(self) -> Request:
        """The next group that waits for actions."""
        (request,) = self.batcher.next_batch()
        return request

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Meanwhile what comes is read, as the inference thread does, and nothing is answered."""
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                self.batcher._receive(0.01)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield
        finally:
            done.set()
            reader.join()

    def without_actors(self) -> bool:
        """Whether no actor is connected, once what has come is read."""
        self.batcher._receive(0.0)
        return not self.streams.connected

    def close(self) -> None:
        self.batcher.close()
        self.streams.end()
        self.server.stop(0)


@pytest.fixture(params=["auto", "grpc"])
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service by both transports."""
    with tempfile.TemporaryDirectory() as folder, closing(Service(folder, request.param)) as service:
        yield service


@pytest.fixture
def sharing() -> Iterator[Service]:
    """The service that shares memory."""
    with tempfile.TemporaryDirectory() as folder, closing(Service(folder, "auto")) as service:
        yield service


def step(spec: EnvironmentSpec, seed: int, *, group: int = 0, first: int = 0, count: int = 3, finals: int = 0
         ) -> GroupStep:
    """A group's step of noise."""
    noise = np.random.default_rng(seed)

    def observations(number: int) -> np.ndarray:
        return noise.integers(0, 200, (number, *spec.observation_shape)).astype(spec.observation_dtype)

    batch = StepBatch(
        observations(count), noise.normal(size=count).astype(np.float32), noise.integers(0, 16, count, np.uint8),
        np.sort(noise.permutation(count)[:finals]).astype(np.int32), observations(finals) if finals else None,
        noise.normal(size=count).astype(np.float32) if spec.scored else None)
    return GroupStep(group, first, batch, 0.25, 0.5)


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + LONGEST_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def same(one: GroupStep, other: GroupStep) -> None:
    assert (one.group, one.first_env, one.stepping_s, one.round_trip_s) == (
        other.group, other.first_env, other.stepping_s, other.round_trip_s)
    ours, theirs = one.step.arrays(), other.step.arrays()
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype
        np.testing.assert_array_equal(array, theirs[name], name)
    np.testing.assert_array_equal(one.step.final_index, other.step.final_index)
    if len(one.step.final_index):
        np.testing.assert_array_equal(one.step.final_observation, other.step.final_observation)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_steps_and_actions_arrive_as_they_were_sent(service, spec):
    noise = np.random.default_rng(0)
    with service.actor(spec) as actor:
        for round_number in range(20):
            sent = [step(spec, 2 * round_number + group, group=group, first=3 * group, finals=round_number % 4)
                    for group in range(GROUPS)]
            for one in sent:
                actor.send(one)
            requests = [service.request() for _ in sent]
            for one, request in zip(sent, requests, strict=True):
                same(one, request.message)
                assert request.env_ids.tolist() == list(range(one.first_env, one.first_env + 3))
                assert abs(time.perf_counter() - request.arrived) < 60
            for request in requests[::-1] if round_number % 2 else requests:  # answered in any order
                actions = noise.integers(0, 2, (3, *spec.actions.shape)).astype(spec.actions.dtype)
                request.reply(GroupActions(request.message.group, actions, round_number))
                reply = actor.exchange()
                assert (reply.group, reply.policy_version) == (request.message.group, round_number)
                assert reply.actions.dtype == actions.dtype
                np.testing.assert_array_equal(reply.actions, actions)


def test_actions_stay_the_same_when_the_next_ones_are_written(service):
    with service.actor() as actor:
        replies = []
        for number in range(3):
            actor.send(step(PLAIN, number))
            service.request().reply(GroupActions(0, np.full(3, number), number))
            replies.append(actor.exchange())
        assert [reply.actions.tolist() for reply in replies] == [[0] * 3, [1] * 3, [2] * 3]


def test_an_actor_that_leaves_is_no_longer_expected_and_may_come_back(service):
    for _ in range(3):
        with service.actor() as actor:
            actor.send(step(PLAIN, 0))
            assert service.request().is_alive()
            assert service.streams.connected == 1
        until(service.without_actors)
    assert service.batcher._expected == 0


def test_the_actor_is_told_that_the_learner_closes(service):
    with service.actor() as actor:
        actor.send(step(PLAIN, 0))
        service.streams.close()
        with pytest.raises(EOFError):
            actor.exchange()
        actor.send(step(PLAIN, 1))  # nobody reads it, and that is no error


def test_the_actor_is_told_that_the_server_is_gone(service):
    with service.actor() as actor:
        actor.send(step(PLAIN, 0))
        threading.Timer(0.2, lambda: (service.server.stop(0), service.streams.close())).start()
        with pytest.raises((EOFError, grpc.RpcError)):
            actor.exchange()


WRONG = {
    "sent twice": ([step(PLAIN, 0), step(PLAIN, 1)], "was sent again"),
    "beyond the actor": ([step(PLAIN, 0, first=4)], "beyond the actor's 6"),
    "a duration that is none": ([replace(step(PLAIN, 0), stepping_s=float("nan"))], "durations"),
    "too many groups": ([step(PLAIN, 0), step(PLAIN, 1, group=1, first=3, count=1),
                         step(PLAIN, 2, group=2, first=5, count=1)], "was sent again"),
    "final observations of nobody": ([step(PLAIN, 0), replace(
        step(PLAIN, 3, group=1, first=3, finals=2), step=replace(
            step(PLAIN, 3, finals=2).step, final_index=np.array([1, 1], np.int32)))], "differ from the others"),
}


@pytest.mark.parametrize(("messages", "says"), WRONG.values(), ids=WRONG)
def test_an_actor_that_sends_what_does_not_fit_is_cut_off_alone_and_told_why(service, messages, says):
    with service.actor(index=1) as good:
        good.send(step(PLAIN, 9))
        good_request = service.request()
        service.batcher.pause(True)  # what is sent once is not answered before it is sent twice
        with service.actor(index=0) as bad:
            for message in messages:
                if isinstance(bad, SharedStream) and message.first_env + 3 > ENVIRONMENTS and says.startswith("beyond"):
                    bad._doorbell.send(message.header() + struct.pack("<d", 0.0))  # its own rows would refuse it
                else:
                    bad.send(message)
            with service.reading(), pytest.raises(grpc.RpcError) as caught:
                bad.exchange()
            assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert says in caught.value.details()
            service.batcher.pause(False)
        good_request.reply(GroupActions(0, np.zeros(3, np.int64), 3))
        assert good.exchange().policy_version == 3
        assert service.streams.connected == 1


# --- shared memory alone ----------------------------------------------------------------------------------------------


def test_the_memory_has_no_name_and_cannot_shrink():
    descriptor = shared_rows.create(PLAIN, 4)
    try:
        size = os.fstat(descriptor).st_size
        assert size == shared_rows.size_of(PLAIN, 4) > 0
        for length in (0, size - 1, size + 1):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, length)
        assert "deleted" in os.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("change", [
    {"observation": np.zeros((3, 5), np.float32)}, {"observation": np.zeros((3, 1), np.float32)},
    {"flags": np.zeros(3, np.int64)}, {"flags": np.zeros(3, np.float32)}, {"flags": np.zeros(2, np.uint8)}], ids=str)
def test_an_environment_that_gives_what_it_did_not_describe_is_refused_by_its_own_actor(change):
    descriptor = shared_rows.create(PLAIN, ENVIRONMENTS)
    rows = SharedRows(descriptor, PLAIN, ENVIRONMENTS)
    os.close(descriptor)
    good = step(PLAIN, 0)
    with pytest.raises(ShapeMismatch, match=f"{next(iter(change))} does not fit its description"):
        rows.write(replace(good, step=replace(good.step, **change)))


def asked(service: Service, request: bytes) -> tuple[bytes, list[int]]:
    """What the learner's socket answers to `request`, and the descriptors that come with it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(60)
        connection.connect(service.memory)
        connection.send(request)
        answer, descriptors, _, _ = socket.recv_fds(connection, 4096, 4)
        return answer, descriptors


def test_only_a_life_of_this_run_gets_memory_and_each_once(sharing):
    with sharing.actor() as actor:
        life = sharing.streams.lives[0].hello
        asks = {"token": TOKEN, "actor": 0, "run_id": life.run_id}
        for wrong, says in ({"token": "guess"}, b"token"), ({"run_id": 1}, b"no life"), ({"actor": 1}, b"no life"), (
                {}, b"no life"):  # it has its memory
            answer, descriptors = asked(sharing, json.dumps({**asks, **wrong}).encode())
            assert not descriptors and says in answer
        for rubbish in (b"", b"{", b"[]", b"7", b"[" * 4000, b'{"token": 3}', json.dumps({"token": TOKEN}).encode(),
                        json.dumps({**asks, "actor": float("inf")}).encode()):
            answer, descriptors = asked(sharing, rubbish) if rubbish else (b"", [])
            assert not descriptors
        actor.send(step(PLAIN, 0))
        assert sharing.request().is_alive()


def test_whoever_connects_and_says_nothing_holds_up_nobody_for_long(sharing, monkeypatch):
    monkeypatch.setattr(handover, "_SILENCE_S", 0.3)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.connect(sharing.memory)
        with sharing.actor() as actor:
            actor.send(step(PLAIN, 0))
            assert sharing.request().is_alive()


def test_without_a_socket_that_answers_the_actor_goes_on_by_grpc_and_says_so(sharing, capsys):
    Path(sharing.memory).unlink()
    hello = Hello(0, 5, ENVIRONMENTS, GROUPS, PLAIN)
    with asyncio.Runner() as runner:
        stream = Stream(runner, sharing.address, TOKEN, hello)
        welcome = stream.welcome()
        assert shared(stream, welcome.memory, TOKEN, hello) is stream
        assert "steps travel by gRPC: the learner hands over no memory at" in capsys.readouterr().err
        stream.send(step(PLAIN, 0))
        sharing.request().reply(GroupActions(0, np.zeros(3, np.int64), 1))
        assert stream.exchange().policy_version == 1
        stream.close()


def test_whatever_bytes_come_on_the_socket_the_learner_lives_and_others_play_on(sharing):
    noise, header = random.Random(0), step(PLAIN, 0).header() + struct.pack("<d", 0.0)

    def packet() -> bytes:
        changed = bytearray(header)
        for _ in range(noise.randint(0, 3)):
            changed[noise.randrange(len(changed))] = noise.randrange(256)
        return bytes(changed)[: noise.choice([len(changed)] * 4 + [1, 30, len(changed) - 1])]

    ended = taken = 0
    with sharing.actor(index=1) as good:
        for number in range(150):
            if number and sharing.streams.lives[0].error:  # the next life is told so, and sent away
                with pytest.raises(grpc.RpcError, match="FAILED_PRECONDITION"), sharing.actor(index=0):
                    pass
            with sharing.actor(index=0) as bad:
                for _ in range(3):
                    bad._doorbell.send(packet() if noise.random() < 0.9 else b"?" * noise.randint(1, 2000))
                good.send(step(PLAIN, number))
                while (request := sharing.request()).env_ids[0] < ENVIRONMENTS:
                    taken += 1
                    request.reply(GroupActions(request.message.group, np.zeros(request.size, np.int64), 0))
                same(step(PLAIN, number), request.message)
                request.reply(GroupActions(0, np.full(3, number % 3), number))
                assert good.exchange().policy_version == number
                ended += not sharing.streams.lives[0].alive
            until(lambda: not sharing.batcher._receive(0.0) and sharing.streams.connected == 1)
    assert ended > 50 and taken > 20


def test_indices_that_change_after_they_were_checked_reach_nobody(sharing):
    with sharing.actor() as actor:
        actor.send(step(PLAIN, 0, finals=2))
        request = sharing.request()
        before = request.message.step.final_index.copy()
        actor._rows._final_index[:] = 60_000
        np.testing.assert_array_equal(request.message.step.final_index, before)


def test_lives_leave_no_descriptor_behind(sharing):
    def live(runner: asyncio.Runner) -> None:
        with sharing.life(runner) as actor:
            actor.send(step(PLAIN, 0))
            sharing.request().reply(GroupActions(0, np.zeros(3, np.int64), 1))
            actor.exchange()
        until(sharing.without_actors)

    with asyncio.Runner() as runner:  # one for all lives, as an actor has: gRPC keeps calls whose loop was closed early
        for _ in range(3):
            live(runner)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            live(runner)
        until(lambda: len(os.listdir("/proc/self/fd")) <= before + 3)


def test_a_learner_that_ends_leaves_no_socket(sharing):
    assert Path(sharing.memory).exists()
    sharing.streams.end()
    assert not Path(sharing.memory).exists()
    with pytest.raises(ConnectionLost, match="hands over no memory"):
        handover.ask(sharing.memory, TOKEN, Hello(0, 5, ENVIRONMENTS, GROUPS, PLAIN))


def test_a_learner_that_may_open_nothing_for_a_moment_shares_memory_again_afterwards(sharing, monkeypatch):
    refused = []

    class Full:
        """A listener that is told once that the process has too many files open."""

        def __init__(self, listener):
            self._listener = listener

        def __getattr__(self, name):
            return getattr(self._listener, name)

        def accept(self):
            connection = self._listener.accept()
            if not refused:
                refused.append(connection[0].close())
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return connection

    monkeypatch.setattr(sharing.streams._handover, "_listener", Full(sharing.streams._handover._listener))
    for _ in range(2):  # the first one is accepted by a call that is under way
        with suppress(OSError):
            asked(sharing, b"{}")
    with sharing.actor() as actor:
        assert isinstance(actor, SharedStream) and refused

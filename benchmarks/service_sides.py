"""Both sides of each way that service.py compares, each in a process of its own; service.py says how to start them.

A server prints "listening" and ends when its standard input does. A client prints "ready" once it is connected, begins
when a line comes, and in the end prints what it measured. Environments return the same arrays again and again and no
episode ends; messages are those of the wire, or as long. A message's time is from before it is sent to after its reply
came, on all ways: what packs and unpacks it is part of it.

    python benchmarks/service_sides.py server|client ADDRESS SETTINGS      (settings as JSON)
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import queue
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent import futures
from types import SimpleNamespace

import grpc
import numpy as np
from arguments import Parser
from parts import tell

from workbench.environment_spec import EnvironmentSpec
from workbench.trajectory import Flags, StepBatch
from workbench.wire.messages import GroupActions, GroupStep
from workbench.wire.rpc import open_channel, open_stream_channel, serve

FRAME, ACTIONS, FRAMES_PER_STEP, STACK, UNROLL = (1, 84, 84), 6, 4, 4, 20
_ECHO, _TOKEN = "/benchmark/echo", "free"


def spec_of(frame_stack: int) -> EnvironmentSpec:
    return EnvironmentSpec("free", FRAME, "uint8", ACTIONS, frame_stack, FRAMES_PER_STEP)


class FreeEnvironment:
    """A vector environment that costs nothing and notes how long each of its messages was away."""

    action_names = ()
    fps = 15.0

    def __init__(self, num_envs: int, frame_stack: int, watch: Watch) -> None:
        self.spec, self.num_envs = spec_of(frame_stack), num_envs
        self._watch, self._sent = watch, 0.0
        self._step = StepBatch(np.zeros((num_envs, *FRAME), np.uint8), np.zeros(num_envs, np.float32),
                               np.zeros(num_envs, np.uint8))

    def reset(self, *, seed: int | None = None) -> StepBatch:
        self._watch.begin()
        self._sent = time.perf_counter()
        first = np.full(self.num_envs, Flags.START, np.uint8)
        return StepBatch(self._step.observation, self._step.reward, first)

    def step(self, actions: np.ndarray) -> StepBatch:
        self._sent = self._watch.received(self._sent)
        return self._step


class Over(Exception):
    """Time is up."""


class Watch:
    """What one client measures: a fifth of the time warms up and does not count; one message at least does."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._from, self._until, self._last = 0.0, 0.0, 0.0
        self._cpu = 0.0
        self.messages, self.times = 0, []

    def begin(self) -> None:
        """Say that this client is ready, and wait until all are; once."""
        if self._until:
            return
        tell("ready")
        sys.stdin.readline()
        self._from = time.perf_counter() + self._seconds / 5
        self._until, self._cpu = self._from + self._seconds, time.process_time()

    def received(self, sent: float) -> float:
        """Note a reply to what was sent then; the time now. Raises Over."""
        now = time.perf_counter()
        if now > self._until and self.times:
            raise Over
        self.messages += 1
        if now >= self._from:
            self.times.append(now - sent)
            self._last = now
        return now

    def told(self) -> dict[str, object]:
        """Counted messages' times, in how many seconds, and processor time of all messages, warming up included."""
        cpu, seconds = time.process_time() - self._cpu, max(self._seconds, self._last - self._from)
        return {"times": self.times, "seconds": seconds, "messages": self.messages, "cpu_s": cpu}


# --- clients ----------------------------------------------------------------------------------------------------------


def actor(address: str, watch: Watch, given: SimpleNamespace) -> None:
    """The actor's own loop and protocol."""
    from workbench.actor.main import connect_and_play

    groups = [FreeEnvironment(given.size, given.frame_stack, watch) for _ in range(given.flight)]
    with asyncio.Runner() as runner:
        connect_and_play(groups, address, _TOKEN, given.index, runner=runner)
    raise SystemExit("the service ended the stream")


def plain_client(address: str, watch: Watch, given: SimpleNamespace) -> None:
    """A bidirectional stream of equal bytes, with gRPC's threads."""
    message, room, sent = request_bytes(given.size), queue.SimpleQueue(), deque()

    def requests() -> Iterator[bytes]:
        while True:
            room.get()
            sent.append(time.perf_counter())
            yield message

    channel = open_channel(address)
    grpc.channel_ready_future(channel).result(30)
    replies = channel.stream_stream(_ECHO)(requests())
    watch.begin()
    for _ in range(given.flight):
        room.put(None)
    for _ in replies:
        watch.received(sent.popleft())
        room.put(None)


def plain_aio_client(address: str, watch: Watch, given: SimpleNamespace) -> None:
    """The same with gRPC's asyncio half."""
    asyncio.run(_echoed(address, watch, given))


async def _echoed(address: str, watch: Watch, given: SimpleNamespace) -> None:
    message, sent = request_bytes(given.size), deque()
    async with open_stream_channel(address) as channel:
        await channel.channel_ready()
        call = channel.stream_stream(_ECHO)()
        watch.begin()
        for _ in range(given.flight):
            sent.append(time.perf_counter())
            await call.write(message)
        while await call.read() is not grpc.aio.EOF:
            watch.received(sent.popleft())
            sent.append(time.perf_counter())
            await call.write(message)


def request_bytes(size: int) -> bytes:
    """A message of that many environments as the wire has it."""
    step = StepBatch(np.zeros((size, *FRAME), np.uint8), np.zeros(size, np.float32), np.zeros(size, np.uint8))
    return GroupStep(0, 0, step).encode()


def reply_bytes(size: int) -> bytes:
    return GroupActions(0, np.zeros(size, np.int64), 0).encode()


# --- servers ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def plain_server(address: str, given: SimpleNamespace) -> Iterator[None]:
    """Answers each message with as many bytes as actions have; gRPC's threads, bytes as they are."""
    reply = reply_bytes(given.size)

    def echo(requests: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        for _ in requests:
            yield reply

    handler = grpc.method_handlers_generic_handler("benchmark", {"echo": grpc.stream_stream_rpc_method_handler(echo)})
    server = grpc.server(futures.ThreadPoolExecutor(64), handlers=[handler])
    server.add_insecure_port(address)
    server.start()
    yield
    server.stop(0).wait()


@contextlib.contextmanager
def streams_server(address: str, given: SimpleNamespace) -> Iterator[None]:
    """The learner's streams and batcher; each batch is answered with zeros: no tables, no tensors."""
    from workbench.learner.inference.batcher import Batcher

    def answer(batcher: Batcher) -> None:
        while requests := batcher.next_batch():
            for one in requests:
                one.reply(GroupActions(one.message.group, np.zeros(one.size, np.int64), 0))

    with _streams(address, given, answer):
        yield


@contextlib.contextmanager
def inference_server(address: str, given: SimpleNamespace) -> Iterator[None]:
    """The learner's inference, by default with a network that costs nothing; unrolls are made and dropped, or not made
    at all."""
    import torch

    from workbench import algorithms, networks
    from workbench.learner.devices.choose import choose
    from workbench.learner.inference.frame_table import FrameTable
    from workbench.learner.inference.inference import Inference
    from workbench.learner.inference.published_weights import PublishedPolicy
    from workbench.learner.metrics.meters import Meters
    from workbench.replay.assembler import UnrollAssembler
    from workbench.replay.queue import UnrollQueue
    from workbench.replay.unroll_fields import UnrollLayout

    config, spec = _config(given), spec_of(given.frame_stack)
    device = choose(config, spec)
    algorithm, unrolls, meters = algorithms.build(config, spec=spec).to(device.torch), UnrollQueue(1000), Meters()
    if given.network == "null":
        network = null_network(device.torch)
    else:
        network = networks.build(given.network, spec=spec, heads=algorithm.heads, seed=0).to(device.torch)
    layout = UnrollLayout.of(algorithm, network, UNROLL)
    environments = given.actors * given.size * given.flight
    slots = {"num_envs": environments, "held": unrolls.capacity}
    keeps = given.unrolls and device.keeps_frames
    frames = FrameTable(layout, device=device, slots=sum(slots.values())) if keeps else None
    assembler = (UnrollAssembler(layout, **slots, stagger=True, frames=frames) if given.unrolls
                 else NoUnrolls(layout))
    inference = Inference(
        spec, config=lambda: config, algorithm=algorithm, policy=PublishedPolicy(network, version=0, device=device),
        assembler=assembler, frames=frames, queue=unrolls, device=device, num_envs=environments,
        generator=device.generator(0), meters=meters, on_episode=lambda episode: None,
    )

    def infer(batcher: object) -> None:
        torch.set_num_threads(1)
        try:
            inference.serve(batcher, largest=environments)
        except BaseException:
            traceback.print_exc()
            os._exit(1)  # its clients would wait forever

    def drop() -> None:
        while unrolls.take(config.hyperparameters.batch_size, timeout_s=3600):
            pass

    threading.Thread(target=drop, daemon=True).start()
    with _streams(address, given, infer):
        yield
    unrolls.close()


def null_network(device):
    """A network whose policy is uniform and whose value is 0, whatever it sees."""
    import torch

    from workbench.algorithms import PolicyValueOutput

    class Null(torch.nn.Module):
        def initial_state(self, batch: int) -> tuple[torch.Tensor, ...]:
            return ()

        def forward(self, observation, previous_action, reward, start, state):
            return PolicyValueOutput(logits.expand(*start.shape, ACTIONS), value.expand(start.shape)), ()

    logits, value = torch.zeros(ACTIONS, device=device), torch.zeros((), device=device)
    return Null()


class NoUnrolls:
    """Takes steps as the assembler of unrolls does, and keeps nothing."""

    def __init__(self, layout) -> None:
        self.layout = layout

    def reset(self, env_ids, run_id) -> None:
        pass

    def resize(self, num_envs) -> None:
        pass

    def begins(self, rows):
        return np.zeros(len(rows), bool)

    fills = begins
    size = 0

    def places(self, rows):
        return np.zeros(len(rows), np.int64)

    def append(self, env_ids, steps, before, finals=None) -> list:
        return []


def _config(given: SimpleNamespace):
    from workbench.config import RunConfig

    return RunConfig.build("ALE/Pong-v5", actors=given.actors, envs_per_actor=given.size * given.flight,
                           groups_per_actor=given.flight, unroll_length=UNROLL, device=given.device,
                           precision="fp32" if given.network == "null" else "auto")


@contextlib.contextmanager
def _streams(address: str, given: SimpleNamespace, work: Callable[[object], None]) -> Iterator[None]:
    """The learner's streams, with one thread that works on batches as large as a run's would be."""
    from workbench.learner.inference.actor_streams import ActorStreams
    from workbench.learner.inference.batcher import Batcher
    from workbench.learner.metrics.meters import Meters

    config = _config(given)
    batcher = Batcher(max_batch=max(1, config.actors * config.envs_per_actor // 2),
                      timeout_s=config.batch_timeout_ms / 1000)
    streams = ActorStreams(envs_per_actor=config.envs_per_actor, batcher=batcher, meters=Meters(),
                           admit=lambda *_: 0)
    thread = threading.Thread(target=work, args=[batcher], name="inference", daemon=True)
    thread.start()
    server = serve(address, _TOKEN, calls={}, streams={"play": streams.play}, threads=64)
    if given.memory:
        streams.offer_memory(f"{address.removeprefix('unix:')}.memory", _TOKEN)
    yield
    batcher.close()
    streams.end()
    server.stop(0)
    thread.join(5)


# --- processes --------------------------------------------------------------------------------------------------------

SERVERS = {"plain": plain_server, "streams": streams_server, "inference": inference_server}
CLIENTS = {"plain": plain_client, "plain aio": plain_aio_client, "actor": actor}


def run_server(address: str, given: SimpleNamespace) -> None:
    with SERVERS[given.server](address, given):
        tell("listening")
        sys.stdin.read()


def run_client(address: str, given: SimpleNamespace) -> None:
    watch = Watch(given.seconds)
    with contextlib.suppress(Over):
        CLIENTS[given.client](address, watch, given)
    tell(watch.told())


ROLES = {"server": run_server, "client": run_client}


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.add_argument("role", choices=tuple(ROLES))
    parser.add_argument("address", help="unix:PATH, or HOST:PORT")
    parser.add_argument("settings", type=settings, help="a JSON object, as service.py gives it")
    given = parser.parse_args(words)
    ways = {"server": SERVERS, "client": CLIENTS}[given.role]
    if vars(given.settings).get(given.role) not in ways:
        parser.error(f"the settings have no {given.role!r} that is one of {', '.join(ways)}")
    return given


def settings(text: str) -> SimpleNamespace:
    """A JSON object with its names as attributes."""
    try:
        return SimpleNamespace(**json.loads(text))
    except (ValueError, TypeError):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object") from None


def main() -> None:
    given = arguments()
    ROLES[given.role](given.address, given.settings)


if __name__ == "__main__":
    main()

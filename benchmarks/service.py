"""What the learner's inference service carries, against plain Python gRPC streams of messages of the same size.

    python benchmarks/service.py [--rounds 3] [--seconds 5] [--actors 2] [--sizes 32 1] [--flight 2 16] [--write]

Environments cost nothing (84x84 uint8, no episode ends) and the network neither, so that what is measured is the
service: streams, batching, tables, sampling, unrolls. All ways have one server process, the same number of client
processes with one stream each, and the same number of messages in flight on each stream; they take turns for several
rounds, and medians count. The plain streams answer each message with as many bytes as its actions have; they are run
with gRPC's threads and with its asyncio half on the client's side, and the faster of the two counts as 100 %. Every
process keeps its memory as a supervisor's children do, the plain ones too. Actors of the server's machine share memory
with it instead, unless told otherwise; that service is measured as well.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
from arguments import Parser, whole, written
from parts import Part
from service_sides import FRAMES_PER_STEP, STACK, UNROLL, request_bytes
from throughput import hardware

SIDES = Path(__file__).parent / "service_sides.py"
TARGET = 0.6
LOCAL_TARGETS = {32: 150_000, 1: 40_000}  # steps/s through shared memory, by environments in a message
_PARTS = {
    "streams and batcher": {"server": "streams", "client": "actor"},
    "+ inference": {"server": "inference", "client": "actor", "unrolls": False},
    f"+ unrolls of {UNROLL} steps, dropped": {"server": "inference", "client": "actor", "unrolls": True},
    f"+ {STACK} frames stacked": {"server": "inference", "client": "actor", "unrolls": True, "frame_stack": STACK},
}
WAYS = {
    "plain gRPC, threads": {"server": "plain", "client": "plain"},
    "plain gRPC, asyncio client": {"server": "plain", "client": "plain aio"},
    **{f"gRPC: {part}": given for part, given in _PARTS.items()},
    **{f"shared memory: {part}": {**given, "memory": True} for part, given in _PARTS.items()},
}
REMOTE, LOCAL = (f"{transport}: {list(_PARTS)[-1]}" for transport in ("gRPC", "shared memory"))  # the whole service
PLAIN = tuple(WAYS)[:2]
HEADS = ("way", "steps/s", "frames/s", "messages/s", "MB/s", "of plain", "p50 ms", "p95 ms", "p99 ms",
         "server µs", "clients µs")


class Measured(NamedTuple):
    """One way in one round; processor time is per message, of the server and of all clients."""

    messages_per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    server_us: float
    clients_us: float


def measure(way: dict[str, object], *, size: int, flight: int, actors: int, seconds: float) -> Measured:
    """One server, `actors` clients, `flight` messages of `size` environments on each one's stream."""
    given = {"frame_stack": 1, "device": "cpu", "network": "null", "memory": False, **way, "size": size,
             "flight": flight, "actors": actors, "seconds": seconds}
    with contextlib.ExitStack() as stack:
        address = f"unix:{stack.enter_context(tempfile.TemporaryDirectory(prefix='wb'))}/service"
        server = stack.enter_context(Part(SIDES, "server", address, json.dumps(given)))
        server.told()
        clients = [stack.enter_context(Part(SIDES, "client", address, json.dumps({**given, "index": index})))
                   for index in range(actors)]
        for client in clients:
            client.told()
        cpu = cpu_seconds(server)
        for client in clients:
            client.order("go")
        told = [client.told() for client in clients]
        cpu = cpu_seconds(server) - cpu
    times, messages = np.concatenate([one["times"] for one in told]), sum(one["messages"] for one in told)
    per_second = sum(len(one["times"]) / one["seconds"] for one in told)
    return Measured(per_second, *np.percentile(times, (50, 95, 99)) * 1e3, cpu / messages * 1e6,
                    sum(one["cpu_s"] for one in told) / messages * 1e6)


def cpu_seconds(part: Part) -> float:
    times = psutil.Process(part.process.pid).cpu_times()
    return times.user + times.system


def median(rounds: list[Measured]) -> Measured:
    return Measured(*(statistics.median(column) for column in zip(*rounds, strict=True)))


def table(size: int, flight: int, actors: int, results: dict[str, list[Measured]]) -> str:
    """One size's table, as Markdown, with its verdict."""
    medians = {way: median(rounds) for way, rounds in results.items()}
    plain = max(medians[way].messages_per_second for way in PLAIN)
    length = len(request_bytes(size))
    lines = [f"## {size} per message", "",
             f"Messages of {length:,} bytes; {actors} clients with a stream each, {flight} messages in flight on each.",
             "", f"| {' | '.join(HEADS)} |", "|" + "---|" * len(HEADS)]
    for way, one in medians.items():
        steps = one.messages_per_second * size
        lines.append(f"| {way} | {steps:,.0f} | {steps * FRAMES_PER_STEP:,.0f} | {one.messages_per_second:,.0f} | "
                     f"{one.messages_per_second * length / 1e6:,.1f} | {one.messages_per_second / plain:.0%} | "
                     f"{one.p50_ms:.2f} | {one.p95_ms:.2f} | {one.p99_ms:.2f} | {one.server_us:,.0f} | "
                     f"{one.clients_us:,.0f} |")
    ratio, local = medians[REMOTE].messages_per_second / plain, medians[LOCAL].messages_per_second * size
    verdicts = [f"The whole service by gRPC / plain gRPC = {ratio:.0%} ({verdict(ratio, TARGET, '.0%')}).",
                f"The whole service by shared memory: {local:,.0f} steps/s"
                + (f" ({verdict(local, LOCAL_TARGETS[size], ',')})." if size in LOCAL_TARGETS else ".")]
    return "\n".join([*lines, "", *verdicts, ""])


def verdict(value: float, target: float, form: str) -> str:
    return f"target {target:{form}}: {'reached' if value >= target else 'missed'}"


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.rounds(3)
    parser.seconds(5.0)
    parser.whole("--actors", 2, "client processes, with one stream each", most=60)
    parser.add_argument("--sizes", type=whole(1, 512), nargs="+", default=[32, 1],
                        help="environments in a message: 1 to 512 (default: 32 1)")
    parser.add_argument("--flight", type=whole(1, 64), nargs="+", default=[2, 16],
                        help="messages in flight on each stream, one number for each size: 1 to 64 (default: 2 16)")
    parser.writes("service.md")
    given = parser.parse_args(words)
    if len(given.sizes) != len(given.flight):
        parser.error(f"--sizes has {len(given.sizes)} numbers and --flight {len(given.flight)}; give as many of each")
    return given


def main() -> None:
    given = arguments()
    setups = list(zip(given.sizes, given.flight, strict=True))
    results: dict[tuple[int, int], dict[str, list[Measured]]] = {one: {way: [] for way in WAYS} for one in setups}
    for number in range(given.rounds):
        for size, flight in setups:
            for way in WAYS:
                found = measure(WAYS[way], size=size, flight=flight, actors=given.actors, seconds=given.seconds)
                results[size, flight][way].append(found)
                print(f"round {number + 1}: {size} per message, {way}: {found.messages_per_second * size:,.0f} steps/s",
                      file=sys.stderr, flush=True)
    tables = "\n".join(table(size, flight, given.actors, found) for (size, flight), found in results.items())
    text = (f"# The service alone\n\n`python benchmarks/service.py --rounds {given.rounds} --seconds {given.seconds:g} "
            f"--actors {given.actors} --sizes {' '.join(map(str, given.sizes))} --flight "
            f"{' '.join(map(str, given.flight))}`\n\n{hardware('cpu')}; {time.strftime('%F')}; medians of "
            f"{given.rounds} rounds. Observations are 84x84 uint8, a step is {FRAMES_PER_STEP} frames. Each way "
            "beneath the plain ones adds to the one above it; the last one of each transport is the whole service. "
            f"Processor time is per message, of the server and of all clients.\n\n{tables}")
    written(text, given.write)


if __name__ == "__main__":
    main()

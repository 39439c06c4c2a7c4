"""What strangers without the token cost a run whose port they reach, one way of bothering it after the other.

    python benchmarks/strangers.py [--rounds 3] [--seconds 10] [--rate 20] [--ways half,idle] [--write]

A run of CartPole listens with TLS on 127.0.0.1, as one of several machines does. Times without and with a stranger take
turns. He is a process of his own at the lowest priority, whose processor time is shown, because he shares the machine
with the run here. Speeds of a run vary by more than a stranger costs, so his price is measured as well: the processor
time that the learner spends on him while the run is paused and does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil
from arguments import Parser, some, written
from home import private_home
from throughput import hardware, rates, ratio_cells

import workbench as wb
from workbench.wire import certificates
from workbench.wire.endpoints import HOST, learner_name
from workbench.wire.rpc import Caller, Endpoint

MOST_OPEN = 500  # connections of the stranger
TARGET = 0.95  # of the speed without him
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
PINGS = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" * 20


class Stranger:
    """Someone who reaches the port and has no token."""

    def __init__(self, port: int) -> None:
        self._port, self._open = port, deque[socket.socket](maxlen=MOST_OPEN)
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        self._context.set_alpn_protocols(["h2"])
        certificate = ssl.get_server_certificate(("127.0.0.1", port)).encode()
        self._caller = Caller(Endpoint(f"127.0.0.1:{port}", certificate), "no token")

    def half(self) -> None:
        """Begins a handshake, and keeps the connection."""
        self._connected().sendall(b"\x16\x03\x01\x02\x00")

    def idle(self) -> None:
        """Shakes hands, and keeps the connection."""
        self._shaken()

    def pings(self) -> None:
        """Asks for answers that he never reads, on a new connection."""
        connection = self._shaken()
        connection.sendall(PREFACE + PINGS)

    def calls(self) -> None:
        """Calls with a wrong token."""
        with suppress(wb.errors.WorkbenchError):
            self._caller.call("status", timeout_s=1.0)

    def _connected(self) -> socket.socket:
        if len(self._open) == MOST_OPEN:
            self._open[0].close()
        self._open.append(socket.create_connection(("127.0.0.1", self._port), timeout=1.0))
        return self._open[-1]

    def _shaken(self) -> socket.socket:
        self._open[-1] = shaken = self._context.wrap_socket(self._connected())
        return shaken

    def bother(self, way: str, rate: float) -> None:
        """For ever, so many times a second."""
        act: Callable[[], None] = getattr(self, way)
        print("ready", flush=True)
        due = time.monotonic()
        while True:
            with suppress(OSError):  # refused, or closed: he goes on
                act()
            due = max(due + 1 / rate, time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))


WAYS = ("half", "idle", "pings", "calls")


@contextmanager
def stranger_at(run: wb.Run, way: str, given: argparse.Namespace) -> Iterator[psutil.Process]:
    """His process, while he is at it."""
    port = int(json.loads((run.directory.endpoints / f"{learner_name(0)}.json").read_text())["port"])
    command = [sys.executable, __file__, "--stranger", str(port), "--ways", way, "--rate", str(given.rate)]
    stranger = subprocess.Popen(command, preexec_fn=lambda: os.nice(19), stdout=subprocess.PIPE)
    try:
        assert stranger.stdout is not None and stranger.stdout.readline(), "he ended while he started"
        yield psutil.Process(stranger.pid)
    finally:
        stranger.send_signal(signal.SIGKILL)
        stranger.communicate()


@contextmanager
def share_of_a_core(process: psutil.Process, shares: list[float]) -> Iterator[None]:
    """Adds to `shares` what the process took of a core meanwhile."""
    started, before = time.monotonic(), sum(process.cpu_times()[:2])
    yield
    shares.append((sum(process.cpu_times()[:2]) - before) / (time.monotonic() - started))


def measure(given: argparse.Namespace) -> str:
    """All of it as Markdown. Ends the process where the run did not survive."""
    os.environ[HOST] = "127.0.0.1"
    certificates.remove = certificates.ensure  # which a run on one machine has not
    with private_home():
        run = wb.launch("CartPole-v1", name="bothered", actors=1, envs_per_actor=16, total_frames=10**9,
                        learner_threads=1, ready_timeout_s=600, progress=False)
        run.wait(updates=20, timeout_s=600, progress=False)
        quiet = {way: list[float]() for way in given.ways}
        loud, his, prices = ({way: list[float]() for way in given.ways} for _ in range(3))
        for number in range(given.rounds):
            for way in given.ways:
                quiet[way].append(rates(run, given.seconds)[0])
                with stranger_at(run, way, given) as stranger, share_of_a_core(stranger, his[way]):
                    loud[way].append(rates(run, given.seconds)[0])
                print(f"round {number + 1}: {way}: {quiet[way][-1]:,.0f} and {loud[way][-1]:,.0f} steps/s",
                      file=sys.stderr, flush=True)
        run.pause()
        learner, paused = psutil.Process(run.status.learner_pid), list[float]()
        for way in given.ways * given.rounds:
            with share_of_a_core(learner, paused):
                time.sleep(given.seconds)
            with stranger_at(run, way, given), share_of_a_core(learner, prices[way]):
                time.sleep(given.seconds)
        status, events = run.status, run.events
        if not status.alive or (events["kind"] == "restart").any():
            sys.exit(f"the run did not survive: {status.line()}\n{events}")
        told = [text for text in events["message"] if "without this run's token" in text]
    rows = []
    for way in given.ways:
        row = (f"{statistics.median(quiet[way]):,.0f}", f"{statistics.median(loud[way]):,.0f}",
               ratio_cells(loud[way], quiet[way], median=".1%", ends=".0%"), f"{statistics.median(his[way]):.1%}",
               f"{max(0.0, statistics.median(prices[way]) - statistics.median(paused)):.1%}")
        rows.append(f"| {way} | {' | '.join(row)} |")
    said = "; ".join(f"{way}: {getattr(Stranger, way).__doc__[:-1]}" for way in given.ways)
    return "\n".join([
        f"`python benchmarks/strangers.py --rounds {given.rounds} --seconds {given.seconds:g} --rate {given.rate:g} "
        f"--ways {','.join(given.ways)}`", "",
        f"{hardware()}; load average {os.getloadavg()[0]:.1f}. {given.rate:g} times a second: {said}. Medians of "
        f"{given.rounds} rounds; the aim is {TARGET:.0%}. The run lived on with all its processes.", "",
        "| way | quiet, steps/s | bothered | ratio | range | his share of a core | what the learner spends on him |",
        "|---|---|---|---|---|---|---|", *rows, "",
        f"The run's events say of it: {'; '.join(told) or 'nothing'}.", ""])


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.rounds(3)
    parser.seconds(10)
    parser.number("--rate", 20, "times a second", least=0.1, most=10_000)
    parser.add_argument("--ways", type=some(list(WAYS)), default=list(WAYS), metavar="NAME,NAME",
                        help=f"some of {', '.join(WAYS)} (default: all)")
    parser.add_argument("--stranger", type=int, help=argparse.SUPPRESS)
    parser.writes("strangers.md", "the table")
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    if given.stranger is not None:
        Stranger(given.stranger).bother(given.ways[0], given.rate)
    text = measure(given)
    written(f"# Strangers at a run's port\n\n{text}", given.write)


if __name__ == "__main__":
    main()

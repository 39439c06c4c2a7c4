"""The loop that gives a target generated inputs, and what it found.

A target refuses an input by an error of ours, or by a clear gRPC status, and says which. A fault is whatever else
happens: another exception, an answer that hides one, no answer in time. What a target says for the first time makes
its input a seed for others.
"""

from __future__ import annotations

import os
import re
import signal
import statistics
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import IO, Protocol

import psutil

from tests.fuzz.mutation import Mutator

CORPUS = Path(__file__).parent / "corpus"
HANG_S = 60.0  # on a loaded machine
_POOL, _KEPT, _LARGEST_KEPT = 512, 24, 3000  # inputs in memory; files of a target; bytes of each
_SAMPLES = 100


class Fault(AssertionError):
    """What a target did with an input, and must not do."""


class Target(Protocol):
    """Something that reads what strangers may have written."""

    name: str

    def seeds(self) -> list[bytes]:
        """Inputs that are right."""

    def make(self, mutator: Mutator, seed: bytes, pool: list[bytes]) -> bytes:
        """Another input."""

    def size(self, data: bytes) -> int:
        """How many inputs that is: 1, or the messages of a stream."""

    def give(self, data: bytes) -> str:
        """What became of the input: "accepted", or what refused it and why. Raises Fault, or anything else."""

    def close(self) -> None:
        """End what the target runs."""


@dataclass
class Found:
    """What many inputs did.

    Attributes:
        given: how often the target was given something; less than `inputs` where that is a stream of several.
        kinds: different things that the target said.
        outcomes: how often inputs were accepted, or refused by what.
        faults: a line for each kind, and how often.
        slowest_s: CPU time of this thread for one input.
        rss_before, rss_after: resident memory in MiB over 20 % to 40 % of the inputs, and over the last 20 %.
        descriptors, threads: more of them at the end than at 20 %.
    """

    target: str
    inputs: int = 0
    given: int = 0
    seconds: float = 0.0
    kinds: int = 0
    hangs: int = 0
    slowest_s: float = 0.0
    rss_before: float = 0.0
    rss_after: float = 0.0
    descriptors: int = 0
    threads: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def growth_mb(self) -> float:
        """More memory at the end."""
        return self.rss_after - self.rss_before


class _Hung(BaseException):
    pass


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _Hung

    before = signal.signal(signal.SIGALRM, ring)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def corpus(target: str) -> list[bytes]:
    """The inputs that are kept for that target."""
    return [path.read_bytes() for path in sorted((CORPUS / target).glob("*"))]


def fuzz(target: Target, *, inputs: int, seed: int = 0, keep: bool = False, tell: Path | None = None) -> Found:
    """Give the target so many inputs, its corpus first.

    Args:
        keep: write small inputs that made it say something new to the corpus.
        tell: a file that holds the input being tried, for whoever sees this process die; inputs that fail are then
            kept in the corpus.
    """
    with ExitStack() as stack:
        last = None if tell is None else stack.enter_context(open(tell, "wb", buffering=0))
        stack.enter_context(_alarm())
        return _Fuzzing(target, Mutator(seed), keep, last).run(inputs)


class _Fuzzing:
    def __init__(self, target: Target, mutator: Mutator, keep: bool, last: IO[bytes] | None) -> None:
        self.target, self.mutator, self.keep, self.last = target, mutator, keep, last
        self.seeds = target.seeds()
        self.first = [*self.seeds, *corpus(target.name)]
        self.pool = list(self.first)
        self.known: set[str] = set()
        self.found = Found(target.name)

    def run(self, inputs: int) -> Found:
        """What so many inputs did."""
        found, process, start, memory = self.found, psutil.Process(), time.perf_counter(), list[float]()
        levels = process.num_fds(), process.num_threads()
        while found.inputs < inputs:
            data = self.first[found.given] if found.given < len(self.first) else self._made()
            found.given += 1
            found.inputs += self.target.size(data)
            self._try(data)
            if found.inputs >= len(memory) * inputs / _SAMPLES:
                memory.append(process.memory_info().rss / 2**20)
                if len(memory) <= _SAMPLES // 5:
                    levels = process.num_fds(), process.num_threads()
        fifth = max(1, len(memory) // 5)
        found.rss_before = statistics.median(memory[fifth : 2 * fifth] or memory)
        found.rss_after = statistics.median(memory[-fifth:])
        found.descriptors, found.threads = process.num_fds() - levels[0], process.num_threads() - levels[1]
        found.seconds, found.kinds = time.perf_counter() - start, len(self.known)
        return found

    def _made(self) -> bytes:
        seeds = self.seeds if self.mutator.maybe(0.5) else self.pool
        return self.target.make(self.mutator, self.mutator.random.choice(seeds), self.pool)

    def _try(self, data: bytes) -> None:
        if self.last is not None:
            os.pwrite(self.last.fileno(), len(data).to_bytes(4, "little") + data, 0)
        said = self._one(data)
        if said in self.known or len(self.known) >= _POOL:
            return
        self.known.add(said)
        if self.found.given > len(self.first):
            self.pool.append(data)
            if self.keep and len(self.pool) < _KEPT + len(self.seeds) and len(data) <= _LARGEST_KEPT:
                _keep(self.target.name, data)

    def _one(self, data: bytes) -> str:
        found, began = self.found, time.thread_time()
        try:
            signal.setitimer(signal.ITIMER_REAL, HANG_S)
            said = self.target.give(data)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except _Hung:
            found.hangs += 1
            said = self._failed(data, "hung")
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}: {plain(str(error))}"
            said = self._failed(data, f"fault {what}")
            found.faults[what] += 1
        found.slowest_s = max(found.slowest_s, time.thread_time() - began)
        found.outcomes[said.partition(":")[0]] += 1
        return said

    def _failed(self, data: bytes, said: str) -> str:
        if said not in self.known and self.last is not None:  # a test leaves the corpus as it is
            _keep(self.target.name, data, "failed")
        return said


def plain(message: str) -> str:
    """A message without its numbers and quoted values, by which kinds of messages are told apart."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|/\S+|-?\d[\d,.e+]*", "#", message)[:80]


def _keep(target: str, data: bytes, what: str = "input") -> None:
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    if len(data) <= _LARGEST_KEPT * 10:
        (folder / f"{what}-{sha256(data).hexdigest()[:12]}").write_bytes(data)

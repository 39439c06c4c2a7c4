"""How fast the replay takes unrolls in and gives batches out, beside a plain NumPy copy of the same bytes.

    python benchmarks/replay.py [--unrolls 5000] [--rounds 101] [--folder DIRECTORY] [--write]

Unrolls are R2D2's of Atari by the default settings. The replay is filled, then replay and plain copy take turns for
several rounds; medians count. A plain copy is `numpy.copyto` of as many bytes as an unroll or a batch has, from and to
memory that is there already; what the replay keeps, and its counterpart, is far larger than a cache. One thread.
At the end an update is timed by itself, and with all that the replay does for it.
"""

from __future__ import annotations

import argparse
import mmap
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from arguments import Parser, folder, written
from throughput import hardware, noise, trainer_of

from workbench.environment_spec import EnvironmentSpec

if TYPE_CHECKING:
    from workbench.config import RunConfig
    from workbench.replay.storage import UnrollStorage
    from workbench.replay.unroll_fields import UnrollLayout
    from workbench.trajectory import Unroll

ATARI = EnvironmentSpec("ALE/Pong-v5", (1, 84, 84), "uint8", 6, frame_stack=4, frames_per_step=4)
ON_PAPER = 100_000  # unrolls
DISTINCT = 64  # unrolls that are inserted again and again: more than a cache holds
PLAIN_BYTES = 2**29  # where plain copies come from and go to: much more than a cache holds
INSERTS, BATCHES = 32, 1  # of one round
TRAINED, UPDATES = 4, 5  # unrolls of an update, and updates that are timed


class Plain:
    """The plain copies."""

    def __init__(self, unrolls: list[Unroll], batch_bytes: int) -> None:
        self._next, self._random = 0, np.random.default_rng(1)
        self._batch = np.ones(batch_bytes, np.uint8)
        self._unrolls = np.stack([np.concatenate([array.ravel().view(np.uint8) for array in one.arrays().values()])
                                  for one in unrolls])
        self._memory = np.ones(PLAIN_BYTES, np.uint8)

    def insert(self) -> None:
        """Copy one unroll's bytes to where the last copy ended."""
        row = self._unrolls[self._next % len(self._unrolls)]
        slot = self._next % (PLAIN_BYTES // row.size) * row.size
        np.copyto(self._memory[slot : slot + row.size], row)
        self._next += 1

    def sample(self) -> None:
        """Copy one batch's bytes from anywhere."""
        start = int(self._random.integers(PLAIN_BYTES - self._batch.size))
        np.copyto(self._batch, self._memory[start : start + self._batch.size])


def rate(work: Callable[[], object], times: int) -> float:
    """Calls per second."""
    started = time.perf_counter()
    for _ in range(times):
        work()
    return times / (time.perf_counter() - started)


def evict(storage: UnrollStorage) -> None:
    """Leave nothing of the storage's files in memory; the package itself never wants that."""
    for file in storage._files.values():
        file._map.flush()
        file._map.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(file._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def measure(layout: UnrollLayout, config: RunConfig, given: argparse.Namespace, *, folder: Path | None):
    """Rates of each round by name: unrolls/s of inserts, batches/s of samples, and those of the plain copies."""
    from workbench.replay.prioritized import PrioritizedReplay
    from workbench.replay.storage import UnrollStorage

    random, hyper = np.random.default_rng(0), config.hyperparameters
    storage = UnrollStorage(layout, capacity=given.unrolls, folder=folder)
    replay = PrioritizedReplay(storage, random=random)
    unrolls = noise(layout, DISTINCT)
    plain = Plain(unrolls, hyper.batch_size * layout.unroll_bytes)

    def insert() -> None:
        replay.insert(unrolls[replay.inserted % DISTINCT], float(random.exponential()))

    def sample() -> None:
        replay.sample(hyper.batch_size, priority_exponent=hyper.priority_exponent,
                      importance_exponent=hyper.importance_exponent)

    rate(insert, given.unrolls)
    rates: dict[str, list[float]] = {}
    works = {"insert": (insert, INSERTS), "plain insert": (plain.insert, INSERTS),
             "sample": (sample, BATCHES), "plain sample": (plain.sample, BATCHES)}
    for number in range(1 + given.rounds):
        for name, (work, times) in works.items():
            found = rate(work, times)
            if number:  # the first round warms up
                rates.setdefault(name, []).append(found)
    for _ in range(min(5, given.rounds) if folder else 0):
        evict(storage)
        rates.setdefault("cold sample", []).append(rate(sample, 1))
    replay.close()
    return rates


def training(layout: UnrollLayout, given: argparse.Namespace) -> tuple[list[float], list[float]]:
    """Seconds of an update on a batch that is there, and of one with all that the replay does for it, in each round:
    the unrolls that earn the batch are inserted, it is drawn, and its priorities come back."""
    from workbench.config import RunConfig
    from workbench.replay.prioritized import PrioritizedReplay
    from workbench.replay.queue import UnrollQueue
    from workbench.replay.replayed import Replayed
    from workbench.replay.storage import UnrollStorage

    config = RunConfig.build(ATARI.name, algorithm="r2d2", batch_size=TRAINED)
    hyper, (device, trainer, _) = config.hyperparameters, trainer_of(config, ATARI)
    unrolls = noise(layout, DISTINCT)
    replay = PrioritizedReplay(UnrollStorage(layout, capacity=DISTINCT), random=np.random.default_rng(0))
    for one in unrolls:
        replay.insert(one, 1.0)
    queue = UnrollQueue(10 * TRAINED)
    experience = Replayed(queue, replay, trainer.algorithm, min_size=DISTINCT)

    def update(batch: Any) -> Any:
        with device.tracing():
            return trainer.update(batch, config=hyper, learning_rate=hyper.learning_rate, on_bad=print)

    def whole() -> None:
        while (batch := experience.next(hyper, timeout_s=0.0)) is None:
            queue.put(unrolls[replay.inserted % DISTINCT])
        experience.after_update(batch, update(batch))

    fixed, alone, along = replay.sample(TRAINED, priority_exponent=1.0, importance_exponent=1.0), [], []
    for number in range(1 + min(given.rounds, UPDATES)):
        for found, work in ((alone, lambda: update(fixed)), (along, whole)):
            seconds = 1 / rate(work, 1)
            if number:  # the first round warms up
                found.append(seconds)
    experience.close()
    return alone, along


def row(title: str, rates: list[float], size: int, *, unrolls: int, plain: list[float] | None = None) -> str:
    """A line of the table; `size`: bytes of one call, which is about that many `unrolls`."""
    mine = statistics.median(rates)
    beside = "| | |"
    if plain:
        theirs = statistics.median(plain)
        beside = f"| {theirs * size / 2**30:.2f} | **{mine / theirs:.2f}** |"
    spread = f"{min(rates) * unrolls:,.0f} to {max(rates) * unrolls:,.0f}"
    return f"| {title} | {mine * unrolls:,.0f} | {mine * size / 2**30:.2f} {beside} {spread} |"


def report(layout: UnrollLayout, config: RunConfig, found: dict[str, dict[str, list[float]]],
           trained: tuple[list[float], list[float]], given: argparse.Namespace) -> str:
    """All of it, as Markdown."""
    one, batch = layout.unroll_bytes, config.hyperparameters.batch_size
    alone, along = map(statistics.median, trained)
    frames = int(np.prod(layout.fields["observation"][0]))
    rows = []
    for where, rates in found.items():
        rows += [row(f"{where}: inserted", rates["insert"], one, unrolls=1, plain=rates["plain insert"]),
                 row(f"{where}: sampled", rates["sample"], one * batch, unrolls=batch, plain=rates["plain sample"])]
        if "cold sample" in rates:
            rows.append(row(f"{where}: sampled, nothing of it cached", rates["cold sample"], one * batch,
                            unrolls=batch))
    return "\n".join([
        f"`python benchmarks/replay.py --unrolls {given.unrolls} --rounds {given.rounds}`", "",
        f"{hardware()}; load average {os.getloadavg()[0]:.1f}.", "",
        f"An unroll of Atari has {layout.overlap} steps of burn-in, {layout.unroll_length} that are trained on and one "
        f"more: **{one:,} bytes**, {frames / one:.1%} of them its single frames (stacked they would be "
        f"{frames * ATARI.frame_stack:,}).", "",
        "| unrolls | GiB |", "|---|---|",
        f"| {ON_PAPER:,}, on paper | {ON_PAPER * one / 2**30:.1f} |",
        f"| {given.unrolls:,}, measured below | {given.unrolls * one / 2**30:.2f} |", "",
        f"Batches of {batch} by priority; median of {given.rounds} rounds, in which replay and plain copy took "
        "turns, on one thread.", "",
        "| | unrolls/s | GiB/s | plain copy, GiB/s | ratio | range of unrolls/s |", "|---|---|---|---|---|---|", *rows,
        "",
        f"An update of {TRAINED} unrolls takes {alone * 1e3:,.0f} ms on a batch that is there, and {along * 1e3:,.0f} "
        "ms with the inserts that earn the batch, its sampling and its priorities: training keeps "
        f"**{alone / along:.1%}** of its speed (medians of {len(trained[0])} in turn).", "",
    ])


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.whole("--unrolls", 5000, "unrolls in the replay, of 0.9 MB each", least=64, most=10**6)
    parser.whole("--rounds", 101, "rounds, of which the median counts", most=100_000)
    parser.add_argument("--folder", type=folder, help="on the disk to measure (default: the one for temporary files)")
    parser.writes("replay.md", "the table")
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    from workbench.config import RunConfig

    config = RunConfig.build(ATARI.name, algorithm="r2d2")
    _, _, layout = trainer_of(config, ATARI)
    found = {"memory": measure(layout, config, given, folder=None)}
    print("measured in memory", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        found["disk"] = measure(layout, config, given, folder=Path(made))
    print("measured on disk", file=sys.stderr, flush=True)
    table = report(layout, config, found, training(layout, given), given)
    written(f"# Replay: taking in and giving out unrolls of Atari\n\n{table}", given.write)


if __name__ == "__main__":
    main()

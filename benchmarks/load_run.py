"""The run of load.py, whose unrolls are looked at, its readers and its report. No command line: load.py has it."""

from __future__ import annotations

import argparse
import bisect
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from parts import Part, tell
from throughput import hardware

from workbench import rundir
from workbench.config import RunConfig
from workbench.errors import WorkbenchError
from workbench.launchers.inline import InlinePlace
from workbench.launchers.inline.threads import ThreadLife
from workbench.learner.in_thread import ThreadLearner
from workbench.metrics import MetricsWriter
from workbench.metrics.status import RunStatus
from workbench.rundir import RunDirectory, lock
from workbench.supervisor.endings import Outcome
from workbench.supervisor.hosts.host import ThisMachine
from workbench.supervisor.hosts.local import Child
from workbench.supervisor.service import Service
from workbench.supervisor.supervisor import Supervisor
from workbench.testing import CountingEnv
from workbench.trajectory import Flags, Unroll
from workbench.wire.endpoints import SUPERVISOR, learner_name, serve_run

LOAD = Path(__file__).with_name("load.py")
NAME = "load"
LENGTHS = [7, 30, 12, 101]
LOOKS = 60
EDGES_S = np.geomspace(1e-5, 100, 281).tolist()  # each 6 % above the one before
SHARES = (0.5, 0.9, 0.99, 0.999)


class Latencies:
    """A histogram of seconds; usable from many threads."""

    def __init__(self) -> None:
        self._counts = [0] * (len(EDGES_S) + 1)
        self._largest_s = 0.0
        self._lock = threading.Lock()

    def add(self, seconds: float) -> None:
        """Count one."""
        at = bisect.bisect(EDGES_S, seconds)
        with self._lock:
            self._counts[at] += 1
            self._largest_s = max(self._largest_s, seconds)

    def percentiles_ms(self) -> list[float]:
        """Upper bounds of the percentiles of SHARES, and the largest; nan before anything was counted."""
        with self._lock:
            sums, largest = np.cumsum(self._counts), self._largest_s
        edges = [*EDGES_S, largest]
        return [1000 * (min(edges[int(np.searchsorted(sums, share * sums[-1]))], largest) if sums[-1] else np.nan)
                for share in SHARES] + [1000 * largest]

    @property
    def number(self) -> int:
        """How many were counted."""
        return sum(self._counts)


@dataclass
class Inspection:
    """What was found in the unrolls on their way to training."""

    unrolls: int = 0
    lives: set[int] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    _ends: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by environment: life, episode, step, action

    def look(self, unroll: Unroll) -> None:
        """Check an unroll, and that it begins with the last step of the one before."""
        counts = unroll.observation.astype(np.int64)
        life, episode, step, acted = counts.T
        first = (unroll.flags & Flags.START) != 0
        follows = np.where(first[1:], (episode[1:] == episode[:-1] + 1) & (step[1:] == 0),
                           (episode[1:] == episode[:-1]) & (step[1:] == step[:-1] + 1))
        expected = np.array([CountingEnv.expected_reward(*one) for one in zip(episode, step, strict=True)], np.float32)
        wrong = {
            "two lives in an unroll": (life != life[0]).any(),
            "a step lost, repeated or shifted": not follows.all(),
            "the reward of another step": (~first & (unroll.reward != expected)).any(),
            "the action of another step": (~first & (acted != unroll.previous_action)).any(),
            "an action that was not taken": (~first[1:] & (acted[1:] != unroll.action[:-1])).any(),
        }
        begin, end = tuple(counts[0].tolist()), tuple(counts[-1].tolist())
        before = self._ends.get(unroll.env_id)
        wrong["steps lost between two unrolls"] = before is not None and before[0] == begin[0] and before != begin
        self._ends[unroll.env_id] = end
        self.lives.add(begin[0])
        self.unrolls += 1
        if len(self.wrong) < 20:
            self.wrong += [f"{what}: environment {unroll.env_id}, {counts.tolist()}" for what, is_so in wrong.items()
                           if is_so]


class InspectedLearner(ThreadLearner):
    """A learner whose unrolls and times are looked at."""

    def __init__(self, run: RunDirectory) -> None:
        super().__init__(run)
        self.inspection, self.round_trips, self.waits = Inspection(), Latencies(), Latencies()
        take, add = self.streams._take, self.meters.add

        def taken(life: Any, message: Any, *how: Any) -> None:
            if message.round_trip_s:
                self.round_trips.add(message.round_trip_s)
            take(life, message, *how)

        def added(name: str, value: float) -> None:
            if name == "batch_wait":
                self.waits.add(value)
            add(name, value)

        self.streams._take, self.meters.add = taken, added  # type: ignore[method-assign]

    def _build(self) -> None:
        super()._build()
        queue = self.state.parts.experience.queue
        put = queue.put

        def inspected(*unrolls: Unroll) -> bool:
            for unroll in unrolls:
                self.inspection.look(unroll)
            return put(*unrolls)

        queue.put = inspected  # type: ignore[method-assign]


class MixedPlace(InlinePlace):
    """The learner as a thread of this process, actors as processes."""

    def __init__(self, run: RunDirectory, *, keep_open: int) -> None:
        super().__init__(run)
        self._machine = ThisMachine(run, keep_open=keep_open)
        self.learners: list[InspectedLearner] = []

    def learner(self, rank: int, *, threads: int) -> ThreadLife:
        """See `Place`."""

        def made() -> InspectedLearner:
            self.learners.append(InspectedLearner(self._run))
            return self.learners[-1]

        return self._life(learner_name(rank), made)

    def actor(self, index: int) -> Child:  # type: ignore[override]
        """See `Place`."""
        return self._machine.actor(index)


@dataclass(frozen=True)
class Sample:
    """Resident memory in MiB at some minute: of this process, and of all actors."""

    minutes: float
    learner_mb: float
    actors_mb: float
    descriptors: int
    threads: int
    steps: int


def sampled(supervisor: Supervisor, started: float) -> Sample:
    own, actors = psutil.Process(), [psutil.Process(child.pid) for child in supervisor._group.actors.values()
                                     if child.pid is not None]
    memory = sum(one.memory_info().rss for one in actors)
    return Sample((time.monotonic() - started) / 60, own.memory_info().rss / 2**20, memory / 2**20, own.num_fds(),
                  own.num_threads(), supervisor.status().steps)


def read_for_ever(number: int) -> None:
    """In a process of its own: that many readers, until a line comes or its standard input ends; then what they saw.

    Says before that each has read, or tried to.
    """
    import workbench as wb

    over, latencies, failures = threading.Event(), Latencies(), list[str]()
    rows, reads, tries = [0] * number, [0] * number, [0] * number

    def read(index: int) -> None:
        run, ended = None, over.wait(index / number)
        while not ended or not tries[index]:
            started = time.perf_counter()
            try:
                run = run or wb.attach(NAME)
                status, series = run.status, run.metrics("episode_return_mean")
                if len(series) < rows[index] or not status.alive:
                    failures.append(f"{len(series)} rows after {rows[index]}; {status.state}")
                rows[index], reads[index] = len(series), reads[index] + 1
            except WorkbenchError as error:
                failures.append(f"{type(error).__name__}: {error}")
            latencies.add(time.perf_counter() - started)
            tries[index] += 1
            ended = over.wait(1.0)

    threads = [threading.Thread(target=read, args=[index], daemon=True) for index in range(number)]
    for thread in threads:
        thread.start()
    while not all(tries):
        time.sleep(0.1)
    tell("all have read")
    sys.stdin.readline()
    over.set()
    for thread in threads:
        thread.join(60)
    tell({"reads": sum(reads), "fewest": min(reads), "percentiles": latencies.percentiles_ms(),
          "failures": failures[:20], "failed": len(failures),
          "memory_mb": psutil.Process().memory_info().rss / 2**20})


def measure(arguments: argparse.Namespace) -> tuple[str, list[str]]:
    """All of it as Markdown, and what is not as it must be."""
    config = RunConfig.build(
        "testing/counting-v0", actors=arguments.actors, envs_per_actor=arguments.envs, total_frames=10**13,
        environment_options={"episode_length": LENGTHS, "ends": "alternate"}, unroll_length=20, batch_size=32,
        learner_threads=1, device="cpu", checkpoint_interval_s=60.0, keep_checkpoints=3)
    told = {"config": config.to_json(), "created": time.time(), "state": "starting", "error": None,
            "supervisor_pid": os.getpid()}
    run = rundir.create(NAME, told)
    held = lock.hold(lock.of_supervisor(run), wait_s=0.0)
    assert held is not None
    place = MixedPlace(run, keep_open=held)
    supervisor = Supervisor(run, MetricsWriter(run.metrics), place=place)
    server = serve_run(run, SUPERVISOR, calls=Service(supervisor).calls(), threads=8)
    thread = threading.Thread(target=supervisor.serve, name="supervisor")
    thread.start()
    try:
        return _observed(arguments, run, supervisor, place)
    finally:
        supervisor.end(Outcome("stopped", "the benchmark is over"))
        thread.join()
        server.stop(1.0)
        supervisor.close()
        os.close(held)


def _observed(arguments: argparse.Namespace, run: RunDirectory, supervisor: Supervisor, place: MixedPlace
              ) -> tuple[str, list[str]]:
    while supervisor.status().state != "training" or "episode_return_mean" not in _metrics(run):
        assert supervisor.state not in ("failed", "stopping"), supervisor.status()
        time.sleep(0.5)
    with Part(LOAD, "--read", str(arguments.readers)) as readers:
        readers.told()
        started, samples = time.monotonic(), list[Sample]()
        for number in range(1, LOOKS + 1):
            time.sleep(max(0.0, started + number * arguments.minutes * 60 / LOOKS - time.monotonic()))
            samples.append(sampled(supervisor, started))
            print(samples[-1], file=sys.stderr, flush=True)
        status = supervisor.status()
        seen = readers.asked()
    return report(arguments, samples, status, seen, place)


def _metrics(run: RunDirectory) -> list[str]:
    from workbench.metrics import MetricsReader

    return MetricsReader(run.metrics).names()


def _slope(samples: list[Sample], name: str) -> float:
    """MiB per hour after the first quarter."""
    settled = samples[len(samples) // 4 :]
    return float(np.polyfit([one.minutes for one in settled], [getattr(one, name) for one in settled], 1)[0] * 60)


def report(arguments: argparse.Namespace, samples: list[Sample], status: RunStatus, seen: dict[str, Any],
           place: MixedPlace) -> tuple[str, list[str]]:
    """The tables, and what is not as it must be."""
    learner, environments = place.learners[-1], arguments.actors * arguments.envs
    found, restarts = learner.inspection, sum(actor.restarts for actor in status.actors)
    first, last = samples[0], samples[-1]
    speed = (last.steps - first.steps) / 60 / (last.minutes - first.minutes)
    wrong = [*found.wrong, *(f"a reader: {why}" for why in seen["failures"])]
    wrong += [f"{len(found.lives)} lives of {environments} environments"] * (len(found.lives) != environments)
    wrong += [f"{restarts} restarts of actors"] * (restarts != 0)
    wrong += ["the learner was restarted"] * (len(place.learners) != 1)
    names = ("round trip of a step: from an actor's sending to its actions", "wait for a batch to fill or run",
             f"a reader's status and metric, {arguments.readers} at once")
    rows = (learner.round_trips.percentiles_ms(), learner.waits.percentiles_ms(), seen["percentiles"])
    shown = samples[:: max(1, len(samples) // 8)]
    return "\n".join([
        f"`python benchmarks/load.py --minutes {arguments.minutes:g} --actors {arguments.actors} --envs "
        f"{arguments.envs} --readers {arguments.readers}`", "",
        f"{hardware('cpu')}; load average {os.getloadavg()[0]:.1f}. {environments:,} environments from "
        f"{arguments.actors} actors for {last.minutes:.1f} minutes at {speed:,.0f} steps/s, {status.updates:,} updates."
        "\n",
        "| | measured | must be |", "|---|---|---|",
        f"| unrolls looked at | {found.unrolls:,} | |",
        f"| steps lost, repeated, or mixed up | {len(found.wrong)} | 0 |",
        f"| lives of environments | {len(found.lives):,} | {environments:,} |",
        f"| actors restarted | {restarts} | 0 |",
        f"| answers to readers | {seen['reads']:,}, to each at least {seen['fewest']:,} | |",
        f"| failed answers | {seen['failed']} | 0 |",
        f"| memory of supervisor and learner | {first.learner_mb:,.0f} → {last.learner_mb:,.0f} MiB, "
        f"{_slope(samples, 'learner_mb'):+.1f} MiB/h | flat |",
        f"| memory of all actors | {first.actors_mb:,.0f} → {last.actors_mb:,.0f} MiB, "
        f"{_slope(samples, 'actors_mb'):+.1f} MiB/h | flat |",
        f"| descriptors, threads | {first.descriptors} → {last.descriptors}, {first.threads} → {last.threads} | flat |",
        "", "| ms | 50 % | 90 % | 99 % | 99.9 % | largest |", "|---|---|---|---|---|---|",
        *(f"| {name} | " + " | ".join(f"{value:,.1f}" for value in row) + " |" for name, row in
          zip(names, rows, strict=True)),
        "", "| minutes | supervisor and learner, MiB | actors, MiB | descriptors | threads | steps |",
        "|---|---|---|---|---|---|",
        *(f"| {one.minutes:.1f} | {one.learner_mb:,.0f} | {one.actors_mb:,.0f} | {one.descriptors} | {one.threads} | "
          f"{one.steps:,} |" for one in shown), "",
    ]), wrong

"""Whether training on a CPU gains by a second thread beside the actors and inference of its run, in one run.

    python benchmarks/learner_threads.py [--rounds 3] [--seconds 10] [--cases cartpole,pong]
                                         [--arms 1,2] [--bare] [--write]

Arms take turns: one thread, two threads, and two threads that sleep at once instead of spinning for 0.1 ms while they
wait for each other (OMP_WAIT_POLICY=PASSIVE); `spinning` has libgomp's own 300,000 turns, which runs had until
2026-11-29. What else the machine did is told beside: a second thread needs a core that is idle. --bare:
no run, but updates on noise in one process, where one thread and two take turns update by update.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from typing import Any, NamedTuple

import psutil
from arguments import Parser, some, written
from home import private_home
from throughput import ratio_cells

import workbench as wb
from workbench.config import RunConfig
from workbench.running.handle import Run

TITLE = "# Threads of training on a CPU\n\n"
CASES: dict[str, dict[str, Any]] = {
    "cartpole": {"environment": "CartPole-v1", "batch_size": 32},
    "pong": {"environment": "ALE/Pong-v5"},
    "pong-ppo": {"environment": "ALE/Pong-v5", "algorithm": "ppo"},
    "pong-deep": {"environment": "ALE/Pong-v5", "network": "impala-deep"},
}
ARMS = {"1": (1, {}), "2": (2, {}), "2 passive": (2, {"OMP_WAIT_POLICY": "PASSIVE"}),
        "2 spinning": (2, {"GOMP_SPINCOUNT": "300000"})}
WARM_UP_UPDATES = 10


class Measured(NamedTuple):
    """What one run did.

    Attributes:
        steps_per_second: trained steps, on the learner's clock.
        training: share of the training thread's time.
        busy_cores: processor time of the run's processes for each second.
        idle_cores: cores that nobody used, the run and everybody else.
    """

    steps_per_second: float
    training: float
    busy_cores: float
    idle_cores: float


def measure(case: str, arm: str, seconds: float) -> Measured:
    """Launch, warm up, and look at both ends of `seconds`."""
    threads, variables = ARMS[arm]
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):  # a kernel has none
        os.environ.pop(name, None)
    os.environ.update(variables)
    with private_home():
        run = wb.launch(**CASES[case], learner_threads=threads, actors=2, envs_per_actor=16, total_frames=10**9,
                        warmup_updates=0, progress=False)
        try:
            run.wait(updates=WARM_UP_UPDATES, timeout_s=600, progress=False)
            return _measured(run, seconds)
        finally:
            run.stop()


def updates(case: str, seconds: float) -> dict[str, tuple[float, float]]:
    """Updates/s, and processor time of each in s, by number of threads: updates on noise that take turns."""
    from workbench.supervisor.hosts.host import variables

    os.environ.update(variables(0))  # before torch reads how its threads wait
    import torch
    from throughput import noise, trainer_of

    from workbench import algorithms

    config = RunConfig.build(**CASES[case])
    hyper, (_, trainer, layout) = config.hyperparameters, trainer_of(config)
    batch = algorithms.collate(noise(layout, hyper.batch_size))
    taken: dict[str, list[tuple[float, float]]] = {"1": [], "2": []}
    started = time.perf_counter()
    while time.perf_counter() < started + seconds or len(taken["2"]) < 3:
        for arm, times in taken.items():
            torch.set_num_threads(int(arm))
            began, busy = time.perf_counter(), time.process_time()
            trainer.update(batch, config=hyper, learning_rate=hyper.learning_rate, on_bad=print)
            times.append((time.perf_counter() - began, time.process_time() - busy))
    medians = {arm: [statistics.median(column) for column in zip(*times[1:], strict=True)]
               for arm, times in taken.items()}  # the first one warms up
    return {arm: (1 / wall_s, busy_s) for arm, (wall_s, busy_s) in medians.items()}


def bare(cases: list[str], arguments: argparse.Namespace) -> str:
    """The table of `updates`, as Markdown."""
    before, rows, machine = psutil.cpu_times(), [], wb.machine()
    for case in cases:
        told = [updates(case, arguments.seconds) for _ in range(arguments.rounds)]
        ratios = [one["2"][0] / one["1"][0] for one in told]
        costs = [one["2"][1] / one["1"][1] for one in told]
        speed = statistics.median(one["1"][0] for one in told)
        rows.append(f"| {case} | {speed:.2f} | {statistics.median(ratios):.2f} | {min(ratios):.2f} to "
                    f"{max(ratios):.2f} | {statistics.median(costs):.2f} |")
        print(rows[-1], file=sys.stderr, flush=True)
    after = psutil.cpu_times()
    idle = (after.idle - before.idle) / max(1e-9, sum(after) - sum(before))
    return "\n".join([
        f"`python benchmarks/learner_threads.py --bare --rounds {arguments.rounds} --seconds {arguments.seconds:g} "
        f"--cases {','.join(cases)}`, OMP_WAIT_POLICY={os.environ.get('OMP_WAIT_POLICY', 'not set')}", "",
        f"{machine.processor}, {machine.cores} cores, {idle:.0%} idle beside it; load average "
        f"{os.getloadavg()[0]:.1f}; medians of {arguments.rounds} rounds.", "",
        "| updates on noise | updates/s, 1 thread | 2 threads / 1 | range | processor time, 2 threads / 1 |",
        "|---|---|---|---|---|", *rows, "",
    ])


def _measured(run: Run, seconds: float) -> Measured:
    first, busy, idle, started = run.status, _busy_s(run), psutil.cpu_times().idle, time.perf_counter()
    shares = []
    while time.perf_counter() - started < seconds or run.status.updates == first.updates:
        time.sleep(1.0)
        shares.append(run.status.bottleneck.get("training", 0.0))
    elapsed = time.perf_counter() - started
    last, hyper = run.status, run.config.hyperparameters
    steps = (last.updates - first.updates) * hyper.batch_size * hyper.unroll_length
    return Measured(steps / (last.time_s - first.time_s), statistics.mean(shares), (_busy_s(run) - busy) / elapsed,
                    (psutil.cpu_times().idle - idle) / elapsed)


def _busy_s(run: Run) -> float:
    """Processor time of all processes of the run."""
    supervisor = psutil.Process(run.directory.read()["supervisor_pid"])
    times = [one.cpu_times() for one in (supervisor, *supervisor.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def table(rounds: dict[str, dict[str, list[Measured]]], arguments: argparse.Namespace, load: str) -> str:
    """The result, as Markdown."""
    rows = []
    for case, arms in rounds.items():
        one = [taken.steps_per_second for taken in arms["1"]]
        for arm, taken in arms.items():
            median = [statistics.median(column) for column in zip(*taken, strict=True)]
            compared = ratio_cells([its.steps_per_second for its in taken], one)
            rows.append(f"| {case} | {arm} | {median[0]:,.0f} | {compared} | {median[1]:.0%} | {median[2]:.2f} | "
                        f"{median[3]:.2f} |")
    machine = wb.machine()
    return "\n".join([
        f"`python benchmarks/learner_threads.py --rounds {arguments.rounds} --seconds {arguments.seconds:g} --cases "
        f"{','.join(rounds)}`", "",
        f"{machine.processor}, {machine.cores} cores; 2 actors x 16 environments; medians of {arguments.rounds} "
        f"rounds, ratios of each round's pair. Load average: {load}.", "",
        "| | learner_threads | steps/s | / one thread | range | training | cores of the run | idle cores |",
        "|---|---|---|---|---|---|---|---|", *rows, "",
    ])


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.rounds(3)
    parser.seconds(10)
    parser.add_argument("--cases", type=some(list(CASES)), default=list(CASES), metavar="CASE,CASE",
                        help=f"some of {', '.join(CASES)} (default: all)")
    parser.add_argument("--arms", type=some(list(ARMS)), default=list(ARMS), metavar="ARM,ARM",
                        help=f"some of {', '.join(ARMS)}; 1 is one of them (default: all)")
    parser.add_argument("--bare", action="store_true", help="updates on noise in one process, no run")
    parser.writes("learner-threads.md", "the table")
    given = parser.parse_args(words)
    if "1" not in given.arms:
        parser.error("--arms needs 1, which the others are compared with")
    return given


def main() -> None:
    given = arguments()
    cases, arms = given.cases, given.arms
    if given.bare:
        written(f"{TITLE}{bare(cases, given)}", given.write, variant="bare")
        return
    before = os.getloadavg()[0]
    rounds: dict[str, dict[str, list[Measured]]] = {case: {arm: [] for arm in arms} for case in cases}
    for number in range(given.rounds):
        for case in cases:
            for arm in arms:
                taken = measure(case, arm, given.seconds)
                rounds[case][arm].append(taken)
                print(f"round {number + 1}: {case}, {arm}: {taken}, load {os.getloadavg()[0]:.1f}", file=sys.stderr,
                      flush=True)
    text = table(rounds, given, f"{before:.1f} before, {os.getloadavg()[0]:.1f} after")
    written(f"{TITLE}{text}", given.write)


if __name__ == "__main__":
    main()

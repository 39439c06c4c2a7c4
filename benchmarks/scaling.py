"""What more of each costs: trained steps/s, CPU, waits and memory while one thing grows.

    python benchmarks/scaling.py [--seconds 10] [--rounds 2] [--only actors|environments|unroll|batch|learners|memory]
                                 [--environment ALE/Pong-v5] [--algorithm vtrace] [--precision auto] [--values 16 64]
                                 [--warm-up-updates 15] [--write]

Grows: actors, once with 16 environments each and once with 32 in total; environments in total; the unroll length; the
batch size; learners, once with 16 environments an actor and once with 64. The rest stays at 2 actors x 16
environments, unroll 20, batch 32, which several learners share. Every row is a run of its own, launched as users launch
it; all rows take turns for several rounds, and medians count. Measured after a warm-up, from one update to another,
over whole cycles in which each environment gives the same number of unrolls: many environments finish their unrolls at
the same time, and part of a cycle would count too much or too little.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil
from arguments import Parser, whole
from home import private_home
from throughput import hardware

import workbench as wb

if TYPE_CHECKING:
    import pandas as pd

    from workbench.config import RunConfig
    from workbench.metrics.status import RunStatus
    from workbench.wire.rpc import Caller

COMMON = {"actors": 2, "envs_per_actor": 16, "unroll_length": 20, "batch_size": 32, "learners": 1}
SMALL_REPLAY = {"replay_min_size": 64, "replay_size": 2000}
ACTORS, ENVIRONMENTS = (1, 2, 4, 8), (16, 64, 256, 1024)
UNROLLS, BATCHES, LEARNERS = (5, 10, 20, 40, 80), (8, 16, 32, 64, 128), (1, 2)
TOTAL = COMMON["actors"] * COMMON["envs_per_actor"]
SECTIONS = ("actors", "environments", "unroll", "batch", "learners", "memory")
PATIENCE_S = 600.0  # for the start, the warm-up, and the rest of the last cycle: 1,024 Atari games take minutes to make
POLL_S, SAMPLE_S = 0.05, 0.5  # between looks at the updates, and at the memory
MEGABYTE = 1e6


@dataclass(frozen=True)
class Setting:
    """One row of a table: what grows, the series that it belongs to, its value, and the fields that make it."""

    sweep: str
    series: str
    value: int
    fields: dict[str, int]


def settings_of(sweep: str, values: list[int]) -> list[Setting]:
    """The rows of a sweep; `values`: instead of its own."""
    if sweep == "actors":
        each = [Setting(sweep, f"{COMMON['envs_per_actor']} environments each", count, {"actors": count})
                for count in values or ACTORS]
        same = [Setting(sweep, f"{TOTAL} environments in total", count,
                        {"actors": count, "envs_per_actor": TOTAL // count}) for count in values or ACTORS]
        return each + same
    if sweep == "environments":
        return [Setting(sweep, f"{COMMON['actors']} actors", count, {"envs_per_actor": count // COMMON["actors"]})
                for count in values or ENVIRONMENTS]
    if sweep == "learners":
        actors = max(COMMON["actors"], *values, 0)
        return [Setting(sweep, f"{actors} actors of {envs} environments", count,
                        {"learners": count, "actors": actors, "envs_per_actor": envs})
                for envs in (16, 64) for count in values or LEARNERS]
    field, own = {"unroll": ("unroll_length", UNROLLS), "batch": ("batch_size", BATCHES)}[sweep]
    return [Setting(sweep, f"{TOTAL} environments", count, {field: count}) for count in values or own]


# --- one run ----------------------------------------------------------------------------------------------------------


@contextmanager
def launched(home: str, name: str, environment: str, **fields: Any) -> Iterator[wb.Run]:
    """A run, of which nothing is left afterwards, whatever happens."""
    try:
        yield wb.launch(
            environment, name=name, progress=False, ready_timeout_s=PATIENCE_S, total_frames=10**12,
            learner_threads=wb.machine().learner_threads, **fields)
    finally:
        try:
            with suppress(wb.errors.WorkbenchError):
                wb.attach(name).stop(timeout_s=0)
        finally:
            for process in psutil.process_iter(["cmdline"]):
                if any(part.startswith(home) for part in process.info["cmdline"] or ()):
                    with suppress(psutil.NoSuchProcess):
                        process.kill()


class Processes:
    """The processes of a run by part, each with whatever it started: CPU seconds, and the most memory seen."""

    def __init__(self, status: RunStatus) -> None:
        self.parts = {"learner": [one for pid in status.learner_pids for one in _family(pid)],
                      "supervisor": [psutil.Process(status.supervisor_pid)],
                      "actor": [one for actor in status.actors for one in _family(actor.pid)]}
        self._actors = len(status.actors)
        self.memory: dict[str, float] = {}  # MB, of one actor: the mean
        self._before = self._cpu()

    def sample(self) -> None:
        """Look at the memory: all that is mapped (RSS), and without what files and other processes share."""
        for part, processes in self.parts.items():
            infos = [one.memory_info() for one in processes]
            count = self._actors if part == "actor" else 1
            for name, used in (("rss", sum(info.rss for info in infos)),
                               ("own", sum(info.rss - info.shared for info in infos))):
                column = f"{part}_{name}_mb"
                self.memory[column] = max(self.memory.get(column, 0.0), used / MEGABYTE / count)

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds since this was made."""
        return {part: after - self._before[part] for part, after in self._cpu().items()}

    def _cpu(self) -> dict[str, float]:
        return {part: sum(sum(one.cpu_times()[:2]) for one in processes) for part, processes in self.parts.items()}


def _family(pid: int | None) -> list[psutil.Process]:
    first = psutil.Process(pid)
    return [first, *first.children(recursive=True)]


def cycle_updates(config: RunConfig) -> int:
    """Updates after which all environments have given the same number of whole unrolls."""
    batch = config.hyperparameters.batch_size
    return math.lcm(config.actors * config.envs_per_actor, batch) // batch


def after_update(learner: Caller, number: int) -> dict[str, Any]:
    """What the learner itself tells right after update `number`: the supervisor's answer is up to half a second old."""
    deadline = time.monotonic() + PATIENCE_S
    while (told := learner.call("status")).get("updates", 0) < number:  # none yet: the learner was started again
        if time.monotonic() > deadline:
            why = told.get("hint") or told["state"]
            raise wb.errors.WaitTimeout(f"update {number} has not come after {PATIENCE_S:g} s: {why}")
        time.sleep(POLL_S)
    return told


def measure(run: wb.Run, seconds: float, warm_up_updates: int) -> dict[str, Any]:
    """The numbers of one run that has just begun to train."""
    from workbench.wire.rpc import Caller

    config = run.config
    cycle = cycle_updates(config)
    run.wait(updates=cycle * math.ceil(warm_up_updates / cycle), timeout_s=PATIENCE_S, progress=False)
    learner = Caller(run.directory.learner_address(), run.directory.token())
    try:
        first = after_update(learner, learner.call("status").get("updates", 0) + 1)
        processes = Processes(run.status)
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0 or not has_row(run, since_s=first["time_s"]):
            processes.sample()
            time.sleep(min(SAMPLE_S, max(left_s, 0.1)))
        done = learner.call("status").get("updates", 0) - first["updates"]
        last = after_update(learner, first["updates"] + cycle * (done // cycle + 1))
        processes.sample()
        cpu_s = processes.cpu_s()
    finally:
        learner.close()
    check_unharmed(run)
    return {**speeds(config, first, last), **costs(cpu_s, config, first, last), **processes.memory,
            **recorded(run, first, last, config)}


def has_row(run: wb.Run, *, since_s: float) -> bool:
    """Whether the run has recorded itself since then, which it does once a second."""
    return "policy_lag_mean" in run.metric_names and bool((run.metrics("policy_lag_mean")["time_s"] > since_s).any())


def check_unharmed(run: wb.Run) -> None:
    """Raises RunFailed if something went wrong on the way that the run has survived."""
    errors = [one.message for one in run.events.itertuples() if one.kind == "error"]
    restarts = sum(actor.restarts for actor in run.status.actors)
    if errors or restarts:
        raise wb.errors.RunFailed(f"{restarts} restarts of actors; {'; '.join(errors) or 'no error told'}")


def speeds(config: RunConfig, first: dict[str, Any], last: dict[str, Any]) -> dict[str, float]:
    """Trained steps/s and frames/s, steps/s acted, and what they were measured over."""
    hyper, elapsed = config.hyperparameters, last["time_s"] - first["time_s"]
    updates, acted = last["updates"] - first["updates"], last["steps"] - first["steps"]
    trained = updates * hyper.batch_size * hyper.unroll_length
    frames_per_step = last["frames"] / last["steps"]
    return {"steps_per_second": trained / elapsed, "frames_per_second": trained * frames_per_step / elapsed,
            "acted_steps_per_second": acted / elapsed, "seconds": elapsed, "updates": updates}


def costs(cpu_s: dict[str, float], config: RunConfig, first: dict[str, Any], last: dict[str, Any]) -> dict[str, float]:
    """CPU seconds per 1,000 trained steps by part, and how many cores the run kept busy."""
    hyper = config.hyperparameters
    thousands = (last["updates"] - first["updates"]) * hyper.batch_size * hyper.unroll_length / 1000
    busy = sum(cpu_s.values()) / (last["time_s"] - first["time_s"])
    return {**{f"{part}_cpu_s": used / thousands for part, used in cpu_s.items()}, "cores_busy": busy}


def recorded(run: wb.Run, first: dict[str, Any], last: dict[str, Any], config: RunConfig) -> dict[str, Any]:
    """Means of what the run itself recorded meanwhile, and the round trip that follows from it."""
    import scaling_report as report

    names = [*report.WAITS, *report.SHARES, "policy_lag_mean", "queue_occupancy"]
    found: dict[str, Any] = {name: math.nan for name in names}
    for name in set(names) & set(run.metric_names):
        series = run.metrics(name)
        found[name] = series["value"][series["time_s"].between(first["time_s"], last["time_s"])].mean()
    environments = config.actors * config.envs_per_actor
    between_s = environments * (last["time_s"] - first["time_s"]) / (last["steps"] - first["steps"])
    groups = min(config.groups_per_actor, config.envs_per_actor)
    found["round_trip_ms"] = 1000 * between_s * (1 - found["time_environments"] / groups)
    return {**found, "device": last["device"], "precision": last["precision"]}


# --- all of them ------------------------------------------------------------------------------------------------------


def measured(home: str, name: str, fields: dict[str, int], given: argparse.Namespace) -> dict[str, Any]:
    """The numbers of one setting, or the error that it ended with."""
    load, started = os.getloadavg()[0], time.monotonic()
    try:
        with launched(home, name, given.environment, **given.fields, **fields) as run:
            found = {"start_s": time.monotonic() - started, **measure(run, given.seconds, given.warm_up_updates)}
    except (wb.errors.WorkbenchError, psutil.Error) as error:
        found = {"error": f"{type(error).__name__}: {error}"}
    return {"error": "", **found, "load": load}


def measure_all(home: str, settings: list[Setting], given: argparse.Namespace) -> pd.DataFrame:
    """A line per setting and round. Settings with the same fields share one run a round."""
    import pandas as pd

    lines = []
    for number in range(1, given.rounds + 1):
        known: dict[tuple[int, ...], dict[str, Any]] = {}
        for one in settings:
            fields = {**COMMON, **one.fields}
            key = tuple(fields.values())
            if key not in known:
                known[key] = measured(home, f"run-{number}-{len(known)}", fields, given)
                said = known[key]["error"].partition("\n")[0] or f"{known[key]['steps_per_second']:,.0f} steps/s"
                print(f"round {number}: {one.sweep} {one.value}, {one.series}: {said}", file=sys.stderr, flush=True)
            environments = fields["actors"] * fields["envs_per_actor"]
            lines.append({"sweep": one.sweep, "series": one.series, "value": one.value, "round": number, **fields,
                          "environments": environments, **known[key]})
    return pd.DataFrame(lines)


def conditions(given: argparse.Namespace, sweep: str) -> str:
    """Command, machine and setting of a section."""
    values = f" --values {' '.join(map(str, given.values))}" if given.values else ""
    only = f" --only {given.only}" if given.only else ""
    plain = ", ".join(f"{name} {value}" for name, value in COMMON.items())
    return (f"`python benchmarks/scaling.py --seconds {given.seconds:g} --rounds {given.rounds}{only} "
            f"--environment {given.environment} --algorithm {given.algorithm} --precision {given.precision}"
            f"{values}`\n\n"
            f"{hardware()}. {plain} but for what grows; median of {given.rounds} rounds.")


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The arguments; `sections` and `settings` are what they stand for."""
    parser = Parser(__doc__, script=__file__)
    parser.environment("--environment", "ALE/Pong-v5")
    parser.add_argument("--algorithm", default="vtrace", choices=("vtrace", "r2d2"), help="default: vtrace")
    parser.add_argument("--precision", default="auto", choices=("auto", "fp32", "bf16"), help="default: auto")
    parser.seconds(10.0, "seconds measured in each run, at least")
    parser.rounds(2)
    parser.add_argument("--only", choices=SECTIONS, help="default: all")
    parser.add_argument("--values", type=whole(1, 100_000), nargs="+", default=[], help="of what grows, with --only")
    parser.whole("--warm-up-updates", 15, "updates before a measurement begins, at least", most=10_000)
    parser.add_argument("--write", action="store_true", help="write results/scaling.md, and a CSV and PNG each")
    given = parser.parse_args(words)
    if given.values and not given.only:
        parser.error("--values needs --only: each sweep has its own")
    given.sections = [given.only] if given.only else list(SECTIONS)
    replay = SMALL_REPLAY if given.algorithm == "r2d2" else {}
    given.fields = {"algorithm": given.algorithm, "precision": given.precision, **replay}
    sweeps = dict.fromkeys("environments" if one == "memory" else one for one in given.sections)
    given.settings = [one for sweep in sweeps for one in settings_of(sweep, given.values)]
    _check(given, parser)
    return given


def _check(given: argparse.Namespace, parser: Parser) -> None:
    from workbench.config import RunConfig

    with parser.refusing():
        for one in given.settings:
            RunConfig.build(given.environment, **given.fields, **{**COMMON, **one.fields})


def main() -> None:
    given = arguments()
    import scaling_report as report

    with private_home("wb-scaling-") as home:
        lines = report.with_all_columns(measure_all(home, given.settings, given))
    written = {one: report.section(one, lines, conditions(given, one)) for one in given.sections}
    print("\n".join([report.COLUMNS, *written.values()]))
    if given.write:
        report.write(written, lines)


if __name__ == "__main__":
    main()

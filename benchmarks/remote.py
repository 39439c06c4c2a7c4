"""What it costs to run on a cluster: the same run on this machine, with TLS between learner and actors, and under Ray.

    python benchmarks/remote.py [--rounds 3] [--seconds 20] [--environment ALE/Pong-v5] [--envs 64] [--actors 1]
                                [--warm-up-updates 10] [--ways local tls ray] [--write]

Each way is a real run that trains, whose steps/s are counted over some seconds after a warm-up; ways take turns and
medians count. With --envs 64 a message holds 32 environments. "tls" is a local run whose actors are told that they are
on another machine, so that they connect to 127.0.0.1 by TLS instead of the socket. "ray" is a cluster of one node on
this machine, whose actors use the socket as well; Ray's own processes are part of what it costs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from arguments import Parser, written
from home import private_home
from throughput import hardware, rates

WAYS = ("local", "tls", "ray")
TARGETS = {"tls": 0.90, "ray": 0.95}
PATIENCE_S = 900.0
_OBJECT_STORE = 80 * 2**20


def supervise(run_dir: str) -> int:
    """A supervisor whose actors take themselves to be on another machine than the learner."""
    from workbench.rundir import RunDirectory
    from workbench.supervisor import main
    from workbench.supervisor.hosts.host import ThisMachine, variables
    from workbench.supervisor.hosts.local import Child
    from workbench.wire.endpoints import HOST, MACHINE

    class Apart(ThisMachine):
        def actor(self, index: int) -> Child:
            run, environment = self._run, {**os.environ, **variables(1), MACHINE: "another"}
            return Child(f"actor-{index}", ["_actor", str(run.path), str(index)], logs=run.logs,
                         environment=environment, keep_open=self._keep_open)

    def place(run: RunDirectory, held: int) -> Apart:
        return Apart(run, keep_open=held)

    os.environ[HOST] = "127.0.0.1"
    main._place = place
    return main.main(run_dir)


class Apart:
    """A launcher for `supervise`."""

    def check(self, config: Any) -> None:
        pass

    def check_name(self, name: str) -> None:
        pass

    def start(self, run: Any) -> Any:
        from workbench.launchers.local import LocalProcess, clean_environment
        from workbench.wire import certificates

        certificates.ensure(run)
        log = run.logs / "supervisor.log"
        with open(log, "ab") as output:
            process = subprocess.Popen(
                [sys.executable, __file__, "--supervise", str(run.path)], stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, start_new_session=True, env=clean_environment(os.environ, sys.path))
        return LocalProcess(process, log)


def launched(way: str, fields: dict[str, Any], address: str) -> Any:
    """A run of that way that trains."""
    import workbench as wb
    from workbench import launchers

    environment, rest = fields["environment"], {name: fields[name] for name in fields if name != "environment"}
    if way == "ray":
        return wb.launch(environment, launcher="ray", address=address, learner_cpus=0.5, actor_cpus=0.5,
                         ready_timeout_s=PATIENCE_S, **rest)
    known = launchers.by_name
    launchers.by_name = (lambda name: Apart()) if way == "tls" else known
    try:
        return wb.launch(environment, ready_timeout_s=PATIENCE_S, **rest)
    finally:
        launchers.by_name = known


def measure(way: str, fields: dict[str, Any], address: str, seconds: float, warm_up_updates: int) -> float:
    """Steps per second of the run after its warm-up."""
    run = launched(way, fields, address)
    try:
        run.wait(updates=warm_up_updates, timeout_s=PATIENCE_S, progress=False)
        return rates(run, seconds)[0]
    finally:
        run.stop(timeout_s=20)


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """The address of a Ray cluster of one node."""
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"})
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={
        "num_cpus": os.cpu_count(), "object_store_memory": _OBJECT_STORE, "include_dashboard": False})
    try:
        yield made.address
    finally:
        made.shutdown()


def table(results: dict[str, list[float]], given: argparse.Namespace) -> str:
    """The results as Markdown, with verdicts."""
    local = statistics.median(results["local"])
    lines = [f"# Remote: {given.environment}, {given.actors} actors of {given.envs} environments, "
             f"{given.envs // 2} a message", "", hardware(), "",
             f"Medians of {given.rounds} rounds of {given.seconds:g} s.", "",
             "| way | steps/s | of local | target | rounds |", "|---|---|---|---|---|"]
    for way, rounds in results.items():
        ratio, target = statistics.median(rounds) / local, TARGETS.get(way)
        verdict = "" if target is None else f"{target:.0%}: {'reached' if ratio >= target else 'missed'}"
        each = ", ".join(f"{one:,.0f}" for one in rounds)
        lines.append(f"| {way} | {statistics.median(rounds):,.0f} | {ratio:.1%} | {verdict} | {each} |")
    return "\n".join([*lines, ""])


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.rounds(3)
    parser.seconds(20.0)
    parser.environment("--environment", "ALE/Pong-v5")
    parser.whole("--envs", 64, "environments of each actor, half of them in a message", least=2, most=4096, multiple=2)
    parser.whole("--actors", 1, "actors", most=1024)
    parser.whole("--warm-up-updates", 10, "updates before a measurement begins", most=10_000)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS),
                        help="to measure; \"local\" always is, as the others are compared with it (default: all)")
    parser.writes("remote.md", "the table")
    parser.add_argument("--supervise", help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    given.ways = [way for way in WAYS if way == "local" or way in given.ways]
    return given


def main() -> int:
    given = arguments()
    if given.supervise:
        return supervise(given.supervise)
    fields = {"environment": given.environment, "actors": given.actors, "envs_per_actor": given.envs,
              "learner_threads": 1, "total_frames": 10**12}
    results: dict[str, list[float]] = {way: [] for way in given.ways}
    with private_home():
        for round_ in range(given.rounds):
            for way in given.ways[round_ % len(given.ways):] + given.ways[:round_ % len(given.ways)]:
                # Ray's own processes are part of what it costs, and of nothing else.
                with cluster() if way == "ray" else contextlib.nullcontext("") as address:
                    results[way].append(measure(way, fields, address, given.seconds, given.warm_up_updates))
                print(f"round {round_ + 1}, {way}: {results[way][-1]:,.0f} steps/s", flush=True)
    written(table(results, given), given.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())

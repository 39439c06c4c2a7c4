"""How long many actors on a Ray cluster take to start, and what memory the cluster's head and each of them hold.

    python benchmarks/ray_actors.py [--actors 16 64] [--nodes 4] [--patience 1800] [--write]

The cluster is processes of this machine: a head with room for the learner, and --nodes nodes that share the actors.
The run is CartPole's; an actor has one environment and reserves one of Ray's CPUs, of which nodes say that they have
enough. Time: from the launch until the learner has a stream of so many actors. Memory: proportional set size (PSS),
where a page that n processes share counts 1/n for each, once all are connected. An actor is two processes: its host,
which is a worker of Ray's, and its own. Ray starts as many workers of a node at once as the machine has cores.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arguments import Parser, whole, written
from home import private_home
from throughput import hardware

ROOT = Path(__file__).parents[1]
_OBJECT_STORE = 80 * 2**20  # bytes; Ray's least is 75 MiB
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
             "RAY_agent_register_timeout_ms": "600000", "RAY_worker_register_timeout_seconds": "1200"}
_LOOK_S = 0.5


@dataclass
class Measured:
    """One number of actors. Times in s after the launch; memory (PSS) in MiB, by part."""

    actors: int
    connected_s: dict[str, float] = field(default_factory=dict)
    memory: dict[str, list[float]] = field(default_factory=dict)
    stop_s: float = 0.0
    load: float = 0.0
    reached: int = 0


@contextlib.contextmanager
def cluster(nodes: int, cpus: int) -> Iterator[Any]:
    """A head with one CPU, for the learner, and nodes with so many CPUs each. They end with the block."""
    os.environ.update(_SETTINGS)
    sys.path.insert(0, str(ROOT))
    from ray.cluster_utils import Cluster

    from tests.launchers.small_ray import small

    made = Cluster()
    try:
        for number in range(nodes + 1):
            head = {} if number else {"include_dashboard": False}
            with small():
                made.add_node(num_cpus=cpus if number else 1, object_store_memory=_OBJECT_STORE, **head)
        yield made
    finally:
        made.shutdown()


def check_nodes(made: Any) -> None:
    """Ends this process where a node of the cluster has died."""
    raylets = [process.process for node in made.list_all_nodes() for process in node.all_processes["raylet"]]
    dead = sum(process.poll() is not None for process in raylets)
    if dead:
        raise SystemExit(f"{dead} of {len(raylets)} nodes have died; their log is /tmp/ray/session_latest/logs")


def pss_mib(pid: int) -> float:
    """Proportional set size of a process; 0 if it has ended."""
    with contextlib.suppress(OSError):
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
        return int(found[1]) / 1024 if found else 0.0
    return 0.0


def parent(pid: int) -> int:
    import psutil

    return psutil.Process(pid).ppid()


def memory(run: Any, made: Any) -> dict[str, list[float]]:
    """PSS of each process, by part."""
    status = run.status
    daemons = [(name, process.process.pid) for node in made.list_all_nodes()
               for name, some in node.all_processes.items() for process in some]
    actors = [one.pid for one in status.actors if one.pid]
    parts = {
        "GCS": [pid for name, pid in daemons if name == "gcs_server"],
        "raylet": [pid for name, pid in daemons if name == "raylet"],
        "supervisor": [status.supervisor_pid], "its host": [parent(status.supervisor_pid)],
        "learner": [status.learner_pid], "learner's host": [parent(status.learner_pid)],
        "actor": actors, "actor's host": [parent(pid) for pid in actors],
    }
    return {part: [pss_mib(pid) for pid in pids] for part, pids in parts.items()}


def measure(actors: int, nodes: int, patience_s: float) -> Measured:
    """Start a run with so many actors; what was reached within the patience is measured, too."""
    import workbench as wb

    measured = Measured(actors)
    marks = {"first": 1, "half": math.ceil(actors / 2), "all": actors}
    with cluster(nodes, math.ceil(actors / nodes)) as made:
        began = time.monotonic()
        run = wb.launch("CartPole-v1", name=f"ray-{actors}", preset="none", launcher="ray", address=made.address,
                        actors=actors, envs_per_actor=1, groups_per_actor=1, actor_cpus=1.0, learner_cpus=1.0,
                        learner_threads=1, total_frames=10**12, wait_ready=False)
        try:
            while measured.reached < actors and time.monotonic() - began < patience_s:
                time.sleep(_LOOK_S)
                check_nodes(made)
                measured.reached = sum(one.connected for one in run.status.actors)
                for mark, count in marks.items():
                    if measured.reached >= count:
                        measured.connected_s.setdefault(mark, time.monotonic() - began)
            measured.memory, measured.load = memory(run, made), os.getloadavg()[0]
        finally:
            ends = time.monotonic()
            run.stop(timeout_s=600)
            measured.stop_s = time.monotonic() - ends
    return measured


def table(results: list[Measured], nodes: int) -> str:
    """The results as Markdown."""
    lines = [f"# Actors of a run on a Ray cluster of {nodes + 1} nodes on one machine", "", hardware(), "",
             "| actors | connected | first, s | half, s | all, s | stopped, s | load average |", "|---" * 7 + "|"]
    for one in results:
        times = " | ".join(f"{one.connected_s[mark]:,.0f}" if mark in one.connected_s else "not reached"
                           for mark in ("first", "half", "all"))
        lines.append(f"| {one.actors} | {one.reached} | {times} | {one.stop_s:,.0f} | {one.load:.0f} |")
    parts = list(results[0].memory)
    lines += ["", "Memory (PSS), MiB: of a part with several processes the median of one.", "",
              f"| actors | {' | '.join(parts)} | all processes |", "|---" * (len(parts) + 2) + "|"]
    for one in results:
        each = [f"{statistics.median(sizes):,.0f}" if sizes else "none" for sizes in one.memory.values()]
        lines.append(f"| {one.actors} | {' | '.join(each)} | {sum(map(sum, one.memory.values())):,.0f} |")
    return "\n".join([*lines, ""])


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.add_argument("--actors", nargs="+", type=whole(1, 4096), default=[16, 64],
                        help="numbers of actors, one after the other: 1 to 4,096 (default: 16 64)")
    parser.whole("--nodes", 4, "nodes beside the head", most=64)
    parser.number("--patience", 1800.0, "seconds until a measurement goes on without the rest", least=10, most=36_000)
    parser.writes("ray-actors.md")
    return parser.parse_args(words)


def main() -> int:
    given = arguments()
    results = []
    with private_home():
        for actors in given.actors:
            results.append(measure(actors, given.nodes, given.patience))
            print(f"{actors} actors: {results[-1].reached} connected", flush=True)
    written(table(results, given.nodes), given.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())

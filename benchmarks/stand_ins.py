"""How many actors one learner and one supervisor carry: stand-ins that send one message a second, by real gRPC.

    python benchmarks/stand_ins.py [--actors 64 256 960 1023 1024 4096] [--seconds 10] [--patience 20] [--write]

The supervisor and its learner are a run's own, on CartPole. What stands in for an actor is a child of the supervisor (a
`cat`, with log and pipe), and a gRPC stream with a connection of its own and an actor's protocol. As many Python
processes as actors would fill the memory, so a few processes hold all streams. A message has one environment; its time
is from before it is sent until its actions have come, on this machine and by a socket. Memory is the resident set.
Deaths: one child is killed, and the supervisor's turn finds it; one process of streams is killed, and the learner's
status misses them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from arguments import Parser, whole, written
from parts import Part

ACROSS = 4  # processes that hold the streams
ASKED = 5  # control calls
CALL_S = 5.0  # patience of one of them
NOTICE_S = 60.0
KILLED = 5


@dataclass
class Measured:
    """One number of actors. Memory in MiB, times in s, processor time as a share of one core."""

    actors: int
    started_s: float = 0.0
    answers: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    seconds: float = 0.0
    memory: dict[str, float] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=dict)
    threads: int = 0
    descriptors: dict[str, int] = field(default_factory=dict)
    calls_s: list[float] = field(default_factory=list)
    call_error: str = ""
    turns: list[float] = field(default_factory=list)
    child_noticed_s: list[float] = field(default_factory=list)
    streams_noticed_s: float | None = None
    reason: str = ""
    load: float = 0.0


def part(role: str, given: dict[str, Any]) -> Part:
    """A process of stand_in_processes.py, which answers orders."""
    return Part(__file__, "--role", role, json.dumps(given))


def measure(actors: int, *, seconds: float, patience: float) -> Measured:
    """A run with that many stand-ins, from its start to its end."""
    from workbench.rundir import RunDirectory
    from workbench.wire.rpc import Caller

    found = Measured(actors)
    with contextlib.ExitStack() as stack:
        os.environ["WORKBENCH_HOME"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="wb"))
        supervisor = stack.enter_context(part("supervisor", {"actors": actors}))
        begun = supervisor.told()
        found.started_s, run = begun["started_s"], RunDirectory(Path(begun["path"]))
        learner = Caller(run.learner_address(0), run.token())
        stack.callback(learner.close)
        until_it_answers(learner)
        shares = [list(range(first, actors, ACROSS)) for first in range(min(ACROSS, actors))]
        facts = {"address": run.learner_address(0), "token": run.token(), "patience": patience}
        parts = [stack.enter_context(part("stand-ins", {**facts, "indices": share})) for share in shares]
        for one in parts:
            found.answers.update(one.told()["answers"])
        observe(found, supervisor, begun["learner"], parts, seconds)
        ask(found, learner)
        deaths(found, supervisor, learner, parts[-1])
    return found


def until_it_answers(learner: Any) -> None:
    """Wait until the learner's server is up."""
    from workbench.errors import ConnectionLost

    while True:
        with contextlib.suppress(ConnectionLost):
            learner.call("status", timeout_s=CALL_S)
            return
        time.sleep(0.1)


def observe(found: Measured, supervisor: Part, learner: int, parts: list[Part], seconds: float) -> None:
    """Latency, memory and processor time while nothing else is asked."""
    import psutil

    watched = {"supervisor": psutil.Process(supervisor.process.pid), "learner": psutil.Process(learner)}
    time.sleep(2.0)  # the first messages of all
    supervisor.asked("turns")
    for one in parts:
        one.order("go")
    before, started = {name: sum(one.cpu_times()[:2]) for name, one in watched.items()}, time.monotonic()
    time.sleep(seconds)
    found.seconds = time.monotonic() - started
    for name, one in watched.items():
        found.busy[name] = (sum(one.cpu_times()[:2]) - before[name]) / found.seconds
        found.memory[name] = one.memory_info().rss / 2**20
        found.descriptors[name] = one.num_fds()
    found.threads, found.load = watched["learner"].num_threads(), os.getloadavg()[0]
    for one in parts:
        told = one.asked("tell")
        found.times += told["times"]
        found.ended.update(told["ended"])
    told = supervisor.asked("turns")
    found.turns, found.reason = told["turns"], told["reason"]


def ask(found: Measured, learner: Any) -> None:
    """Control calls to the learner, as the supervisor makes them."""
    from workbench.errors import WorkbenchError

    for _ in range(ASKED):
        started = time.perf_counter()
        try:
            learner.call("status", timeout_s=CALL_S)
            found.calls_s.append(time.perf_counter() - started)
        except WorkbenchError as error:
            found.call_error = str(error).replace(learner.address, "the learner")
            return


def deaths(found: Measured, supervisor: Part, learner: Any, victim: Part) -> None:
    """How soon the supervisor knows of a child that was killed, and the learner of streams whose process was."""
    for index in range(min(KILLED, found.actors)):
        found.child_noticed_s.append(supervisor.asked(f"kill {index}")["noticed_s"])
    if found.call_error:
        return
    across = min(ACROSS, found.actors)
    mine = {index for index in range(found.actors) if index % across == across - 1}
    victim.process.send_signal(signal.SIGKILL)
    started = time.monotonic()
    while time.monotonic() - started < NOTICE_S:
        actors = learner.call("status", timeout_s=CALL_S).get("actors", {})
        if actors and not any(one["connected"] for index, one in actors.items() if int(index) in mine):
            found.streams_noticed_s = time.monotonic() - started
            return
        time.sleep(0.02)


# --- report -----------------------------------------------------------------------------------------------------------

HEADS = ("actors", "streams served", "learner, MiB", "its threads", "its descriptors", "its core", "supervisor, MiB",
         "its descriptors", "its core", "messages/s", "p50 ms", "p99 ms")
MORE = ("actors", "all children started, s", "turn p50 ms", "turn p99 ms", "learner's status, median ms",
        "child's death, median s", "streams' death, s")


def row(found: Measured) -> str:
    import numpy as np

    p50, p99 = np.percentile(found.times, (50, 99)) * 1e3 if found.times else (float("inf"), float("inf"))
    cells = (f"{found.actors:,}", f"{found.answers['welcome']:,}", f"{found.memory['learner']:,.0f}",
             f"{found.threads:,}", f"{found.descriptors['learner']:,}", f"{found.busy['learner']:.0%}",
             f"{found.memory['supervisor']:,.0f}", f"{found.descriptors['supervisor']:,}",
             f"{found.busy['supervisor']:.0%}", f"{len(found.times) / found.seconds:,.0f}", f"{p50:,.1f}",
             f"{p99:,.1f}")
    return f"| {' | '.join(cells)} |"


def more(found: Measured) -> str:
    import numpy as np

    p50, p99 = np.percentile(found.turns, (50, 99)) * 1e3 if found.turns else (0.0, 0.0)
    calls = "no answer" if found.call_error else f"{np.median(found.calls_s) * 1e3:,.1f}"
    streams = "cannot be asked" if found.streams_noticed_s is None else f"{found.streams_noticed_s:.2f}"
    cells = (f"{found.actors:,}", f"{found.started_s:.1f}", f"{p50:,.1f}", f"{p99:,.1f}", calls,
             f"{np.median(found.child_noticed_s):.2f}", streams)
    return f"| {' | '.join(cells)} |"


def problems(found: Measured) -> Iterator[str]:
    """What broke at this number, in its own words."""
    for answer, number in found.answers.items():
        if answer != "welcome":
            yield f"{found.actors:,} actors: {number:,} streams got no welcome: {answer}."
    for ended, number in found.ended.items():
        yield f"{found.actors:,} actors: {number:,} streams ended: {ended}."
    if found.call_error:
        yield (f"{found.actors:,} actors: a control call to the learner: {found.call_error}. The run says: "
               f"\"{found.reason}\".")


def report(rows: list[Measured], given: argparse.Namespace) -> str:
    from throughput import hardware

    wrong = [f"- {line}" for found in rows for line in problems(found)]
    loads = [found.load for found in rows]
    return "\n".join([
        f"`python benchmarks/stand_ins.py --actors {' '.join(map(str, given.actors))} --seconds {given.seconds:g} "
        f"--patience {given.patience:g}`", "",
        f"{hardware('cpu')}; {time.strftime('%F')}; load average {min(loads):.0f} to {max(loads):.0f} with other work "
        f"beside. {ACROSS} processes hold the streams, on the same cores, so latencies hold their share of the "
        f"processors too. A stream without a welcome after {given.patience:g} s counts as not served.", "",
        f"| {' | '.join(HEADS)} |", "|" + "---|" * len(HEADS), *map(row, rows), "",
        f"| {' | '.join(MORE)} |", "|" + "---|" * len(MORE), *map(more, rows), "",
        "## What broke", "", *(wrong or ["Nothing."]), "",
    ])


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.add_argument("--actors", type=whole(1, 4096), nargs="+", default=[64, 256, 960, 1023, 1024, 4096],
                        help="stand-ins, one after the other: 1 to 4,096 (default: 64 256 960 1023 1024 4096)")
    parser.seconds(10.0)
    parser.number("--patience", 20.0, "seconds that a stream waits for its welcome", least=1, most=600)
    parser.writes("stand-ins.md")
    parser.add_argument("--role", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    if given.role:
        from stand_in_processes import ROLES

        role, settings = given.role
        ROLES[role](SimpleNamespace(**json.loads(settings)))
        return
    rows = []
    for actors in given.actors:
        rows.append(measure(actors, seconds=given.seconds, patience=given.patience))
        print(row(rows[-1]), more(rows[-1]), *problems(rows[-1]), sep="\n", file=sys.stderr, flush=True)
    text = report(rows, given)
    written(f"# Stand-ins for actors\n\n{text}", given.write)


if __name__ == "__main__":
    main()

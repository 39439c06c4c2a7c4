"""The calculator (`wb.plan`) against SEED RL's published rows, this machine, and a simulation of queues.

    python benchmarks/planning.py [--actors 10000] [--seconds 4] [--write]
    python benchmarks/planning.py --constants

Errors are (predicted - published or simulated) / that. A published row is predicted from the constants of another row
only. --constants writes what benchmarks/results/ measured into workbench/planning/constants.csv, and nothing else.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from arguments import RESULTS, Parser
from planning_queues import Simulated, System, simulate, system_of

import workbench.planning.constants as constants_of
from workbench.planning import Plan, capacity, plan
from workbench.planning.constants import constants, known

CONSTANTS = Path(constants_of.__file__).with_name("constants.csv")
LATENCY_MS = {"dmlab": 13.0, "football": 8.75}  # SEED RL, table 13: 11 to 15 ms, 6.5 to 11 ms; the middle
PLANNED = 0.8  # busy
CARD_GBIT = 25.0
ACCELERATOR_RATE = 40_000.0  # steps/s; assumed, as no GPU was measured


# --- constants from benchmarks/results --------------------------------------------------------------------------------


def measured(source: str) -> Iterator[float]:
    """The numbers that a constant of that source has now, by size of a group where there are several."""
    path, _, what = source.partition(": ")
    text, what = Path(RESULTS.parent.parent, path).read_text(), what.rsplit(" (", 1)[0]
    rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in text.splitlines()
            if line.startswith("|")]
    column = 8 if path.endswith("environments-grpc.md") else 1  # steps/CPU-s of the actor; steps/s
    for row in rows:
        if row[0] == what and len(row) > column and re.fullmatch(r"[\d,]+", row[column]):
            yield float(row[column].replace(",", ""))


def refreshed(text: str) -> str:
    """The file of constants with what the results say now, and the day on which their file was written."""
    rows = list(csv.DictReader(text.splitlines()))
    position: dict[str, int] = {}
    for row in rows:
        if not row["source"].startswith("benchmarks/results/"):
            continue
        values = list(measured(row["source"]))
        if row["source"].split(":")[0].endswith("service.md"):
            values.reverse()  # 32 in a message comes before 1 there
        at = position[row["source"]] = position.get(row["source"], -1) + 1
        if at >= len(values):
            raise SystemExit(f"{row['source']}: the results have {len(values)} such rows, a constant wants another.")
        path = Path(RESULTS.parent.parent, row["source"].split(":")[0])
        if values[at] != float(row["value"]):
            day = time.strftime("%Y-%m-%d", time.gmtime(path.stat().st_mtime))
            row["value"], row["source"] = f"{values[at]:g}", f"{row['source'].rsplit(' (', 1)[0]} ({day})"
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


# --- published rows ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Published:
    """A row of SEED RL's table 1."""

    name: str
    accelerator: str
    accelerators: float
    environments: float
    cores: float
    frames_per_second: float

    @property
    def task(self) -> str:
        """dmlab or football."""
        return self.name.split()[1]

    @property
    def frames_per_step(self) -> float:
        """Action repeats."""
        return known(f"{self.task}/", "frames_per_step")


def published() -> dict[str, Published]:
    """All rows, by name."""
    found = {}
    for one in constants():
        if one.of.startswith("seed ") and one.quantity == "accelerators":
            rest = (known(one.of, name) for name in ("environments", "cores", "frames_per_second"))
            found[one.of] = Published(one.of, one.at, one.value, *rest)
    return found


def predicted(row: Published, basis: Published) -> Plan:
    """What the calculator says of `row`, knowing of SEED RL only `basis` and the latency."""
    return plan(
        f"{row.task}/published", frames_per_second=row.frames_per_second, accelerator=row.accelerator, group_size=1,
        steps_per_core=basis.frames_per_second / basis.frames_per_step / basis.cores,
        learner_steps_per_second=basis.frames_per_second / basis.frames_per_step / basis.accelerators,
        utilisation=1.0, service_steps_per_second=math.inf, learner_cores=0, nic_gbit=100,
        latency_ms=LATENCY_MS[row.task], batch_size=384, unroll_length=100, parameters=1,  # averaged by TPUs' own wires
    )


PAIRS = (("seed dmlab 8 cores", "seed dmlab 2 cores"), ("seed dmlab 64 cores", "seed dmlab 2 cores"),
         ("seed dmlab 64 cores", "seed dmlab 8 cores"), ("seed football 8 cores", "seed football 2 cores"))
COSTS = (("seed dmlab cost", "seed dmlab 2 cores"), ("seed dmlab cost", "seed dmlab 8 cores"),
         ("seed dmlab cost", "seed dmlab 64 cores"), ("seed football cost", "seed football 2 cores"),
         ("seed football cost", "seed football 8 cores"))


def error(said: float, true: float) -> str:
    """Predicted against true, in percent."""
    return f"{said / true - 1:+.1%}"


def published_table() -> Iterator[str]:
    rows = published()
    yield "| row | constants of | | predicted | published | error |"
    yield "|---|---|---|---|---|---|"
    for name, basis in PAIRS:
        row, said = rows[name], predicted(rows[name], rows[basis])
        exact = said.steps_per_second * LATENCY_MS[row.task] / 1e3 + said.cores  # Little's law
        for what, number, true in (("accelerators", said.accelerators, row.accelerators),
                                   ("cores", said.cores, row.cores),
                                   ("environments, in whole groups", said.environments, row.environments),
                                   ("environments, by Little's law", exact, row.environments)):
            yield f"| {name} | {basis} | {what} | {number:,.0f} | {true:,.0f} | {error(number, true)} |"
    for name, basis in COSTS:
        cost = predicted(rows[basis], rows[basis]).dollars_per_billion_frames
        true = known(name, "dollars_per_billion_frames")
        yield f"| {name} | {basis} | $ per billion frames | {cost:.1f} | {true:.0f} | {error(cost or 0, true)} |"
    up = 100_000 * known("dmlab/", "observation_bytes") / 1e9
    yield f"| 100,000 observations/s of 96 x 72 x 3 (footnote 1) | | GB/s | {up:.2f} | 2 | {error(up, 2)} |"


# --- this machine -----------------------------------------------------------------------------------------------------


def machine_line() -> str:
    parts = [known("this machine", "environment_steps_per_second", "vtrace ALE/"),
             *(known("cpu-core", f"{name}_steps_per_second", "vtrace ALE/") for name in ("inference", "training"))]
    said, true = 2 / sum(1 / one for one in parts), known("this machine", "steps_per_second", "vtrace ALE/")
    return (f"Two cores that share all work of Pong: {said:,.0f} steps/s by the parts, {true:,.0f} measured "
            f"(`results/throughput.md`): {error(said, true)}. Left out is what messages cost the learner, and that "
            "parts slow each other down in the cache: the calculator is for parts that have cores of their own.")


# --- simulation -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One simulated system."""

    name: str
    system: System
    warm_up_s: float


def cases(actors: int) -> Iterator[Case]:
    """Systems of that many actors in which one part after another is the full one."""
    lab = planned("dmlab/published", actors, known("tpu-v3-core", "learner_steps_per_second", "vtrace dmlab/"),
                  group_size=8, unroll_length=100)
    pong = planned("ALE/Pong-v5", actors, ACCELERATOR_RATE, group_size=32, unroll_length=20)
    for name, whole, warm_up_s in (("Lab", lab, 6.0), ("Pong", pong, 0.5)):
        slow = whole.actors * whole.core_rate / whole.learners * 0.6
        yield Case(f"{name}, as planned", whole, warm_up_s)
        yield Case(f"{name}, twice the learners", replace(whole, learners=whole.learners * 2), warm_up_s)
        few = max(1, round(whole.learners * 0.6))
        yield Case(f"{name}, 60 % of the learners", replace(whole, learners=few), warm_up_s)
        yield Case(f"{name}, cards for 60 %", replace(whole, card_rate=slow), warm_up_s)
        yield Case(f"{name}, services for 60 %", replace(whole, service_rate=slow), warm_up_s)
    four = planned("ALE/Pong-v5", actors, ACCELERATOR_RATE, group_size=32, unroll_length=20, unrolls_each=128)
    yield Case("Pong, as planned for 128 unrolls a learner", four, 0.5)


def planned(environment: str, actors: int, rate: float, *, group_size: int, unroll_length: int,
            unrolls_each: int = 32) -> System:
    """A plan at 80 % that needs just that many actors, as a system."""
    of = constants_of.environment_of(environment) or ""
    steps = actors * PLANNED * capacity.core_rate(constants_of.by_size(of, "steps_per_core"), group_size)
    made = plan(environment, frames_per_second=steps * known(of, "frames_per_step"), utilisation=PLANNED,
                group_size=group_size, accelerator="assumed", learner_steps_per_second=rate, nic_gbit=CARD_GBIT,
                unroll_length=unroll_length * unrolls_each // 32)
    assert made.cores == actors, made.cores
    return system_of(made, accelerator_rate=rate)


def case_row(case: Case, found: Simulated) -> str:
    bounds = case.system.bounds()
    most = min(bounds, key=lambda name: bounds[name])
    fullest = max(found.busy, key=lambda name: found.busy[name])
    same = "" if fullest == most else f" (simulated: {fullest})"
    return (f"| {case.name} | {case.system.learners} | {most}{same} | {bounds[most]:,.0f} | "
            f"{found.frames_per_second:,.0f} | {error(bounds[most], found.frames_per_second)} | "
            f"{found.busy[most]:.0%} | {found.latency_s * 1e3:.1f} | {found.batch:,.0f} | {found.messages:,} |")


def simulated_table(actors: int, seconds: float) -> Iterator[str]:
    yield ("| system | learners | full first | predicted, frames/s | simulated | error | busy | latency, ms | batch | "
           "messages |")
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for case in cases(actors):
        share = seconds if case.warm_up_s > 1 else seconds / 8  # fast environments say as much in less time
        yield case_row(case, simulate(case.system, warm_up_s=case.warm_up_s, seconds=share))


def report(actors: int, seconds: float) -> Iterator[str]:
    yield "# The calculator, checked\n"
    yield f"`python benchmarks/planning.py --actors {actors} --seconds {seconds:g} --write`\n"
    yield ("Error: (predicted - published or simulated) / that. Grades and sources of all numbers: "
           "`workbench/planning/constants.csv`.\n")
    yield "## SEED RL's published rows\n"
    yield ("Steps per core and per accelerator are those of the row named second; environments follow from them and "
           "from the published latency (the middle of 11 to 15 ms, and of 6.5 to 11 ms).\n")
    yield from published_table()
    yield "\n## This machine\n"
    yield machine_line()
    yield f"\n## A simulation of queues at {actors:,} actors\n"
    yield ("SimPy: actors → network card → service → batcher → accelerator → back, with training in the accelerator's "
           "gaps, a bounded queue of unrolls, and gradients averaged among all learners. Times of steps vary by 30 %; "
           "an inference batch costs 0.3 ms beside its steps. Lab: SEED's constants, 8 environments a message. Pong: "
           f"ours, 32 a message, and an accelerator of {ACCELERATOR_RATE:,.0f} steps/s, which is assumed. Predicted is "
           f"the fullest part's bound; a plan promises {PLANNED:.0%} of it.\n")
    yield from simulated_table(actors, seconds)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.whole("--actors", 10_000, "actors of the simulated systems", least=64, most=100_000)
    parser.number("--seconds", 4.0, "simulated seconds, of the slow environments", least=1, most=3600)
    parser.add_argument("--constants", action="store_true", help="write the constants anew from results/, then end")
    parser.writes("planning.md")
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    if given.constants:
        CONSTANTS.write_text(refreshed(CONSTANTS.read_text()))
        return
    lines = []
    for line in report(given.actors, given.seconds):
        print(line, flush=True)
        lines.append(line)
    if given.write:
        given.write.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

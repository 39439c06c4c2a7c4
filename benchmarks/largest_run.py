"""What breaks first in a run of 10,000 actors and 64 learners: `wb.plan`'s answer, and a simulation of its queues.

    python benchmarks/largest_run.py [--actors 10000] [--learners 64] [--seconds 8] [--warm-up 8] [--write]

Nothing of it was run: no machine here holds it. The limits come from measurements of stand_ins.py; the speed is
simulated with SimPy, as planning.py does it. The accelerators' speed is assumed, as no GPU was measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from arguments import Parser, written

if TYPE_CHECKING:
    from workbench.planning import Plan

ENVIRONMENT = "ALE/Pong-v5"
SMALL_BATCH = 512  # environments


def report(given: argparse.Namespace) -> Iterator[str]:
    from planning import ACCELERATOR_RATE, CARD_GBIT

    from workbench.planning import plan

    made = plan(ENVIRONMENT, cores=given.actors, learners=given.learners, accelerator="assumed", nic_gbit=CARD_GBIT,
                learner_steps_per_second=ACCELERATOR_RATE)
    yield f"# {given.actors:,} actors and {given.learners:,} learners, on paper\n"
    yield (f"`python benchmarks/largest_run.py --actors {given.actors} --learners {given.learners} --seconds "
           f"{given.seconds:g} --warm-up {given.warm_up:g}`\n")
    yield (f"{ENVIRONMENT}, {made.groups} groups of {made.group_size} an actor, learners of {ACCELERATOR_RATE:,.0f} "
           f"steps/s (assumed) with cards of {CARD_GBIT:g} Gbit/s. **Nothing of this was run.**\n")
    yield f"Breaks first: {made.breaks_first or 'nothing, it keeps to all limits'}.\n"
    yield "| limit | needed | most | share | beyond it | from |"
    yield "|---|---|---|---|---|---|"
    for limit in made.limits:
        yield (f"| {limit.name} | {limit.needed_words} | {limit.most_words} | {limit.busy:.1%} | {limit.breaks} "
               f"| {limit.basis} |")
    yield from simulated(made, given)
    yield "\nNotes of the plan:\n"
    yield from (f"- {note}" for note in made.notes)


def simulated(made: Plan, given: argparse.Namespace) -> Iterator[str]:
    """Speeds by the bounds and by the simulation, with the default inference batch and with a small one."""
    from planning import ACCELERATOR_RATE, error
    from planning_queues import simulate, system_of

    yield (f"\nIf it ran, {made.saturates_first} would be full first, at {made.most_frames_per_second:,.0f} frames/s "
           "by the bounds. The simulation, whose learners wait for the slowest of them after each update:\n")
    yield "| largest inference batch | simulated, frames/s | bound against it | fullest | messages |"
    yield "|---|---|---|---|---|"
    for batch in (0, SMALL_BATCH):
        system = replace(system_of(made, accelerator_rate=ACCELERATOR_RATE), max_batch=batch)
        found = simulate(system, warm_up_s=given.warm_up, seconds=given.seconds)
        fullest = max(found.busy, key=lambda name: found.busy[name])
        half = made.environments // made.learners // 2
        name = f"`max_batch={batch}`" if batch else f"default: {half:,}, half of a learner's environments"
        yield (f"| {name} | {found.frames_per_second:,.0f} | "
               f"{error(made.most_frames_per_second, found.frames_per_second)} | "
               f"{fullest}, {found.busy[fullest]:.0%} | {found.messages:,} |")


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.whole("--actors", 10_000, "actors", most=100_000)
    parser.whole("--learners", 64, "learners", most=10_000)
    parser.number("--seconds", 8.0, "simulated seconds", least=0.1, most=3600)
    parser.number("--warm-up", 8.0, "simulated seconds before these, some rounds of all environments", least=0,
                  most=3600)
    parser.writes("largest-run.md")
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    text = "\n".join(report(given)) + "\n"
    written(text, given.write)


if __name__ == "__main__":
    main()

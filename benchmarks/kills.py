"""Hundreds of SIGKILLs to a run that learns: what comes back, what grows, and whether an unroll mixes two lives.

    python benchmarks/kills.py [--kills 200] [--actors 10] [--learner-kills 4] [--seed 0]
                               [--calm-seconds 20] [--warm-up-seconds 30] [--write]

First actors, one, some or all at once, also while they start; a network that watches (tests/faults/witness.py) looks at
every batch. Memory, descriptors and threads of learner and supervisor are compared between two calms, before and after.
Then the learner, so many times in each of the moments of tests/faults/killing.py.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
from arguments import Parser
from home import private_home

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import workbench as wb
from workbench import checkpoints

if TYPE_CHECKING:
    from tests.faults import killing

ENVS = 4
INTERVAL_S = 2.0  # between checkpoints, where the learner is killed
UPDATE_S = 0.005
BACK_S = 900.0  # for a process to start again on a busy machine


@contextmanager
def witnessed(name: str, **fields: object) -> Iterator[tuple[wb.Run, Path]]:
    """A run with a witness, in a home of its own, and the witness's file."""
    from tests.faults.witness import ENVIRONMENT, RUN, watching

    with private_home("wb-") as home:
        seen = Path(home) / "seen"
        update_s = UPDATE_S if name == "learner" else 0.0
        yield wb.launch(ENVIRONMENT, name=name, network=watching(seen, update_s=update_s), envs_per_actor=ENVS,
                        ready_timeout_s=BACK_S, **fields, **RUN), seen


def all_act(run: wb.Run, seen: Path) -> bool:
    """Whether each environment of each actor's process of now was trained on."""
    from tests.faults.witness import evidence

    told = evidence(seen)
    return all(one.pid and told.of_process(one.pid) == ENVS for one in run.status.actors)


def calm(run: wb.Run, seconds: float) -> dict[str, tuple[float, int, int]]:
    """MiB of memory, descriptors and threads of learner and supervisor: medians of looks while nobody is killed."""
    status, found = run.status, {}
    for name, pid in (("learner", status.learner_pid), ("supervisor", status.supervisor_pid)):
        process, looks = psutil.Process(pid), []
        for _ in range(max(1, int(seconds / 2))):
            looks.append((process.memory_info().rss / 2**20, process.num_fds(), process.num_threads()))
            time.sleep(1.0)
        memory, descriptors, threads = np.median(looks, axis=0)
        found[name] = (float(memory), int(descriptors), int(threads))
    return found


def kill_actors(run: wb.Run, chance: random.Random, kills: int) -> int:
    """Kill so many actors' processes, one, some or all at once; how many times that was."""
    from tests.faults import killing

    killed = volleys = 0
    while killed < kills:
        living = [one.pid for one in run.status.actors if one.pid]
        number = chance.choice([1, 1, 1, 2, 3, len(living)])
        for pid in chance.sample(living, min(number, len(living), kills - killed)):
            try:
                killing.kill(pid)
            except ProcessLookupError:
                continue
            killed += 1
        volleys += 1
        time.sleep(chance.uniform(0.0, 1.0))
    return volleys


def actors_killed(given: argparse.Namespace) -> list[str]:
    """The first table."""
    from tests.conftest import eventually
    from tests.faults import killing
    from tests.faults.witness import evidence

    chance = random.Random(given.seed)
    with witnessed("actors", actors=given.actors) as (run, seen):
        eventually(lambda: all_act(run, seen))
        time.sleep(given.warm_up_seconds)
        before, first, began = calm(run, given.calm_seconds), run.status, time.monotonic()
        checked = evidence(seen).checked
        volleys = kill_actors(run, chance, given.kills)
        killing_s = time.monotonic() - began
        eventually(lambda: all_act(run, seen), what="an environment does not come back")
        back_s = time.monotonic() - began - killing_s
        after, last, told = calm(run, given.calm_seconds), run.status, evidence(seen)
        unexplained = killing.unexplained(run.directory)
        assert (last.learner_pid, last.supervisor_pid) == (first.learner_pid, first.supervisor_pid)
    rows = [_row(name, before[name], after[name]) for name in before]
    return [
        f"**Actors**: {given.kills} kills in {volleys} volleys and {killing_s:.0f} s, {given.actors} actors "
        f"with {ENVS} environments each.",
        f"{back_s:.0f} s after the last kill each of the {given.actors * ENVS} environments acted and was trained "
        f"on; {sum(one.restarts for one in last.actors)} restarts, {last.updates - first.updates:,} updates.",
        f"{told.checked - checked:,} unrolls looked at, {len(told.lives)} lives of environments, "
        f"{len(told.wrong)} unrolls wrong{': ' + told.wrong[0] if told.wrong else ''}.",
        f"Counters that went back: {len(unexplained)}.", "",
        "| process | memory, MiB | descriptors | threads |", "|---|---|---|---|", *rows, "",
    ]


def _row(name: str, before: tuple[float, int, int], after: tuple[float, int, int]) -> str:
    changes = [f"{old:,.0f} → {new:,.0f}" for old, new in zip(before, after, strict=True)]
    return f"| {name} | {' | '.join(changes)} |"


def learner_killed(given: argparse.Namespace) -> list[str]:
    """The second table."""
    from tests.faults import killing
    from tests.faults.witness import evidence

    rows = []
    with witnessed("learner", actors=1, checkpoint_interval_s=INTERVAL_S, keep_checkpoints=3) as (run, seen):
        for moment in killing.MOMENTS:
            losses = [_learner_killed(run, seen, moment) for _ in range(given.learner_kills)]
            rows.append(f"| {moment.__name__.replace('_', ' ')} | {len(losses)} | {len(losses)} | "
                        f"{np.mean(losses):.2f} | {max(losses):.2f} |")
        told, unexplained = evidence(seen), killing.unexplained(run.directory)
    return [
        f"**Learner**: stopped in the moment, found in it for 0.2 s, and killed; {INTERVAL_S:g} s between checkpoints. "
        f"{len(told.wrong)} unrolls wrong; counters that went back without an event: {len(unexplained)}.", "",
        "| killed while | kills | went on from the newest checkpoint | lost, s of training: mean | most |",
        "|---|---|---|---|---|", *rows, "",
    ]


def _learner_killed(run: wb.Run, seen: Path, moment: killing.Moment) -> float:
    """Kill the learner once in that moment; the seconds of training that are lost."""
    from tests.conftest import eventually
    from tests.faults import killing

    eventually(lambda: killing.whole_checkpoints(run))
    pid, restored = run.status.learner_pid, len(killing.restored_from(run))
    assert pid
    killing.stopped_within(pid, moment(run, seen))
    at_s = killing.training_s(run)
    killing.kill(pid)
    newest, wrong = checkpoints.newest_good(run.directory.checkpoints)
    assert newest is not None and not wrong, wrong
    eventually(lambda: len(killing.restored_from(run)) > restored)
    assert killing.restored_from(run)[-1] == newest.frames
    eventually(lambda: killing.whole_checkpoints(run)[-1].frames > newest.frames)
    return max(0.0, at_s - newest.time_s)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = Parser(__doc__, script=__file__)
    parser.whole("--kills", 200, "kills of actors; 0: leave this part out", least=0, most=100_000)
    parser.whole("--actors", 10, "actors", most=1000)
    parser.whole("--learner-kills", 4, "kills of the learner in each moment; 0: leave this part out", least=0)
    parser.whole("--seed", 0, "seed", least=0, most=2**31)
    parser.number("--calm-seconds", 20.0, "seconds of looks at memory, before and after", least=1, most=3600)
    parser.number("--warm-up-seconds", 30.0, "seconds until a learner's memory is what it will be", least=0, most=3600)
    parser.writes("kills.md")
    return parser.parse_args(words)


def main() -> None:
    given = arguments()
    command = (f"python benchmarks/kills.py --kills {given.kills} --actors {given.actors} --learner-kills "
               f"{given.learner_kills} --seed {given.seed}")
    lines = ["# Kills", "", f"`{command}`", ""]
    for part, wanted in ((actors_killed, given.kills), (learner_killed, given.learner_kills)):
        if wanted:
            told = part(given)
            print("\n".join(told), flush=True)
            lines += told
    if given.write:
        given.write.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()

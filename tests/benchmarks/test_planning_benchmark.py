"""The calculator agrees with what was measured, with SEED RL's rows, and with a simulation of queues."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from workbench.planning.constants import known

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytest.importorskip("simpy")


@pytest.fixture
def planning(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """benchmarks/planning.py."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("planning")
    for name in ("planning", "planning_queues"):
        sys.modules.pop(name, None)


def test_constants_are_what_the_results_say(planning):
    text = planning.CONSTANTS.read_text()
    assert planning.refreshed(text) == text, "measured anew? python benchmarks/planning.py --constants"


def test_a_new_result_is_written_into_the_constants(planning):
    text = planning.CONSTANTS.read_text()
    row = next(line for line in text.splitlines() if line.startswith("ALE/,steps_per_core,32,"))
    before = row.replace(f",{row.split(',')[3]},", ",1,")
    after = planning.refreshed(text.replace(row, before))
    assert before not in after
    assert any(line.startswith(row.partition(" (")[0]) for line in after.splitlines())


@pytest.mark.parametrize(("row", "basis"), [("seed dmlab 8 cores", "seed dmlab 2 cores"),
                                            ("seed dmlab 64 cores", "seed dmlab 2 cores"),
                                            ("seed dmlab 64 cores", "seed dmlab 8 cores"),
                                            ("seed football 8 cores", "seed football 2 cores")])
def test_a_published_row_follows_from_another_to_a_fifth(planning, row, basis):
    rows = planning.published()
    said = planning.predicted(rows[row], rows[basis])
    assert said.accelerators == pytest.approx(rows[row].accelerators, rel=0.2)
    assert said.cores == pytest.approx(rows[row].cores, rel=0.2)
    assert said.environments == pytest.approx(rows[row].environments, rel=0.35)  # whole groups


def test_a_row_follows_from_itself(planning):
    row = planning.published()["seed dmlab 64 cores"]
    said = planning.predicted(row, row)
    assert (said.accelerators, said.cores, said.environments) == (64, 4160, 12_480)


@pytest.mark.parametrize(("cost", "row"), [("seed dmlab cost", "seed dmlab 2 cores"),
                                           ("seed football cost", "seed football 8 cores")])
def test_published_costs_follow_to_a_tenth(planning, cost, row):
    rows = planning.published()
    said = planning.predicted(rows[row], rows[row]).dollars_per_billion_frames
    assert said == pytest.approx(known(cost, "dollars_per_billion_frames"), rel=0.1)


@pytest.fixture
def system(planning):
    """64 actors that step Lab, with all the learners that they need, and no waiting for batches."""
    return planning.planned("dmlab/published", 64, 9375.0, group_size=8, unroll_length=100)


@pytest.mark.parametrize("full", ["actor cores", "learners' network cards", "learners' services", "accelerators"])
def test_the_simulation_goes_as_fast_as_its_fullest_part(planning, system, full):
    slow = system.actors * system.core_rate / system.learners * 0.5
    change = {"actor cores": {}, "learners' network cards": {"card_rate": slow},
              "learners' services": {"service_rate": slow}, "accelerators": {"accelerator_rate": slow}}[full]
    made = replace(system, **change)
    found = planning.simulate(made, warm_up_s=8.0, seconds=12.0)
    bounds = made.bounds()
    assert min(bounds, key=bounds.__getitem__) == full
    assert found.frames_per_second == pytest.approx(bounds[full], rel=0.06)
    assert found.busy[full] > 0.93


def test_a_simulation_repeats_itself(planning, system):
    first, again = (planning.simulate(system, warm_up_s=1.0, seconds=1.0, seed=3) for _ in range(2))
    assert first == again and first.messages > 0


def test_learners_wait_for_the_slowest(planning, system):
    world = sys.modules["simpy"].Environment()
    together = sys.modules["planning_queues"].Together(world, 3)
    opens = [together.arrive() for _ in range(3)]
    assert all(one is opens[0] and one.triggered for one in opens)
    assert not together.arrive().triggered

"""Population-based training: who is replaced by whom, and real populations that are killed, stopped, and go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.conftest import SMALL, eventually, private_home, processes_of
from tests.mortal import SPACE, begun, check_whole, lived
from workbench import checkpoints
from workbench.config import RunConfig
from workbench.errors import InvalidInput, OutOfBounds
from workbench.launchers.local import LocalLauncher
from workbench.sweeping.kept_run import go_on
from workbench.sweeping.population import explored, replaced
from workbench.sweeping.space import Choice, Space, Span

optuna = pytest.importorskip("optuna")

GENERATION = 1000  # frames
FEW: dict[str, Any] = {**SMALL, "actors": 1, "total_frames": 3 * GENERATION, "parallel": 2, "sampler": "pbt",
                       "generations": 3}


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    yield from private_home()


@pytest.fixture(scope="module")
def survivor(home: Path) -> wb.Sweep:
    """A population of four whose process was killed at every one of its writes, until it had finished."""
    sweep = begun("evolved", sampler="pbt", generations=3, total_frames=3 * GENERATION)
    assert lived(sweep) > 8
    return sweep


@pytest.mark.full
def test_the_worst_are_replaced_by_forks_of_the_best_and_all_train_to_the_end(survivor: wb.Sweep) -> None:
    status, trials = survivor.status, survivor.trials
    assert (status.finished, status.pruned, status.failed, status.trials) == (4, 2, 0, 6)
    assert [one.number for one in trials if one.state == "finished"][-1] == 5
    check_whole(survivor, 3 * GENERATION)
    assert all(one.note.count("a fork of") == (one.number >= 4) + (one.state == "pruned") for one in trials)
    lost = [one for one in trials if one.state == "pruned"]
    assert all("replaced by evolved-" in one.note for one in lost)
    assert sorted(one.frames // GENERATION for one in lost) == [1, 2]


@pytest.mark.full
def test_a_fork_begins_with_the_weights_and_near_the_fields_of_its_parent(survivor: wb.Sweep) -> None:
    for one in survivor.trials[4:]:
        directory = wb.attach(one.run).directory
        record = directory.read()
        parent, first = record["parent"], min(one.frames for one in checkpoints.every(directory.checkpoints))
        assert (parent["take"], parent["optimizer"]) == ("all", True) and parent["run"].startswith("evolved-")
        assert first // GENERATION == one.number - 3 and Path(parent["checkpoint"]).name == f"{first:012}"
        assert one.note.startswith(f"a fork of {parent['run']} at {first:,} frames")
        config = RunConfig.from_json(record["config"])
        assert {name: config.value(name) for name in SPACE} == pytest.approx(one.fields)
        for name, (low, high) in SPACE.items():
            assert low <= one.fields[name] <= high


@pytest.mark.full
def test_who_waits_for_its_turn_is_no_run_that_died(home: Path) -> None:
    sweep = wb.sweep("CartPole-v1", space=SPACE, trials=3, name="patient", **{**FEW, "total_frames": 10**7})
    eventually(lambda: (home / "runs" / "patient-2" / "run.json").exists())
    try:
        waits = wb.attach("patient-2")
        assert waits.state == "stopped" and waits.status.reason.startswith("not started yet. wb.resume(")
    finally:
        sweep.stop()
    assert waits.state == "stopped"


@pytest.mark.full
def test_nothing_is_done_twice_when_a_plan_is_taken_up_again(survivor: wb.Sweep) -> None:
    before = [(one.number, one.state, one.note) for one in survivor.trials]
    with pytest.raises(InvalidInput, match="has done its 6 trials. A population keeps its size.*wb.resume\\('evolved-"):
        survivor.resume()
    with pytest.raises(InvalidInput, match="the population of evolved keeps its size"):
        survivor.resume(trials=9)
    assert [(one.number, one.state, one.note) for one in survivor.trials] == before


@pytest.mark.full
def test_a_run_that_has_ended_since_it_was_looked_at_stays_as_it_is(survivor: wb.Sweep) -> None:
    run = wb.attach(survivor.trials[-1].run)
    with pytest.raises(InvalidInput, match="has finished"):
        wb.resume(run.name, total_frames=3 * GENERATION)
    go_on(run.directory, LocalLauncher(), total_frames=3 * GENERATION)
    assert run.state == "finished" and not processes_of(run.path)


@pytest.mark.full
def test_a_stopped_population_goes_on_where_it_was(home: Path) -> None:
    sweep = wb.sweep("CartPole-v1", space=SPACE, trials=2, name="calm", **{**FEW, "total_frames": 10**7})
    eventually(lambda: (home / "runs" / "calm-1" / "run.json").exists())
    run = wb.attach("calm-0")
    assert run.state in ("stopped", "starting", "training"), "stopped: its turn has not come"
    eventually(lambda: run.state == "training")
    run.wait(frames=500, timeout_s=240)
    assert sweep.stop().state == "stopped" and not processes_of(sweep.path) and not processes_of(run.path)
    assert run.state == "stopped" and run.checkpoints and sweep.table["state"].tolist() == ["open", "open"]
    frames = run.status.frames
    sweep.resume()
    eventually(lambda: run.state in ("starting", "training"))
    run.wait(frames=frames + 500, timeout_s=240)
    assert sweep.stop().state == "stopped"


# --- rules ------------------------------------------------------------------------------------------------------------

FIELDS: Space = {"learning_rate": Span(1e-5, 1e-1, True, False), "discount": Span(0.9, 1.0, False, False),
                 "queue_size": Span(1, 9, False, True), "optimizer": Choice(("adam", "rmsprop"))}


def test_exploring_stays_inside_and_mostly_near() -> None:
    chance, before = np.random.default_rng(0), {"learning_rate": 1e-3, "discount": 0.99, "queue_size": 2,
                                                "optimizer": "adam"}  # fmt: skip
    found = [explored(before, FIELDS, chance) for _ in range(400)]
    for name, entry in FIELDS.items():
        assert all(entry.holds(one[name]) for one in found), name
    rates = [one["learning_rate"] for one in found]
    near = [one for one in rates if one == pytest.approx(0.8e-3) or one == pytest.approx(1.25e-3)]
    assert 0.65 < len(near) / len(rates) < 0.85, "a quarter is drawn anew"
    assert all(isinstance(one["queue_size"], int) for one in found)
    assert 0.05 < sum(one["optimizer"] == "rmsprop" for one in found) / len(found) < 0.2


@pytest.mark.parametrize(("values", "goal", "members", "bad", "good"), [
    ({0: 1.0, 1: 4.0, 2: 3.0, 3: 2.0}, "max", 4, [0], {1}),
    ({0: 1.0, 1: 4.0, 2: 3.0, 3: 2.0}, "min", 4, [1], {0}),
    ({0: None, 1: 4.0, 2: 3.0, 3: 2.0}, "max", 4, [0], {1}),
    ({1: 4.0, 2: 3.0}, "max", 4, [2, None, None], {1}),
    ({0: 5.0, 1: 4.0}, "max", 2, [1], {0}),
    ({7: 1.0}, "max", 2, [None], {7}),
    ({0: None, 1: None}, "max", 2, [], set()),
    ({n: float(n) for n in range(8)}, "max", 8, [1, 0], {6, 7}),
])  # fmt: skip
def test_the_worst_quarter_is_replaced_by_the_best(
    values: dict[int, float | None], goal: str, members: int, bad: list[int | None], good: set[int]
) -> None:
    for seed in range(20):
        found = replaced(values, goal, members, np.random.default_rng(seed))
        assert [one for one, _ in found] == bad
        assert {of for _, of in found} <= good


@pytest.mark.parametrize(("fields", "error", "says"), [
    ({"trials": 1}, OutOfBounds, "a population has at least 2 runs"),
    ({"generations": 5}, OutOfBounds, "generations=5 must be 3, 9 or 27"),
    ({"pruner": "median"}, InvalidInput, "pruner='median' does not go with sampler='pbt'"),
    ({"space": {"unroll_length": (5, 20)}, "unroll_length": None}, InvalidInput,
     "unroll_length cannot change while a run learns"),
    ({"learning_rate_schedule": "linear"}, InvalidInput, "learning_rate_schedule='linear' ends at total_frames"),
    ({"target_return": 400.0}, InvalidInput, "target_return would end runs of a population one by one"),
    ({"total_frames": 300}, OutOfBounds, "total_frames=300 is too little for 3 generations"),
    ({"algorithm": "ppo", "total_frames": 6143, "batch_size": 8, "unroll_length": 32, "minibatches": 4}, OutOfBounds,
     "6143 is too little for 3 generations, in which training takes 1,024 steps at a time: give at least 6144"),
])  # fmt: skip
def test_what_a_population_cannot_do_is_said_before_anything_starts(
    home: Path, fields: dict[str, Any], error: type[Exception], says: str
) -> None:
    asked = {name: value for name, value in {**FEW, "space": SPACE, "trials": 4, **fields}.items() if value is not None}
    before = len(wb.sweeps())
    with pytest.raises(error, match=says):
        wb.sweep("CartPole-v1", **asked)
    assert len(wb.sweeps()) == before

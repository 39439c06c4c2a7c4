"""What `wb.sweep` refuses, in words, before anything is started; and what it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.config import RunConfig, hardware, settings
from workbench.config.own_algorithm import named_algorithm
from workbench.errors import InvalidInput, OutOfBounds, RunExists, RunNotFound, UnknownName
from workbench.sweeping.space import Choice, Span, checked_space, first_trials, from_json, own_space, to_json
from workbench.sweeping.start import warm_up_warning

pytest.importorskip("optuna")
CORES = hardware.cores()
CONFIG = RunConfig.build("CartPole-v1")


pytestmark = pytest.mark.usefixtures("home")  # what should be refused may start a sweep


def of(**space: Any) -> dict[str, Any]:
    return {"space": space}


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"space": {}}, InvalidInput, "names nothing to search"),
        ({"space": ["learning_rate"]}, InvalidInput, "names nothing to search"),
        (of(learning_rat=(1e-4, 1e-2)), UnknownName, "Did you mean 'learning_rate'"),
        (of(burn_in=[1, 2]), UnknownName, "burn_in is a field of 'bc' and 'r2d2'"),
        (of(learning_rate=(1e-4, 2.0)), OutOfBounds, r"learning_rate=2.0 is out of bounds: it must lie in \[0, 1\]"),
        (of(learning_rate=(1e-2, 1e-4)), OutOfBounds, "the low end must lie below"),
        (of(learning_rate=(0.0, 1e-2)), OutOfBounds, "logarithmic scale, which ends above 0.*1e-05.*'linear'"),
        (of(learning_rate=(1e-4, 1e-2, "lin")), UnknownName, "unknown scale 'lin'. Did you mean 'linear'"),
        (of(learning_rate=(1e-4, 1e-3, 1e-2, 1e-1)), OutOfBounds, "has 4 parts.*A list, not a tuple, holds choices"),
        (of(learning_rate=("a", "b")), OutOfBounds, "must be a number, not text"),
        (of(learning_rate=(float("nan"), 1e-2)), OutOfBounds, "learning_rate=nan is out of bounds"),
        (of(learning_rate=1e-3), OutOfBounds, "is not something to search"),
        (of(batch_size=(8.5, 16)), OutOfBounds, "batch_size=8.5 must be a whole number"),
        (of(batch_size=[8]), OutOfBounds, "leaves no choice"),
        (of(batch_size=[8, 16, 8]), OutOfBounds, "has a choice twice"),
        (of(batch_size=[8, 5000]), OutOfBounds, "batch_size=5000 is out of bounds"),
        (of(optimizer=("adam", "rmsprop")), OutOfBounds, "optimizer is no number. Give a list"),
        (of(optimizer=["adam", "sgd"]), OutOfBounds, "optimizer='sgd' is not one of"),
        (of(network=["mlp", "mlp-ltsm"]), UnknownName, "Did you mean 'mlp-lstm'"),
        (of(environment_options=[{}, {"a": 1}]), InvalidInput, "environment_options cannot be searched"),
        (of(total_frames=(1, 2)), InvalidInput, "total_frames cannot be searched. All runs"),
        (of(device=["cpu", "cuda"]), InvalidInput, "device cannot be searched"),
        (of(max_hours=(1.0, 2.0)), InvalidInput, "max_hours cannot be searched. Runs that end by different rules"),
        (of(learners=[1, 3]) | {"actors": 3}, OutOfBounds, "batch_size=8 is that of all learners"),
        (of(discount=(0.9, 0.99)) | {"discount": 0.9}, InvalidInput, "in the space and has a value"),
        (of(network=["mlp", "mlp-lstm"]) | {"network": "mlp"}, InvalidInput, "in the space and has a value"),
        ({"trials": 0}, OutOfBounds, r"trials=0 is out of bounds"),
        ({"trials": 2.5}, OutOfBounds, "must be a whole number"),
        ({"network": (64, 64)}, InvalidInput, r"network=\(64, 64\) must be a name, .*mlp"),
        ({"sampler": "pbt", "generations": 9.5}, OutOfBounds, "generations=9.5 must be a whole number"),
        ({"sampler": "pbt", "generations": 8}, OutOfBounds, "generations=8 must be 3, 9 or 27"),
        ({"parallel": CORES + 1}, OutOfBounds, f"This machine has {CORES} core{'s'[:CORES > 1]},"),
        ({"parallel": 0}, OutOfBounds, "parallel=0"),
        ({"sampler": "tpee"}, UnknownName, "unknown sampler 'tpee'. Did you mean 'tpe'"),
        ({"pruner": "medain"}, UnknownName, "unknown pruner 'medain'. Did you mean 'median'"),
        ({"goal": "maximum"}, UnknownName, "unknown goal 'maximum'"),
        ({"metric": "episode_retrun"}, UnknownName, "Did you mean 'episode_return'"),
        ({"metric": "evaluation_return"}, InvalidInput, "no environment evaluates"),
        ({"metric": "los"}, UnknownName, "unknown metric 'los'. Did you mean 'loss'"),
        ({"metric": 3}, OutOfBounds, "metric=3 must be the name of one"),
        ({"launcher": "inline"}, InvalidInput, "launcher='inline' keeps a run in this process"),
        ({"algorithm": "trpo"}, UnknownName, "unknown algorithm 'trpo'"),
        ({"learning_rat": 1e-3}, UnknownName, "Did you mean 'learning_rate'"),
        ({"name": "a b"}, InvalidInput, "cannot name a run"),
        ({"name": "a" * 95}, InvalidInput, "too long for a sweep"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_refused_and_nothing_is_made(
    home: Path, given: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        wb.sweep("CartPole-v1", **{"parallel": 1, "space": {"entropy_cost": (1e-4, 1e-1)}, **given})
    assert not list(home.glob("*/*"))


def test_an_unknown_environment_is_refused(home: Path) -> None:
    with pytest.raises(UnknownName, match="Did you mean"):
        wb.sweep("CartPol-v1", space={"learning_rate": (1e-4, 1e-2)}, parallel=1)
    assert not list(home.glob("*/*"))


def test_numbers_are_searched_on_the_fields_own_scale_unless_it_is_said() -> None:
    given = {"learning_rate": (1e-4, 1e-2), "discount": (0.9, 0.99), "unroll_length": (5, 20, "log"),
             "entropy_cost": (0, 1, "linear"), "optimizer": ["adam", "rmsprop"], "target_entropy": [None, 0.5]}
    found = checked_space(given, CONFIG, set())
    assert found == {
        "learning_rate": Span(1e-4, 1e-2, True, False), "discount": Span(0.9, 0.99, False, False),
        "unroll_length": Span(5, 20, True, True), "entropy_cost": Span(0.0, 1.0, False, False),
        "optimizer": Choice(("adam", "rmsprop")), "target_entropy": Choice((None, 0.5)),
    }  # fmt: skip
    assert from_json(to_json(found)) == found


class Off(wb.Algorithm):
    """What it searches is off by default."""

    class Config(wb.LearningConfig):
        search = {"beta": (0.0, 1.0), "decay": (0.1, 1.0), "flag": [True, False]}
        beta: float = 0.0
        decay: float | None = None
        flag: bool = False


def test_what_a_default_or_preset_has_turned_off_is_not_searched_and_spans_reach_its_values() -> None:
    assert own_space(CONFIG, {"learning_rate"}) == {"entropy_cost": (5e-5, 1e-2)}
    assert own_space(CONFIG.replaced(entropy_cost=0.0), ()) == {"learning_rate": own_space(CONFIG, ())["learning_rate"]}
    assert own_space(CONFIG.replaced(entropy_cost=1e-5), {"learning_rate"}) == {"entropy_cost": (1e-5, 1e-2)}
    assert own_space(RunConfig.build("x", algorithm="ppo"), ())["clip"] == [0.1, 0.2, 0.3]
    name, described = named_algorithm(Off, taken=settings(RunConfig))
    off = RunConfig.build("x", algorithm=name, own_algorithm=described)
    assert own_space(off, ()) == {"beta": (0.0, 1.0), "decay": (0.1, 1.0), "flag": [True, False]}


def test_of_lists_alone_every_combination_comes_once_with_the_default_first() -> None:
    space = checked_space({"batch_size": [8, 32], "unroll_length": [20, 10]}, CONFIG, ())
    queue = [(fields["batch_size"], fields["unroll_length"]) for fields in first_trials(space, CONFIG, 4)]
    assert queue[0] == (32, 20) and sorted(queue) == [(8, 10), (8, 20), (32, 10), (32, 20)]


@pytest.mark.parametrize(("space", "trials"), [
    ({"batch_size": [8, 32], "unroll_length": [20, 10]}, 3),  # too few for all
    ({"batch_size": [8, 32], "learning_rate": (1e-5, 1e-2)}, 100)])
def test_a_space_that_cannot_be_tried_whole_begins_with_the_defaults_alone(space: dict[str, Any], trials: int) -> None:
    own = {name: CONFIG.value(name) for name in space}
    assert first_trials(checked_space(space, CONFIG, ()), CONFIG, trials) == [own]


def test_places_run_from_0_to_1_on_the_scale_of_the_axis() -> None:
    rate = Span(1e-5, 1e-1, True, False)
    assert [rate.place(value) for value in (1e-5, 1e-3, 1e-1)] == pytest.approx([0, 0.5, 1])
    assert [text for _, text in rate.ticks()] == ["1e-05", "0.0001", "0.001", "0.01", "0.1"]
    assert Span(5, 20, False, True).ticks()[-1] == (1.0, "20")
    assert Choice(("a", "b", "c")).ticks() == [(0.0, "a"), (0.5, "b"), (1.0, "c")]
    assert rate.holds(1e-3) and not rate.holds(1.0) and not Choice((1, 2)).holds(True)


def test_no_sweep_of_that_name_says_the_nearest(home: Path) -> None:
    folder = home / "sweeps" / "cartpole-sweep-1"
    folder.mkdir(parents=True)
    (folder / "sweep.json").write_text('{"created": 1}')
    with pytest.raises(RunNotFound, match="Did you mean 'cartpole-sweep-1'.*wb.sweeps"):
        wb.attach_sweep("cartpole-sweep-2")


def test_a_sweep_takes_no_name_whose_runs_are_there(home: Path) -> None:
    (home / "runs" / "mine-0").mkdir(parents=True)
    with pytest.raises(RunExists, match="there is a run 'mine-0', a name that a sweep 'mine' would use"):
        wb.sweep("CartPole-v1", space={"learning_rate": (1e-4, 1e-2)}, parallel=1, name="mine")
    assert not list(home.glob("sweeps/*"))
    (home / "sweeps" / "mine").mkdir(parents=True)
    with pytest.raises(RunExists, match="there is a sweep 'mine' already"):
        wb.sweep("CartPole-v1", space={"learning_rate": (1e-4, 1e-2)}, parallel=1, name="mine")


def test_no_sweeps_are_an_empty_table() -> None:
    assert len(wb.sweeps()) == 0 and "no sweeps in" in repr(wb.sweeps())


def test_where_nobody_says_how_many_there_are_as_many_runs_at_a_time_as_fit(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.sweeping.sweep.begin", str)
    for cores, fitting in ((1, 1), (2, 2), (16, 2)):
        monkeypatch.setattr(hardware, "cores", lambda cores=cores: cores)
        made = wb.sweep("CartPole-v1", space={"learning_rate": (1e-4, 1e-2)}, name=f"on-{cores}")
        assert json.loads((made.path / "sweep.json").read_text())["parallel"] == fitting


def test_numbers_of_numpy_count(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.sweeping.sweep.begin", str)
    made = wb.sweep("CartPole-v1", space={"learning_rate": (1e-4, 1e-2)}, trials=np.int64(4), parallel=np.int64(1),
                    sampler="pbt", generations=np.int64(9))
    record = json.loads((made.path / "sweep.json").read_text())
    assert (record["trials"], record["parallel"], record["generations"]) == (4, 1, 9)


def test_a_network_that_a_class_brings_is_not_searched(home: Path) -> None:
    class Brings(wb.Algorithm):
        default_network = dict

    with pytest.raises(InvalidInput, match="network"):
        wb.sweep("CartPole-v1", algorithm=Brings, space={"network": ["mlp", "mlp-256"]})


@pytest.mark.parametrize(("fields", "space", "warned"), [
    ({"total_frames": 128_000}, {}, True),  # 200 updates of 640 steps
    ({"total_frames": 128_640}, {}, False),
    ({"total_frames": 20_000, "warmup_updates": 0}, {}, False),
    ({"total_frames": 20_000, "echo_factor": 10}, {}, False),
    ({"total_frames": 20_000}, {"batch_size": [4, 32]}, False),
    ({"total_frames": 20_000}, {"warmup_updates": (0, 200)}, False),
    ({"total_frames": 20_000}, {"learning_rate": (1e-4, 1e-2)}, True),
    ({"total_frames": 4_000, "algorithm": "ppo", "warmup_updates": 249, "batch_size": 2}, {}, False),  # 250 updates
    ({"total_frames": 4_000, "algorithm": "ppo", "warmup_updates": 250, "batch_size": 2}, {}, True),
    ({"total_frames": 8_000, "algorithm": "r2d2", "warmup_updates": 24, "replay_min_size": 50},
     {"replay_ratio": (0.25, 16.0)}, False),
])
def test_a_sweep_whose_runs_only_warm_up_is_warned(fields: dict[str, Any], space: dict[str, Any], warned: bool) -> None:
    config = RunConfig.build("CartPole-v1", **fields)
    warning = warm_up_warning(config, checked_space(space, config, set(fields)) if space else {})
    assert bool(warning) == warned
    if warned:
        assert warning.startswith("each run makes at most ") and warning.endswith("or warmup_updates=0.")

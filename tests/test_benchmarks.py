"""What the benchmarks that learn do with the fields that they are given."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

import workbench as wb
from workbench import rundir
from workbench.config import RunConfig
from workbench.errors import InvalidInput, UnknownName
from workbench.running.handle import Run

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def learning(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """benchmarks/learning.py, and nothing that starts a run."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("learning")
    sys.modules.pop("learning", None)


@pytest.fixture
def resumed(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of runs that were resumed; there is one, "mine", whose learning rate was tuned twice."""
    config = RunConfig.build("CartPole-v1", seed=3, learning_rate=5e-4, actors=2)
    rundir.create("mine", {"config": config.to_json(), "created": 1.0, "state": "stopped", "supervisor_pid": None,
                           "error": None})
    tuned = [("tune", {"old": {"learning_rate": 1e-3}, "new": {"learning_rate": 2e-3}}),
             ("tune", {"old": {"learning_rate": 2e-3}, "new": {"learning_rate": 5e-4}}),
             ("scale", {"old": {"actors": 1}, "new": {"actors": 2}}), ("checkpoint", {})]
    monkeypatch.setattr(Run, "events", pd.DataFrame(tuned, columns=["kind", "data"]))
    found: list[str] = []
    monkeypatch.setattr(wb, "resume", found.append)
    return found


def test_the_same_fields_go_on_with_the_run_whatever_was_tuned_since(learning, resumed):
    learning.found_or_launched("mine", "CartPole-v1", seed=3, learning_rate=1e-3, actors=1)
    learning.found_or_launched("mine", "CartPole-v1")
    assert resumed == ["mine"] * 2


@pytest.mark.parametrize(("environment", "fields", "says"), [
    ("CartPole-v1", {"seed": 1}, "started with seed=3, not 1. Give what it has, or another --name"),
    ("CartPole-v1", {"seed": 3, "learning_rate": 5e-4}, "started with learning_rate=0.001, not 0.0005"),
    ("CartPole-v1", {"actors": 2}, "started with actors=1, not 2"),
    ("Acrobot-v1", {}, "started with environment='CartPole-v1', not 'Acrobot-v1'"),
    ("CartPole-v1", {"algorithm": "r2d2"}, "started with algorithm='vtrace', not 'r2d2'"),
    ("CartPole-v1", {"preset": "classic"}, "started with batch_size=32, not 8"),
])
def test_other_fields_than_the_run_started_with_are_refused(learning, resumed, environment, fields, says):
    with pytest.raises(InvalidInput, match=says):
        learning.found_or_launched("mine", environment, **fields)
    assert resumed == []


def test_a_field_that_there_is_not_is_refused(learning, resumed):
    with pytest.raises(UnknownName, match="Did you mean 'learning_rate'"):
        learning.found_or_launched("mine", "CartPole-v1", learning_rte=1e-3)
    assert resumed == []


def test_words_become_fields_or_say_what_is_wrong(learning):
    environments = importlib.import_module("environments")
    try:
        assert environments.fields_of(["learning_rate=3e-4", "actors=2"]) == {"learning_rate": 3e-4, "actors": 2}
        with pytest.raises(InvalidInput, match="'actors' is no FIELD=VALUE, such as learning_rate=3e-4"):
            environments.fields_of(["learning_rate=3e-4", "actors"])
    finally:
        for name in ("environments", "environment_speed", "throughput"):
            sys.modules.pop(name, None)

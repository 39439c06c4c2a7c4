"""An algorithm typed in a cell is a run like any other: processes, fields, checkpoints, resume, fork, sweep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from workbench.config import RunConfig, settings
from workbench.config.own_algorithm import config_class, described
from workbench.errors import AlgorithmFailed, InvalidInput, NotLive, OutOfBounds, UnknownName, WrongType
from workbench.widgets.panel import dashboard

TAKEN = settings(RunConfig)
SMALL = {"actors": 1, "envs_per_actor": 8, "progress": False}


class Bonus(wb.Algorithm):
    """A policy gradient with a bonus, whose second network learns nothing."""

    class Config(wb.LearningConfig):
        learning_rate: float = 1e-3
        unroll_length: int = 10
        batch_size: int = 8
        bonus: float = wb.setting(0.01, "weight of the bonus", low=0.0, high=1.0, live=True, group="exploration")
        form: str = wb.setting("mean", "how", choices=("mean", "sum"))
        patience: int | None = None

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        output = self.outputs(network, batch)
        rewards, discounts = self.rewards_and_discounts(batch, config)
        values, logits = output.value[:-1], output.policy_logits[:-1]
        errors = rewards + discounts * output.value[1:].detach() - values
        log_probs = self.distribution.log_prob(logits, actions=batch.action[:-1])
        entropy = self.distribution.entropy(logits).mean()
        total = errors.square().mean() - (errors.detach() * log_probs).mean() - config.bonus * entropy
        return wb.Loss(total, {"loss": total.detach(), "entropy": entropy.detach(), "error": errors.detach().mean()})


class Fails(Bonus):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        raise KeyError("not_there")


def test_it_is_launched_tuned_evaluated_resumed_and_forked(home: Path) -> None:
    run = wb.launch("CartPole-v1", algorithm=Bonus, bonus=0.02, total_frames=10**7, **SMALL)
    assert run.name == "cartpole-Bonus-1" and run.config.algorithm == "Bonus"
    assert (run.config.value("learning_rate"), run.config.value("bonus")) == (1e-3, 0.02)
    run.tune(bonus=0.5)
    assert run.config.value("bonus") == 0.5
    with pytest.raises(OutOfBounds, match=r"bonus=2\.0 is out of bounds: it must lie in \[0, 1\]"):
        run.tune(bonus=2.0)
    with pytest.raises(NotLive, match="form is fixed"):
        run.tune(form="sum")
    with pytest.raises(UnknownName, match="Did you mean 'bonus'"):
        run.tune(bonsu=0.1)
    run.wait(updates=50, timeout_s=60, progress=False)
    run.stop()
    assert wb.evaluate(run, episodes=2).returns
    rollout = wb.rollout(run, max_steps=20)
    assert rollout.policy is not None and rollout.policy.shape[1] == 2
    assert {"entropy", "loss", "error"} <= set(run.metric_names)
    drawn = dashboard.read(run.directory).series.keys() - dashboard.SERIES
    assert drawn == {"error"}, "a chart of its own has what no other chart shows, and nothing of the system"
    assert dashboard.figures(dashboard.read(run.directory))["own"].tables["readout"]
    fork = run.fork(bonus=0.1, form="sum")
    assert fork.config.value("form") == "sum" and fork.status.frames >= run.status.frames
    fork.stop()
    again = wb.resume(run.name, progress=False)
    again.wait(updates=run.status.updates + 20, timeout_s=60, progress=False)
    assert again.config.value("bonus") == 0.5
    again.stop()


def test_one_that_breaks_a_rule_fails_at_launch_with_that_rule(home: Path) -> None:
    with pytest.raises(AlgorithmFailed, match=r"loss\(network, batch=..., config=...\) raised KeyError: 'not_there'"):
        wb.launch("CartPole-v1", algorithm=Fails, **SMALL)


@pytest.mark.full
def test_a_sweep_searches_its_fields(home: Path) -> None:
    sweep = wb.sweep("CartPole-v1", algorithm=Bonus, space={"bonus": (0.0, 0.5)}, trials=2, parallel=1,
                     total_frames=4000, actors=1, envs_per_actor=8)
    sweep.wait(timeout_s=240, progress=False)
    assert len(sweep.table) == 2 and set(sweep.best_fields) == {"bonus"}


@pytest.mark.full
def test_weights_that_were_exported_say_that_the_class_is_not_with_them(home: Path, tmp_path: Path) -> None:
    run = wb.launch("CartPole-v1", algorithm=Bonus, total_frames=2000, **SMALL)
    run.wait(timeout_s=60, progress=False)
    exported = wb.export_policy(run, target=tmp_path / "policy")
    with pytest.raises(AlgorithmFailed, match="Bonus was typed in a cell, and its class is not exported"):
        wb.evaluate(exported, episodes=1)


def test_a_description_makes_the_same_class_everywhere() -> None:
    description = described(Bonus.Config, taken=TAKEN)
    assert set(description["fields"]) == {"learning_rate", "unroll_length", "batch_size", "bonus", "form", "patience"}
    config = RunConfig.build("x", algorithm="Bonus", own_algorithm=description, bonus=0.3)
    back = RunConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert back == config and type(back.hyperparameters) is type(config.hyperparameters)
    bonus = back.all_settings()["bonus"]
    assert (bonus.low, bonus.high, bonus.live, bonus.group, bonus.kind) == (0.0, 1.0, True, "exploration", float)
    assert back.all_settings()["learning_rate"].live and back.all_settings()["learning_rate"].default == 1e-3
    assert back.all_settings()["patience"].optional and back.changed == {"bonus": 0.3}


def configured(**namespace: Any) -> type:
    return type("Config", (wb.LearningConfig,), {"__module__": __name__, **namespace})


@pytest.mark.parametrize(("config", "error", "said"), [
    (int, InvalidInput, "must be a class that derives from wb.LearningConfig"),
    (configured(__annotations__={"actors": "int"}, actors=3), InvalidInput, "actors has the name of a field of every"),
    (configured(__annotations__={"beta": "list"}, beta=3), InvalidInput, "beta: list is no type of a hyperparameter"),
    (configured(__annotations__={"beta": "float"}, beta="much"), WrongType, "beta='much' must be a number"),
    (configured(__annotations__={"beta": "float"}, beta=object()), InvalidInput, "must be numbers, texts"),
    (configured(__annotations__={"beta": "float"}, beta=wb.setting(2.0, "", low=0, high=1)), OutOfBounds, "beta=2.0"),
    (configured(__annotations__={"beta": "float"}, beta=wb.setting(2.0, "", group="mine")), InvalidInput, "group"),
    (configured(__annotations__={"_beta": "float"}, _beta=2.0), InvalidInput, "'_beta' is no name of a field"),
])
def test_a_wrong_configuration_is_refused(config: type, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        described(config, taken=TAKEN)


@pytest.mark.parametrize("algorithm", [print, 3, None, int, Bonus.__new__(Bonus)])
def test_what_is_no_algorithm_is_refused(home: Path, algorithm: Any) -> None:
    with pytest.raises(InvalidInput, match=r"must be a name \(vtrace, .*\) or a class that derives from wb\.Algorithm"):
        wb.launch("CartPole-v1", algorithm=algorithm)
    assert not list(home.glob("runs/*"))


@pytest.mark.parametrize("hostile", [
    "[]", "{}", '{"trains": "Config", "fields": {}}', '{"trains": "LearningConfig", "fields": []}',
    '{"trains": "LearningConfig", "fields": {"a b": {"kind": "int", "default": 1}}}',
    '{"trains": "LearningConfig", "fields": {"__init__": {"kind": "int", "default": 1}}}',
    '{"trains": "LearningConfig", "fields": {"x": {"kind": "object", "default": 1}}}',
    '{"trains": "LearningConfig", "fields": {"x": {"kind": "int"}}}',
    '{"trains": "LearningConfig", "fields": {"x": {"kind": "int", "default": 1, "low": "0"}}}',
    '{"trains": "LearningConfig", "fields": {"x": {"kind": "int", "default": 1, "name": "y"}}}',
    '{"trains": "LearningConfig", "fields": {"x": {"kind": "int", "default": 1, "help": 3}}}',
    '{"trains": "LearningConfig", "fields": {"x": {"kind": "int", "default": [1]}}}', "nonsense",
])
def test_a_description_from_a_file_that_is_none_is_refused(hostile: str) -> None:
    with pytest.raises(InvalidInput):
        config_class(hostile)()

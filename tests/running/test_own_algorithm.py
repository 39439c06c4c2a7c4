"""An algorithm typed in a cell is a run like any other: processes, fields, checkpoints, resume, fork, sweep."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from workbench import rundir
from workbench.config import ALGORITHMS, RunConfig, settings
from workbench.config.algorithms import only_class
from workbench.config.own_algorithm import ARGUMENTS, check_described, config_class, described
from workbench.errors import AlgorithmFailed, InvalidInput, NotLive, OutOfBounds, RunFailed, UnknownName, WrongType
from workbench.playing.evaluating import evaluation_log
from workbench.rundir import RunDirectory
from workbench.running.starts.checking import checked_config, mended_code, with_algorithm
from workbench.running.starts.starting import check_name, stem_for
from workbench.widgets.panel import dashboard

TAKEN = settings(RunConfig)
SMALL = {"actors": 1, "envs_per_actor": 8, "progress": False}


class Bonus(wb.Algorithm):
    """A policy gradient with a bonus, whose value learns at a rate of its own."""

    class Config(wb.LearningConfig):
        learning_rate: float = 1e-3
        unroll_length: int = 10
        batch_size: int = 8
        bonus: float = wb.setting(0.01, "weight of the bonus", low=0.0, high=1.0, live=True, group="exploration")
        value_factor: float = wb.setting(2.0, "of the value's learning rate", low=0.0, high=100.0, live=True)
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

    def rate_factors(self, network: Any, *, config: Any) -> Any:
        return [(network.value.parameters(), config.value_factor)]


def narrow(spec: Any) -> Any:
    raise NotImplementedError


def wide(spec: Any) -> Any:
    raise NotImplementedError


class Fails(Bonus):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        raise KeyError("not_there")


def test_it_is_launched_tuned_evaluated_resumed_and_forked(home: Path) -> None:
    run = wb.launch("CartPole-v1", algorithm=Bonus, bonus=0.02, total_frames=10**7, **SMALL)
    assert run.name == "cartpole-Bonus-1" and run.config.algorithm == "Bonus"
    assert (run.config.value("learning_rate"), run.config.value("bonus")) == (1e-3, 0.02)
    run.tune(bonus=0.5, value_factor=0.0)
    assert run.config.value("bonus") == 0.5
    with pytest.raises(OutOfBounds, match=r"bonus=2\.0 is out of bounds: it must lie in \[0, 1\]"):
        run.tune(bonus=2.0)
    with pytest.raises(NotLive, match="form is fixed"):
        run.tune(form="sum")
    with pytest.raises(UnknownName, match="Did you mean 'bonus'"):
        run.tune(bonsu=0.1)
    run.wait(updates=50, timeout_s=60, progress=False)
    held = run.checkpoint()
    run.wait(updates=held.updates + 20, timeout_s=60, progress=False)
    run.stop()
    before, after = (checkpoint.load("model") for checkpoint in (held, run.checkpoints[-1]))
    assert {name for name in before if (before[name] == after[name]).all()} == {"value.weight", "value.bias"}
    evaluation = wb.evaluate(run, episodes=2)
    assert [entry.evaluation for entry in evaluation_log.kept(run.directory)] == [evaluation]
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
    code = again.card().code.splitlines()
    assert code[0] == "# algorithm of its user's own: define it first" and "algorithm=Bonus," in code[4]


def test_one_that_breaks_a_rule_fails_at_launch_with_that_rule(home: Path) -> None:
    with pytest.raises(AlgorithmFailed, match=r"loss\(.* raised KeyError: 'not_there'") as raised:
        wb.launch("CartPole-v1", algorithm=Fails, name="mine", **SMALL)
    assert re.fullmatch(r"mine has trained nothing, and lies in .*/trash/mine-.* now\.", raised.value.__notes__[-1])
    assert not wb.runs(), "and its name is free"


@pytest.mark.full
def test_a_sweep_searches_its_fields(home: Path) -> None:
    sweep = wb.sweep("CartPole-v1", algorithm=Bonus, space={"bonus": (0.0, 0.5)}, trials=2, parallel=1,
                     total_frames=4000, actors=1, envs_per_actor=8)
    sweep.wait(timeout_s=240, progress=False)
    assert len(sweep.table) == 2 and set(sweep.best_fields) == {"bonus"}


@pytest.mark.full
def test_weights_that_were_exported_say_that_the_class_is_not_with_them(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = wb.launch("CartPole-v1", algorithm=Bonus, total_frames=2000, **SMALL)
    run.wait(timeout_s=60, progress=False)
    capsys.readouterr()
    exported = wb.export_policy(run, target=tmp_path / "policy")
    assert "will hold weights without code, and not the algorithm of your own" in capsys.readouterr().out
    card = (exported / "README.md").read_text()
    assert "wb.launch('CartPole-v1', algorithm=Bonus, checkpoint='policy')" in card
    again = wb.launch("CartPole-v1", algorithm=Bonus, checkpoint=exported, total_frames=10**7, **SMALL)
    again.stop()
    with pytest.raises(InvalidInput, match=r"its files hold no code.*wb\.evaluate\('.*policy', algorithm=Bonus\)"):
        wb.evaluate(exported, episodes=1)
    here, there = wb.evaluate(run, episodes=2, seed=3), wb.evaluate(exported, episodes=2, seed=3, algorithm=Bonus)
    assert here.returns == there.returns


def test_a_description_makes_the_same_class_everywhere() -> None:
    description = described(Bonus.Config, taken=TAKEN)
    assert set(description["fields"]) == {
        "learning_rate", "unroll_length", "batch_size", "bonus", "value_factor", "form", "patience"}
    config = RunConfig.build("x", algorithm="Bonus", own_algorithm=description, bonus=0.3)
    back = RunConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert back == config and type(back.hyperparameters) is type(config.hyperparameters)
    bonus = back.all_settings()["bonus"]
    assert (bonus.low, bonus.high, bonus.live, bonus.group, bonus.kind) == (0.0, 1.0, True, "exploration", float)
    assert back.all_settings()["learning_rate"].live and back.all_settings()["learning_rate"].default == 1e-3
    assert back.all_settings()["patience"].optional and back.changed == {"bonus": 0.3}


def test_a_mended_class_is_waited_for() -> None:
    with pytest.raises(InvalidInput, match=r"wait_ready=False does not go with algorithm"):
        wb.resume("any", algorithm=Bonus, wait_ready=False)


def test_fields_of_a_class_are_listed_and_nearly_inherited_names_are_said(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {"bonus", "learning_rate", "discount"} <= {row.name for row in wb.fields(Bonus)}
    with pytest.raises(InvalidInput, match=r"must be a name .* or a class that derives from wb\.Algorithm"):
        wb.fields(dict)

    class Typo(Bonus):
        class Config(wb.LearningConfig):
            learning_rat: float = 1e-2

    checked_config("CartPole-v1", Typo, None, None, (), {})
    assert "Typo.Config.learning_rat is new, beside learning_rate, which keeps its default." in capsys.readouterr().out
    checked_config("CartPole-v1", Bonus, None, None, (), {})
    assert capsys.readouterr().out == ""


def test_a_number_without_bounds_is_finite() -> None:
    gain = described(configured(__annotations__={"gain": "float"}, gain=1.0), taken=TAKEN)
    for value in (float("inf"), float("nan")):
        with pytest.raises(OutOfBounds, match=f"^gain={value} must be a finite number"):
            RunConfig.build("x", algorithm="Own", own_algorithm=gain, gain=value)


def configured(**namespace: Any) -> type:
    return type("Config", (wb.LearningConfig,), {"__module__": __name__, **namespace})


@pytest.mark.parametrize(("config", "error", "said"), [
    (int, InvalidInput, "must be a class that derives from wb.LearningConfig"),
    (configured(__annotations__={"actors": "int"}, actors=3), InvalidInput, "actors has the name of something that"),
    (configured(__annotations__={"beta": "list"}, beta=3), InvalidInput, "beta: list is no type of a hyperparameter"),
    (configured(__annotations__={"beta": "float"}, beta="much"), WrongType, "beta='much' must be a number"),
    (configured(__annotations__={"beta": "float"}, beta=object()), InvalidInput, "must be numbers, texts"),
    (configured(__annotations__={"beta": "float"}, beta=wb.setting(2.0, "", low=0, high=1)), OutOfBounds, "beta=2.0"),
    (configured(__annotations__={"beta": "float"}, beta=wb.setting(2.0, "", group="mine")), InvalidInput, "group"),
    (configured(__annotations__={"_beta": "float"}, _beta=2.0), InvalidInput, "'_beta' is no name of a field"),
    (configured(learning_rate=0.5), InvalidInput, r"learning_rate = 0\.5 is no field without its kind.*beta: float"),
    (configured(rate=lambda self: 1), InvalidInput, "rate: a Config has fields alone.*methods into the algorithm"),
    (configured(__annotations__={"beta": "float"}), InvalidInput, "beta has no default|non-default argument"),
    (configured(__annotations__={"layers": "list"}, layers=[1]), InvalidInput,
     "layers: list is no type of a hyperparameter. Use bool, int, float or str"),
    (configured(__annotations__={"clip": "float"}, clip=wb.setting(0.1, "x", low=1, high=0)), InvalidInput,
     "clip has low=1 above high=0"),
    (configured(__annotations__={"k": "int"}, k=wb.setting(0.5, "x")), InvalidInput,
     r"k=0\.5 must be a whole number\.$"),
    (configured(gamma2=wb.setting(0.5, "x")), InvalidInput, r"gamma2 = 0\.5 is no field without its kind"),
    (configured(__annotations__={"optimizer": "str"}, optimizer=wb.setting("sgd", "x")), OutOfBounds, "'sgd'"),
    (configured(__annotations__={"learning_rate": "str"}, learning_rate="fast"), InvalidInput,
     "learning_rate is float where it is inherited from, and cannot become str"),
    (configured(__annotations__={"batch_size": "int"}, batch_size=-8), OutOfBounds, "batch_size=-8 is out of bounds"),
    (configured(__annotations__={"batch_size": "int | None"}, batch_size=8), InvalidInput, "cannot become int | None"),
    (configured(__annotations__={"beta": "float"}, beta=wb.setting(1.0, "x", low=10**400)), InvalidInput, "low="),
    (configured(__annotations__={"search": "float"}, search=1.0), InvalidInput, "search"),
    (configured(__annotations__={"self": "float"}, self=1.0), InvalidInput, "self has the name of something"),
    (configured(__annotations__={"trials": "int"}, trials=1), InvalidInput, "argument of a call that takes fields"),
])
def test_a_wrong_configuration_is_refused(config: type, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        described(config, taken=TAKEN)


def test_bounds_are_inherited_and_may_only_become_narrower() -> None:
    class Wide(wb.LearningConfig):
        beta: float = wb.setting(0.5, "weight", low=0.0, high=1.0, live=True)

    class Narrow(Wide):
        beta: float = 0.1
        learning_rate: float = wb.setting(1e-3, "faster", high=5.0)
        search = {"beta": (0.01, 1.0, "log"), "optimizer": ["adam", "rmsprop"]}

    made = config_class(json.dumps(described(Narrow, taken=TAKEN), sort_keys=True))
    beta, rate = settings(made)["beta"], settings(made)["learning_rate"]
    assert (beta.default, beta.low, beta.high, beta.live) == (0.1, 0.0, 1.0, True)
    assert (rate.default, rate.low, rate.high, rate.live, rate.help) == (1e-3, 0.0, 1.0, True, "faster")
    assert made.search == {"beta": (0.01, 1.0, "log"), "optimizer": ["adam", "rmsprop"]}


def test_the_names_of_arguments_are_those_that_calls_have() -> None:
    calls = (wb.launch, wb.resume, wb.sweep, wb.Run.fork, wb.Run.tune, RunConfig.build)
    named = {name for call in calls for name, one in inspect.signature(inspect.unwrap(call)).parameters.items()
             if name not in TAKEN and name not in settings(wb.LearningConfig)}
    own = {name for config in ALGORITHMS.values() for name in settings(config)}
    assert named - own <= ARGUMENTS | set(TAKEN), named - own - ARGUMENTS


@pytest.mark.parametrize(("name", "run"), [("../../escape", "cartpole-escape-1"), ("Über", "cartpole-ber-1"),
                                           ("x" * 99, f"cartpole-{'x' * 24}-1"), ("vtrace", "cartpole-vtrace-1")])
def test_a_class_may_be_called_anything(home: Path, name: str, run: str) -> None:
    config, _, _ = checked_config("CartPole-v1", type(name, (Bonus,), {}), None, None, (), {})
    assert f"{stem_for(config)}-1" == run and config.algorithm == name[:100]
    assert eval(repr(config), {"RunConfig": RunConfig}) == config
    check_name(run)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_variation_of_a_shipped_algorithm_has_its_fields_and_keeps_the_rules(name: str) -> None:
    agent = importlib.import_module(f"workbench.algorithms.{name}.agent")
    shipped = only_class(agent, wb.Algorithm)
    varied = type("Varied", (shipped,), {"__module__": __name__})
    own = wb.fields(varied)
    assert {row.name for row in own} == {row.name for row in wb.fields(name)}
    assert {row.name: row.setting.default for row in own} == {
        row.name: row.setting.default for row in wb.fields(name)}
    assert "breaks no rule" in repr(wb.check_algorithm(varied)) and not wb.check_algorithm(varied).fields


def test_a_slip_in_a_variation_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from workbench.algorithms.ppo.agent import PPO

    class Slip(PPO):
        def reward(self, batch: Any, config: Any) -> Any:
            return batch.reward[1:]

    class Flat(PPO):
        class Config(wb.EpochsConfig):
            pass

    said = "Slip.reward(...) is new, beside rewards, which stays as it is."
    assert repr(wb.check_algorithm(Slip)).endswith(said)
    checked_config("CartPole-v1", Slip, None, None, (), {})
    assert capsys.readouterr().out.splitlines() == [
        said, "Slip begins with the defaults of its class. ppo has the preset 'classic' for CartPole-v1: "
              "preset='classic' takes it, and preset='none' leaves out this line."]
    checked_config("CartPole-v1", PPO, None, "none", (), {})
    with pytest.raises(UnknownName):
        checked_config("CartPole-v1", type("Own", (PPO,), {}), None, None, (), {"learning_rat": 1e-3})
    assert capsys.readouterr().out == ""
    with pytest.raises(InvalidInput, match=r"Flat derives from PPO, .* Write class Config\(PPO\.Config\)"):
        wb.check_algorithm(Flat)


def test_a_variation_has_a_preset_of_the_shipped_algorithm_only_where_it_is_named(home: Path) -> None:
    from workbench.algorithms.ppo.agent import PPO

    class Faster(PPO):
        class Config(PPO.Config):
            learning_rate: float = 2e-3

    for preset, epochs, rate in ((None, 4, 2e-3), ("none", 4, 2e-3), ("classic", 10, 1e-3)):
        config, _, used = checked_config("CartPole-v1", Faster, None, preset, (), {})
        assert (used, config.value("epochs"), config.value("learning_rate")) == (
            preset if preset == "classic" else None, epochs, rate)
    with pytest.raises(InvalidInput, match="not for one of your own that derives from none of them. Give the fields"):
        checked_config("CartPole-v1", Bonus, None, "classic", (), {})


def test_a_class_called_as_a_shipped_algorithm_gets_no_preset_of_it(home: Path) -> None:
    pytest.importorskip("mujoco")
    config, _, _ = checked_config("HalfCheetah-v5", type("vtrace", (Bonus,), {}), None, None, (), {})
    assert "lambda_" not in config.all_settings() and config.total_frames == 10_000_000


def test_the_description_is_no_field_to_give(home: Path) -> None:
    with pytest.raises(InvalidInput, match="Give algorithm=YourClass"):
        wb.launch("CartPole-v1", algorithm="ppo", own_algorithm={"trains": "LearningConfig", "fields": {}})


class FailsLater(Bonus):
    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        self.times = getattr(self, "times", 0) + 1
        if self.times > 5:
            raise ArithmeticError("the sixth time")
        return super().loss(network, batch=batch, config=config)


@pytest.mark.full
def test_a_loss_that_fails_leaves_a_checkpoint_from_which_a_mended_class_goes_on(home: Path) -> None:
    raised = AlgorithmFailed, RunFailed  # by launch, or by wait
    with pytest.raises(raised, match=r"raised ArithmeticError in update \d: the sixth time"):
        wb.launch("CartPole-v1", algorithm=FailsLater, name="later", bonus=0.02, **SMALL).wait(
            updates=50, timeout_s=120, progress=False)
    (kept,) = wb.attach("later").checkpoints
    assert (kept.meta["reason"], kept.updates) == ("failed", 5)
    with pytest.raises(InvalidInput, match="trains by FailsLater, and can go on only with a class of yours"):
        wb.resume("later", algorithm=Bonus)
    config = type("Config", (Bonus.Config,), {"__annotations__": {"more": "float"}, "more": 3.0})
    mended = type("FailsLater", (Bonus,), {"Config": config})
    tried = wb.attach("later").fork(kept, name="tried", algorithm=mended, more=4.0, progress=False)
    assert tried.wait(updates=kept.updates + 5, timeout_s=120, progress=False).updates > kept.updates
    assert (tried.config.value("bonus"), tried.config.value("more")) == (0.02, 4.0)
    assert "more" not in wb.attach("later").config.all_settings(), "which is not changed"
    tried.stop()
    with pytest.raises(InvalidInput, match="trains by FailsLater, and can go on only with a class of yours"):
        wb.attach("later").fork(kept, algorithm=Bonus)
    with pytest.raises(AlgorithmFailed, match="wrong from the start"):
        wb.attach("later").fork(kept, name="wrong", algorithm=type("FailsLater", (Wrong,), {}), progress=False)
    assert {run.name for run in wb.runs()} == {"later", "tried"}, "it lies in the trash"
    run = wb.resume("later", algorithm=mended, progress=False)
    run.wait(updates=kept.updates + 20, timeout_s=120, progress=False)
    assert (run.config.value("bonus"), run.config.value("more")) == (0.02, 3.0)
    assert "started again, with mended code" in set(run.events["message"])
    with pytest.raises(InvalidInput, match="Stop it first"):
        wb.resume("later", algorithm=mended)
    run.stop()
    assert len(wb.evaluate(kept, episodes=2, greedy=False).returns) == 2  # written before the class had `more`
    fork = run.fork(kept, wait_ready=False)
    assert (fork.config.value("bonus"), fork.config.value("more")) == (0.02, 3.0)
    fork.stop()


class Wrong(Bonus):
    def behaviour_fields(self) -> Any:
        raise ArithmeticError("wrong from the start")


@pytest.mark.full
def test_a_mended_class_that_fails_at_once_leaves_the_run_as_it_was(home: Path) -> None:
    run = wb.launch("CartPole-v1", algorithm=Bonus, name="kept", **SMALL, total_frames=400)
    ended = run.wait(timeout_s=120, progress=False)
    before, code = run.config, (run.path / "code" / "algorithm.pkl").read_bytes()
    with pytest.raises(AlgorithmFailed, match="wrong from the start") as raised:
        wb.resume("kept", algorithm=type("Bonus", (Wrong,), {}), total_frames=800, bonus=0.5, progress=False)
    assert raised.value.__notes__ == ["kept is what it was, with the code and the settings that it had."]
    assert run.config == before and (run.path / "code" / "algorithm.pkl").read_bytes() == code
    now = wb.attach("kept").status
    assert (now.state, now.reason, now.frames) == ("finished", ended.reason, ended.frames) and ended.reason
    again = wb.resume("kept", total_frames=800, progress=False)
    assert again.wait(timeout_s=120, progress=False).state == "finished" and again.config.value("bonus") == 0.01
    (run.path / "code" / "algorithm.pkl").write_bytes(code[:-20])
    with pytest.raises(InvalidInput, match=r"which is torn: .*Give it again: wb\.resume\('kept', algorithm=Bonus\)\.$"):
        wb.resume("kept", total_frames=1200)
    with pytest.raises(InvalidInput, match=r"Give it again: run\.fork\(algorithm=Bonus\)\.$"):
        again.fork(total_frames=1200)
    given = wb.resume("kept", algorithm=Bonus, total_frames=1200, progress=False)
    assert given.wait(timeout_s=120, progress=False).state == "finished"


class FailsAfterwards(Bonus):
    def after_update(self, loss: wb.Loss, *, config: Any) -> None:
        self.times = getattr(self, "times", 0) + 1
        if self.times > 5:
            raise ArithmeticError("the sixth time")


@pytest.mark.full
def test_what_a_hook_raises_ends_the_run_at_once(home: Path) -> None:
    with pytest.raises((AlgorithmFailed, RunFailed), match=r"after_update\(...\) raised ArithmeticError in update 6:"):
        wb.launch("CartPole-v1", algorithm=FailsAfterwards, name="hook", **SMALL).wait(timeout_s=120, progress=False)
    assert "restart" not in set(wb.attach("hook").events["kind"])


class ReturnsWrong(Bonus):
    """It keeps the rules for five updates."""

    updates = 0

    def updated(self, network: Any, *, updates: int, config: Any) -> None:
        self.updates = updates

    def loss(self, network: Any, *, batch: wb.Batch, config: Any) -> wb.Loss:
        loss = super().loss(network, batch=batch, config=config)
        return loss if self.updates < 5 else loss._replace(scalars={"odd": 3.0})


class ActsWrong(ReturnsWrong):
    def loss(self, network: Any, *, batch: wb.Batch, config: Any) -> wb.Loss:
        return Bonus.loss(self, network, batch=batch, config=config)

    def act(self, output: Any, **how: Any) -> Any:
        actions, fields = super().act(output, **how)
        return (actions if self.updates < 5 else actions[:, None]), fields


@pytest.mark.full
@pytest.mark.parametrize(("algorithm", "said"), [
    (ReturnsWrong, r"Loss\.scalars\['odd'\] must be a detached scalar tensor, not 3\.0"),
    (ActsWrong, r"gives actions as an int64 tensor of shape \((\d+),\), not an int64 tensor of shape \(\1, 1\)"),
])
def test_what_breaks_a_rule_in_the_run_ends_it_with_a_checkpoint(home: Path, algorithm: type, said: str) -> None:
    with pytest.raises((AlgorithmFailed, RunFailed), match=said):
        wb.launch("CartPole-v1", algorithm=algorithm, name="rule", **SMALL).wait(timeout_s=120, progress=False)
    run = wb.attach("rule")
    assert "restart" not in set(run.events["kind"])
    assert [kept.meta["reason"] for kept in run.checkpoints] == ["failed"] and run.checkpoints[0].updates >= 5


@pytest.mark.full
@pytest.mark.parametrize("shipped", ["ppo", "vtrace", "awr", "vmpo"])
def test_a_variation_that_fails_leaves_a_checkpoint_whatever_it_learns_beside_the_network(
    home: Path, shipped: str
) -> None:
    kind = only_class(importlib.import_module(f"workbench.algorithms.{shipped}.agent"), wb.Algorithm)

    class Late(kind):  # type: ignore[misc,valid-type]
        def loss(self, network: Any, *, batch: wb.Batch, config: Any) -> wb.Loss:
            self.times = getattr(self, "times", 0) + 1
            if self.times > 9:
                raise ArithmeticError("the tenth time")
            return super().loss(network, batch=batch, config=config)

    with pytest.raises((AlgorithmFailed, RunFailed), match="the tenth time"):
        wb.launch("CartPole-v1", algorithm=Late, name=f"late-{shipped}", **SMALL).wait(timeout_s=120, progress=False)
    assert wb.attach(f"late-{shipped}").checkpoints[-1].meta["reason"] == "failed"


def test_a_value_that_the_mended_class_drops_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    config, _, _ = checked_config("CartPole-v1", Bonus, None, None, (), {"bonus": 0.6})
    fields = {"__annotations__": {"prize": "float"}, "prize": 0.01}
    with_algorithm(config, type("Bonus", (Bonus,), {"Config": type("Config", (wb.LearningConfig,), fields)}), ())
    assert "Bonus no longer has bonus=0.6, which this run had." in capsys.readouterr().out


def test_a_default_that_the_mended_class_changes_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    config, _, _ = checked_config("CartPole-v1", Bonus, None, None, (), {"unroll_length": 7})
    other = type("Config", (Bonus.Config,), {"__annotations__": {"bonus": "float", "unroll_length": "int"},
                                             "bonus": 0.5, "unroll_length": 9})
    mended, _ = with_algorithm(config, type("Bonus", (Bonus,), {"Config": other}), ())
    assert (mended.value("bonus"), mended.value("unroll_length")) == (0.5, 7)
    assert "Bonus has other defaults now, which hold from here on: bonus 0.01 → 0.5." in capsys.readouterr().out
    mended, _ = with_algorithm(config, type("Bonus", (Bonus,), {"Config": other}), {"unroll_length"})
    assert mended.value("unroll_length") == 9


def test_a_mended_class_brings_its_network_to_a_run_that_has_one_of_its_users_own(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def mended(run: RunDirectory, algorithm: type, network: Any = None) -> list[str]:
        return list(mended_code(run, algorithm, network, None, None, trust_code=False))

    first, second = (type("Bonus", (Bonus,), {"default_network": network}) for network in (narrow, wide))
    runs = []
    for name, network, whose in (("own", None, "class"), ("ships", "mlp", False), ("given", narrow, True)):
        config, code, _ = checked_config("CartPole-v1", first, network, None, (), {})
        runs.append(rundir.create(name, {"created": 1.0, "config": config.to_json(), "state": "stopped", "code": {
            "network": whose}}, code=code))
    own, ships, given = runs
    capsys.readouterr()
    assert mended(own, first) == mended(own, Bonus) == mended(ships, second) == mended(given, first) == []
    assert capsys.readouterr().out == ""
    assert mended(own, second) == mended(own, second, wide) == ["network.pkl"]
    said = "own goes on with the default_network of the class, wide, in place of the network that it had."
    assert capsys.readouterr().out.count(said) == 1
    assert mended(given, second) == []
    said = "given keeps the network that it had, and not the default_network of the class, wide: network=wide gives it "
    assert said in capsys.readouterr().out


def test_a_class_that_was_changed_since_its_import_is_not_trained_with_the_fields_of_then() -> None:
    description = described(Bonus.Config, taken=TAKEN)
    check_described(Bonus, description)
    edited = type("Bonus", (Bonus,), {"Config": type("Config", (Bonus.Config,), {
        "__annotations__": {"bonus": "float"}, "bonus": 0.05})})
    with pytest.raises(AlgorithmFailed, match=r"has bonus=0\.05 in its file, and had bonus=0\.01 when it was imported"):
        check_described(edited, description)
    del description["fields"]["patience"]
    with pytest.raises(AlgorithmFailed, match="has patience=None in its file, and had no patience when"):
        check_described(Bonus, description)


@pytest.mark.parametrize(("base", "kind", "said"), [
    (wb.ReplayConfig, "float", "has base=wb.ReplayConfig in its file, and had base=wb.LearningConfig when"),
    (wb.LearningConfig, "int", "has kind of bonus='int' in its file, and had kind of bonus='float' when"),
])
def test_another_base_and_another_kind_are_refused_too(base: type, kind: str, said: str) -> None:
    def of(base: type, kind: str) -> Any:
        return type("Mine", (), {"Config": type("Config", (base,), {"__annotations__": {"bonus": kind}, "bonus": 1})})

    description = described(of(wb.LearningConfig, "float").Config, taken=TAKEN)
    with pytest.raises(AlgorithmFailed, match=said):
        check_described(of(base, kind), description)


@pytest.mark.parametrize(("name", "meant"), [("min", "low"), ("max", "high"), ("liv", "live")])
def test_a_setting_refuses_what_it_does_not_know(name: str, meant: str) -> None:
    with pytest.raises(UnknownName, match=f"unknown argument of setting '{name}'. Did you mean '{meant}'"):
        wb.setting(0.1, "weight", **{name: 1})


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
    '{"trains": "LearningConfig", "fields": {"x": {"kind": "int", "default": 1, "low": 1' + "0" * 400 + "}}}",
    '{"trains": "LearningConfig", "fields": {"\u212a": {"kind": "int", "default": 1}}}',
    '{"trains": "LearningConfig", "fields": {"batch_size": {"kind": "float", "default": Infinity}}}',
    '{"trains": "LearningConfig", "fields": {"learning_rate": {"kind": "float", "default": 1.0, "low": 0, "high": 9}}}',
    '{"trains": "LearningConfig", "fields": {"optimizer": {"kind": "str", "default": "sgd"}}}',
    '{"trains": "LearningConfig", "fields": {"search": {"kind": "int", "default": 1}}}',
    '{"trains": "LearningConfig", "fields": {"x": {"kind": "int", "default": 1, "help": "\\u001b[31m"}}}',
    '{"trains": "LearningConfig", "fields": {}, "search": 3}',
])
def test_a_description_from_a_file_that_is_none_is_refused(hostile: str) -> None:
    with pytest.raises(InvalidInput):
        config_class(hostile)()

"""An exported policy of a class of one's own is used by whoever has the class: files and code meet in the call."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from torch import nn

import workbench as wb
from tests.played import checkpoint_in, code_of
from tests.playing.test_exported import played
from tests.playing.test_learnt_beside_the_network import Biased
from workbench import algorithms, checkpoints, networks
from workbench.checkpoints.checkpoint import OWN_NETWORK
from workbench.config import RunConfig, settings
from workbench.config.own_algorithm import named_algorithm
from workbench.environments.adapters.wrapping import Wrapped
from workbench.errors import AlgorithmFailed, InvalidInput, NetworkFailed, ShapeMismatch
from workbench.playing.given_classes import with_classes
from workbench.rundir import RunDirectory, write_atomically

LEFT, RIGHT = [9.0, -9.0], [-9.0, 9.0]


class Renamed(Biased):
    pass


def with_field() -> type:
    class Config(wb.LearningConfig):
        beta: float = 0.1

    return type("Biased", (Biased,), {"Config": Config})


class Small(nn.Module):
    """A network without memory."""

    def __init__(self, spec: Any, heads: Any = None) -> None:
        super().__init__()
        self.policy, self.value = nn.Linear(4, spec.num_actions), nn.Linear(4, 1)

    def initial_state(self, batch: int) -> tuple[()]:
        return ()

    def forward(self, observation: Any, action: Any, reward: Any, start: Any, state: Any) -> Any:
        return algorithms.PolicyValueOutput(self.policy(observation), self.value(observation).squeeze(-1)), state


class Wide(Small):
    """Its policy has a layer more."""

    def __init__(self, spec: Any, heads: Any = None) -> None:
        super().__init__(spec)
        self.policy = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, spec.num_actions))


def of_biased(folder: Path, bias: list[float]) -> wb.Checkpoint:
    """A checkpoint in a run of CartPole by Biased, which has learnt that bias beside its network."""
    name, own = named_algorithm(Biased, taken=settings(RunConfig))
    config = RunConfig.build("CartPole-v1", algorithm=name, own_algorithm=own)
    plain = checkpoint_in(folder, "CartPole-v1")
    run, spec = RunDirectory(folder / "run"), plain.spec
    for file, data in code_of(algorithm=Biased).items():
        write_atomically(run.code / file, data)
    run.write(config=config.to_json(), state="finished", created=0.0)
    heads = Biased(config.hyperparameters, spec=spec).heads
    weights = {key: np.zeros_like(value) for key, value in
               networks.build(None, spec=spec, heads=heads, seed=0).state_dict().items()}
    return checkpoints.write(
        run.checkpoints, frames=2400, requested=True,
        groups={"model": weights, "algorithm": {"bias": np.array(bias, np.float32)},
                "optimizer": {"step": np.zeros(1, np.float32)}},
        meta={**plain.meta, "config": config.to_json(), "network": "default"})


@pytest.mark.parametrize("bias", [LEFT, RIGHT])
def test_an_exported_policy_plays_as_in_its_run_where_its_class_is_given(
    home: Path, tmp_path: Path, bias: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    there = wb.export_policy(of_biased(tmp_path, bias), target=tmp_path / "mine")
    said = capsys.readouterr().out
    assert "mine will hold weights without code, and not the algorithm of your own" in said
    assert "wb.evaluate('" in said and "mine', algorithm=Biased)" in said
    card = (there / "README.md").read_text()
    assert "wb.evaluate('mine', episodes=100, algorithm=Biased)" in card
    assert "wb.launch('CartPole-v1', algorithm=Biased, checkpoint='mine')" in card
    env = gymnasium.make("CartPole-v1")
    policy = wb.load_policy(there, env=env, algorithm=Biased)
    observation, _ = env.reset(seed=0)
    assert policy.act(observation) == bias.index(9.0), "what it learnt beside the network is exported, too"


@pytest.mark.full
def test_every_call_that_plays_takes_it_and_nothing_of_it_is_left(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    there = wb.export_policy(of_biased(tmp_path, RIGHT), target=tmp_path / "mine")
    env = gymnasium.make("CartPole-v1")
    alone = played(wb.load_policy(there, env=env, algorithm=Biased), env, seed=3)
    evaluation = wb.evaluate(there, episodes=1, seed=3, algorithm=Biased)
    assert (evaluation.mean, evaluation.lengths) == (alone[0], (alone[1],))
    rollout = wb.rollout(there, max_steps=5, algorithm=Biased, render=False)
    assert rollout.actions.tolist() == [1] * rollout.steps
    assert rollout.branch(1, algorithm=Biased).actions.tolist() == rollout.actions.tolist()
    with wb.play(there, algorithm=Biased) as game:
        assert game.advice is not None and game.advice.action == 1
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(("given", "said"), [
    ({}, r"was trained with the algorithm Biased of its user's own, .* wb\.evaluate\('.*mine', algorithm=Biased\)\.$"),
    ({"algorithm": Renamed}, "algorithm=Renamed: .*mine was trained by a class called Biased. Give that class"),
    ({"algorithm": "ppo"}, "algorithm=ppo: .*mine was trained by a class called Biased"),
    ({"algorithm": with_field}, r"Biased.Config has beta=0\.1, and had no beta when .*mine was trained"),
    ({"algorithm": Biased, "network": Small}, r"mine has a network that ships with the workbench \(default\)"),
    ({"algorithm": Biased, "network": "mlp"}, "network='mlp' must be a class or function that makes one"),
])  # fmt: skip
def test_a_class_that_is_missing_or_does_not_fit_is_named(
    home: Path, tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    there = wb.export_policy(of_biased(tmp_path, LEFT), target=tmp_path / "mine")
    made = {name: one() if one is with_field else one for name, one in given.items()}
    for call in (lambda: wb.evaluate(there, episodes=1, **made), lambda: wb.rollout(there, **made),
                 lambda: wb.play(there, **made),
                 lambda: wb.load_policy(there, env=gymnasium.make("CartPole-v1"), **made)):
        with pytest.raises(InvalidInput, match=said):
            call()


def test_a_class_that_nobody_needs_is_refused(home: Path, tmp_path: Path) -> None:
    inside = of_biased(tmp_path, LEFT)
    with pytest.raises(InvalidInput, match="lies in its run, which has the class Biased. Leave out algorithm="):
        wb.evaluate(inside, algorithm=Biased)
    shipped = checkpoint_in(tmp_path / "shipped", "CartPole-v1")
    with pytest.raises(InvalidInput, match="was trained by vtrace, which ships with the workbench"):
        wb.rollout(shipped, algorithm=Biased)
    with pytest.raises(InvalidInput, match="nobody plays in CartPole-v1 but you"):
        wb.play("CartPole-v1", algorithm=Biased)


def test_a_network_of_ones_own_is_given_in_the_same_way(home: Path, tmp_path: Path) -> None:
    inside = checkpoint_in(tmp_path, "CartPole-v1", network=Small)
    inside = dataclasses.replace(inside, meta={**inside.meta, "network": OWN_NETWORK})
    there = wb.export_policy(inside, target=tmp_path / "mine")
    assert "wb.load_policy('mine', env=env, network=YourNetwork)" in (there / "README.md").read_text()
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(InvalidInput, match=r"wb\.evaluate\('.*mine', network=YourNetwork\)"):
        wb.load_policy(there, env=env)
    with pytest.raises(NetworkFailed, match="are not of the network Wide.*give its class, network=..., as it was"):
        wb.load_policy(there, env=env, network=Wide)
    ours, theirs = (played(wb.load_policy(one, env=env, **given), env, seed=3)
                    for one, given in ((there, {"network": Small}), (inside, {})))
    assert ours == theirs


CELL = """
import workbench as wb
class Reinforce(wb.Algorithm):
    def act(self, output, **given):
        return super().act(output._replace(policy_logits=0 * output.policy_logits), **given)
"""


def test_a_class_typed_in_a_cell_travels_to_the_process_that_plays(home: Path, tmp_path: Path) -> None:
    cell: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL, cell)
    name, own = named_algorithm(cell["Reinforce"], taken=settings(RunConfig))
    plain = checkpoint_in(tmp_path, "CartPole-v1")
    config = RunConfig.build("CartPole-v1", algorithm=name, own_algorithm=own)
    one = checkpoints.write(
        RunDirectory(tmp_path / "run").checkpoints, frames=2400, requested=True, groups={"model": plain.load("model")},
        meta={**plain.meta, "config": config.to_json(), "network": "default"})
    there = checkpoints.export(one, tmp_path / "mine", weights_only=True)
    assert wb.evaluate(there, episodes=1, algorithm=cell["Reinforce"]).mean < 12, "it pushes left, again and again"


def test_no_folder_is_left_where_the_block_raises(home: Path, tmp_path: Path) -> None:
    there = checkpoints.at(wb.export_policy(of_biased(tmp_path, LEFT), target=tmp_path / "mine"))
    with pytest.raises(KeyError), with_classes(there, algorithm=Biased) as complete:
        assert complete.code is not None and (complete.code / "algorithm.pkl").stat().st_mode & 0o077 == 0
        raise KeyError
    assert not complete.code.exists()


CORRIDOR = """
import gymnasium, numpy
class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, length=6):
        self.length = length
    def reset(self, *, seed=None, options=None):
        self.at = 0
        return numpy.zeros(3, numpy.float32), {}
    def step(self, action):
        self.at += 1
        return numpy.zeros(3, numpy.float32), 1.0, self.at == self.length, False, {}
class Wider(Corridor):
    observation_space = gymnasium.spaces.Box(-1, 1, (4,), numpy.float32)
class Slow(gymnasium.Wrapper):
    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        return observation, reward - 0.5, *rest
"""


def typed_cell() -> dict[str, Any]:
    cell: dict[str, Any] = {"__name__": "__main__"}
    exec(CORRIDOR, cell)
    return cell


def in_corridor(folder: Path, cell: dict[str, Any], *, wrapped: bool = False) -> wb.Checkpoint:
    """A checkpoint in a run of a corridor of four steps."""
    plain = checkpoint_in(folder, cell["Corridor"], environment_options={"length": 4})
    run, config = RunDirectory(folder / "run"), plain.config
    if wrapped:
        maker = Wrapped(cell["Corridor"], (cell["Slow"],))
        config = config.replaced(wrappers=maker.names)
        write_atomically(run.code / "environment.pkl", code_of(environment=maker)["environment.pkl"])
        run.write(config=config.to_json(), state="finished", created=0.0)
    return checkpoints.write(run.checkpoints, frames=2400, requested=True, groups={"model": plain.load("model")},
                             meta={**plain.meta, "config": config.to_json()})


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_environment_typed_in_a_cell_is_given_to_every_call_that_plays(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], wrapped: bool
) -> None:
    cell = typed_cell()
    maker = (lambda length: cell["Slow"](cell["Corridor"](length))) if wrapped else cell["Corridor"]
    inside = in_corridor(tmp_path, cell, wrapped=wrapped)
    there = wb.export_policy(inside, target=tmp_path / "mine")
    name = "make_environment" if wrapped else "mine"
    assert f"mine', environment={name})" in capsys.readouterr().out
    card = (there / "README.md").read_text()
    assert f"env = {name}(**{{'length': 4}})" in card
    assert f"wb.evaluate('mine', episodes=100, environment={name})" in card
    assert f"wb.launch({name}, algorithm='vtrace', environment_options={{'length': 4}}, checkpoint='mine')" in card
    assert "gymnasium.make" not in card
    around = "its user's own, with Slow around it .make_environment: a" if wrapped else "environment mine of its user's"
    for call in (lambda: wb.evaluate(there), lambda: wb.rollout(there), lambda: wb.play(there)):
        with pytest.raises(InvalidInput, match=around):
            call()
    if wrapped:
        with pytest.raises(InvalidInput, match="=Corridor is a class, and .* with Slow around it. Give a function"):
            wb.evaluate(there, environment=cell["Corridor"])
    reward = 0.5 if wrapped else 1.0
    assert wb.evaluate(there, episodes=2, environment=maker).returns == (4 * reward, 4 * reward)
    rollout = wb.rollout(there, environment=maker)
    assert (rollout.steps, rollout.episode_return) == (4, 4 * reward)
    assert rollout.branch(1, action=0, environment=maker).steps == 4
    with wb.play(there, environment=maker) as game:
        assert game.step(0).reward == reward
    assert wb.load_policy(there, env=maker(4)).act(np.zeros(3, np.float32)) in (0, 1)
    assert "has no wrapper" not in capsys.readouterr().out
    if wrapped:
        wb.load_policy(there, env=cell["Corridor"](4))
        assert "trained with Slow around its environment, and env has no wrapper" in capsys.readouterr().out
    assert wb.evaluate(inside, episodes=1).returns == (4 * reward,), "in its run it needs nothing"


def test_an_environment_that_does_not_fit_is_named(home: Path, tmp_path: Path) -> None:
    cell = typed_cell()
    inside = in_corridor(tmp_path, cell)
    there = wb.export_policy(inside, target=tmp_path / "mine")
    with pytest.raises(ShapeMismatch, match=r"was trained in mine with observation_shape=\(3,\), and .* \(4,\)"):
        wb.evaluate(there, episodes=1, environment=cell["Wider"])
    with pytest.raises(InvalidInput, match=r"^environment=<lambda> is called with what .*mine was trained with, .*"
                       r"=\{'length': 4\}. Give the class, or a function that takes these: unknown option of mine"):
        wb.evaluate(there, environment=lambda: cell["Corridor"](4))
    for given in ("CartPole-v1", cell["Corridor"]()):
        with pytest.raises(InvalidInput, match="must be a class or a function that makes the environment"):
            wb.evaluate(there, environment=given)
    with pytest.raises(InvalidInput, match="lies in its run, which has its environment"):
        wb.rollout(inside, environment=cell["Corridor"])
    shipped = checkpoint_in(tmp_path / "shipped", "CartPole-v1")
    with pytest.raises(InvalidInput, match="was trained in CartPole-v1, which is made by its name"):
        wb.rollout(shipped, environment=cell["Corridor"])


def raising(*_: Any, **__: Any) -> Any:
    raise KeyError("mine raises")


@pytest.mark.parametrize(("broken", "said"), [
    ({"__init__": raising}, r"Biased\(\.\.\.\) raised KeyError: 'mine raises'"),
    ({"act": raising}, r"act\(\.\.\.\) raised KeyError: 'mine raises'"),
    ({"act": lambda *_, **__: 7}, r"act\(\.\.\.\) returns \(actions, behaviour fields\), not 7"),
], ids=["constructor", "act", "what act returns"])
def test_what_a_given_class_raises_is_told_as_its_own(
    home: Path, tmp_path: Path, broken: dict[str, Any], said: str
) -> None:
    there = wb.export_policy(of_biased(tmp_path, LEFT), target=tmp_path / "mine")
    given = type("Biased", (Biased,), broken)

    def act_by_hand() -> None:
        env = gymnasium.make("CartPole-v1")
        wb.load_policy(there, env=env, algorithm=given).act(env.reset()[0])

    for call in (lambda: wb.evaluate(there, episodes=1, algorithm=given), act_by_hand):
        with pytest.raises(AlgorithmFailed, match=said):
            call()


def test_a_given_network_that_breaks_a_rule_is_told_which(home: Path, tmp_path: Path) -> None:
    inside = checkpoint_in(tmp_path, "CartPole-v1", network=Small)
    inside = dataclasses.replace(inside, meta={**inside.meta, "network": OWN_NETWORK})
    there = wb.export_policy(inside, target=tmp_path / "mine")
    with pytest.raises(NetworkFailed, match="has no method initial_state"):
        wb.load_policy(there, env=gymnasium.make("CartPole-v1"), network=lambda spec: nn.Linear(2, 2))
    with pytest.raises(InvalidInput, match="must be the class Biased, by which .* was trained"):
        wb.evaluate(of_and_exported(tmp_path / "other"), algorithm=object())


def of_and_exported(folder: Path) -> Path:
    folder.mkdir()
    return wb.export_policy(of_biased(folder, LEFT), target=folder / "mine")


def test_no_module_is_imported_to_learn_whether_a_strangers_environment_needs_a_class(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted_here.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    inside = checkpoint_in(tmp_path, "CartPole-v1")
    config = inside.config.replaced(environment="planted_here:Trap-v0")
    one = dataclasses.replace(inside, meta={**inside.meta, "config": config.to_json()})
    there = checkpoints.export(one, tmp_path / "mine", weights_only=True)
    assert wb.load_policy(there, env=gymnasium.make("CartPole-v1"))
    assert "planted_here" not in sys.modules


@pytest.mark.parametrize("kind", ["algorithm", "network"])
def test_a_class_is_given_in_the_place_of_a_torn_one(home: Path, tmp_path: Path, kind: str) -> None:
    given = {"algorithm": Biased, "network": Small}[kind]
    inside = of_biased(tmp_path, [0.0, 9.0]) if kind == "algorithm" else checkpoint_in(tmp_path, network=Small)
    if kind == "network":
        inside = dataclasses.replace(inside, meta={**inside.meta, "network": OWN_NETWORK})
    file = RunDirectory(tmp_path / "run").code / f"{kind}.pkl"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(InvalidInput, match=rf"of its user's own, and its files hold no code.*, {kind}="):
        wb.evaluate(inside, episodes=1)
    assert len(wb.evaluate(inside, episodes=1, **{kind: given}).returns) == 1

"""Whoever plays a checkpoint of a user's own algorithm acts by all that it has learnt, as inference in its run does."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import workbench as wb
from workbench import checkpoints, networks, rundir
from workbench.config import RunConfig, settings
from workbench.config.own_algorithm import named_algorithm
from workbench.environment_spec import EnvironmentSpec
from workbench.environments.adapters import code_by_value
from workbench.errors import AlgorithmFailed, EnvironmentFailed
from workbench.learner.devices.device import Device
from workbench.learner.training import checkpointing
from workbench.learner.training.trainer import Trainer
from workbench.playing.worker import evaluate
from workbench.policies import frozen_opponent
from workbench.policies.player import Player, load_policy
from workbench.rundir import RunDirectory, sealed
from workbench.trajectory import Flags, StepBatch

SPEC = EnvironmentSpec("x", (4,), "float32", 2)


class Biased(wb.Algorithm):
    """The policy's logits get a bias that is learnt beside the network."""

    def __init__(self, config: Any, *, spec: EnvironmentSpec) -> None:
        super().__init__(config, spec=spec)
        self.bias = nn.Parameter(torch.zeros(spec.actions.parameters))

    def parameters(self) -> list[nn.Parameter]:
        return [self.bias]

    def state(self) -> dict[str, Tensor]:
        return {"bias": self.bias.detach().clone()}

    @torch.no_grad()
    def load_state(self, state: Any) -> None:
        self.bias.copy_(state["bias"])

    def act(self, output: Any, **given: Any) -> Any:
        return super().act(output._replace(policy_logits=output.policy_logits + self.bias.detach()), **given)

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        output = self.outputs(network, batch)
        log_probs = self.distribution.log_prob(output.policy_logits[:-1] + self.bias, actions=batch.action[:-1])
        total = output.value.square().mean() - log_probs.mean()
        return wb.Loss(total, {"loss": total.detach()})


class Forgetful(Biased):
    """Keeps nothing under the name that it looks for."""

    def state(self) -> dict[str, Tensor]:
        return {"offset": self.bias.detach().clone()}


def test_parameters_are_where_the_algorithm_is() -> None:
    one = Biased(wb.LearningConfig(), spec=SPEC)
    held = [one.bias]
    assert one.to("meta") is one
    assert one.bias is held[0] and held[0].device.type == "meta" and isinstance(one.bias, nn.Parameter)


def test_a_layer_with_memory_and_parameters_made_late_are_kept_where_they_are() -> None:
    class Recurrent(Biased):
        def prepare(self, network: nn.Module) -> None:
            self.memory = nn.GRU(2, 2)

        def parameters(self) -> list[nn.Parameter]:
            return [self.bias, *self.memory.parameters()]

        def state(self) -> dict[str, Tensor]:
            return {"bias": self.bias.detach().clone(), **self.memory.state_dict()}

        @torch.no_grad()
        def load_state(self, state: Any) -> None:
            self.bias.copy_(state["bias"])
            self.memory.load_state_dict({name: value for name, value in state.items() if name != "bias"})

    wb.check_algorithm(Recurrent)
    one = Recurrent(wb.LearningConfig(), spec=SPEC)
    network = networks.build(None, spec=SPEC, heads=one.heads, seed=0)
    assert len(Trainer(network, one, Device("cpu", precision="fp32"), wb.LearningConfig()).parameters) > 5


def trained(kind: type[wb.Algorithm], bias: list[float]) -> RunDirectory:
    """A run whose newest checkpoint has learnt that bias."""
    name, described = named_algorithm(kind, taken=settings(RunConfig))
    config = RunConfig.build("x", algorithm=name, own_algorithm=described)
    run = rundir.create("run", {"config": config.to_json(), "created": time.time(), "state": "stopped"})
    run.code.mkdir(mode=0o700, exist_ok=True)
    code = run.code / "algorithm.pkl"
    code.write_bytes(sealed.sealed("algorithm.pkl", code_by_value.dumps(kind, imports=[])))
    code.chmod(0o600)
    algorithm = kind(config.hyperparameters, spec=SPEC)
    network = networks.build(None, spec=SPEC, heads=algorithm.heads, seed=0)
    trainer = Trainer(network, algorithm, Device("cpu", precision="fp32"), config.hyperparameters)
    with torch.no_grad():
        algorithm.bias.copy_(torch.tensor(bias))
    meta = {"frames": 10, "steps": 10, "updates": 1, "time_s": 1.0, "episodes": 0, "episode_return": None,
            "environment": SPEC.to_json(), "config": config.to_json(), "network": "default", "parameters": 1,
            "reason": "requested", "trained": []}
    checkpoints.write(run.checkpoints, frames=10, groups=checkpointing.groups_of(trainer, torch.Generator()), meta=meta,
                      requested=True)
    return run


@pytest.mark.parametrize("action", [0, 1])
def test_a_player_and_an_opponent_act_by_it(home: Path, action: int) -> None:
    run = trained(Biased, [-9.0, 9.0] if action else [9.0, -9.0])
    seen = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
    step = StepBatch(seen, np.zeros(32, np.float32), np.full(32, int(Flags.START), np.uint8))
    other = rundir.create("other", {"config": run.read()["config"], "created": time.time()})
    newest = checkpoints.every(run.checkpoints)[-1]
    for checkpoint in (newest, frozen_opponent.kept(other, str(newest.path))):
        assert (Player(load_policy(checkpoint), num_envs=32, seed=0).act(step, greedy=True) == action).all()


def test_a_player_s_episodes_begin_without_a_previous_action(home: Path) -> None:
    player = Player(load_policy(checkpoints.every(trained(Biased, [-9.0, 9.0]).checkpoints)[-1]), num_envs=2, seed=0)
    seen, reward = np.zeros((2, 4), np.float32), np.zeros(2, np.float32)
    given = []
    for start in ([True, True], [False, False], [False, True]):
        action = player.act(StepBatch(seen, reward, np.where(start, int(Flags.START), 0).astype(np.uint8)), greedy=True)
        given.append(player.inputs[1][0].tolist())
        assert (action == 1).all()
    assert given == [[0, 0], [1, 1], [1, 0]]
    assert player.chosen.tolist() == [1, 1]


def test_a_player_that_is_reseeded_draws_as_a_new_one(home: Path) -> None:
    policy = load_policy(checkpoints.every(trained(Biased, [0.0, 0.0]).checkpoints)[-1])
    step = StepBatch(np.zeros((64, 4), np.float32), np.zeros(64, np.float32), np.full(64, int(Flags.START), np.uint8))
    used, new = Player(policy, num_envs=64, seed=0), Player(policy, num_envs=64, seed=7)
    first = used.act(step, greedy=False)
    used.reseed(7)
    expected = new.act(step, greedy=False)
    assert (used.act(step, greedy=False) == expected).all() and (first != expected).any()


def test_an_agent_that_has_left_does_nothing(home: Path) -> None:
    player = Player(load_policy(checkpoints.every(trained(Biased, [-9.0, 9.0]).checkpoints)[-1]), num_envs=2, seed=0)
    flags = np.array([0, int(Flags.ABSENT)], np.uint8)
    step = StepBatch(np.zeros((2, 4), np.float32), np.zeros(2, np.float32), flags)
    assert player.act(step, greedy=True).tolist() == [1, 0]


def test_a_class_that_cannot_load_it_is_named(home: Path) -> None:
    run = trained(Forgetful, [0.0, 0.0])
    with pytest.raises(AlgorithmFailed, match=r"load_state\(...\) for a checkpoint that has offset raised KeyError"):
        load_policy(checkpoints.every(run.checkpoints)[-1])


def test_an_evaluation_does_not_wait_for_ever_for_a_game_that_others_play_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    player = Player(load_policy(checkpoints.every(trained(Biased, [0.0, 0.0]).checkpoints)[-1]), num_envs=2, seed=0)
    first = StepBatch(np.zeros((2, 4), np.float32), np.zeros(2, np.float32), np.full(2, int(Flags.START), np.uint8))
    left = StepBatch(first.observation, first.reward, np.array([int(Flags.ABSENT), 0], np.uint8))
    game = SimpleNamespace(num_envs=2, spec=SPEC, reset=lambda seed: first, step=lambda action: left)
    player.theirs = np.array([False, True])
    monkeypatch.setattr(evaluate, "LONGEST_GAME", 50)
    with pytest.raises(EnvironmentFailed, match="goes on after 50 steps without the agent, which has left it"):
        evaluate.play_episodes(player, game, episodes=1, seed=0, greedy=True)

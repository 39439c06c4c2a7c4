"""PopArt is that of its paper, written out in Python's floats; values stay as they are when statistics move."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.algorithms.no_waiting import NoWaiting
from tests.algorithms.unrolls import random_unroll
from tests.learner.scaled_rewards import learn
from workbench import algorithms, checkpoints, networks
from workbench.algorithms import Batch, Loss, PolicyValueOutput
from workbench.algorithms.popart import PopArtValue, value_head
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import NetworkFailed
from workbench.learner.devices.device import Device
from workbench.learner.inference.published_weights import PublishedPolicy
from workbench.learner.training import checkpointing
from workbench.learner.training.trainer import Trainer

SPEC = EnvironmentSpec("vector", (3,), "float32", 2)
BASELINES = ["vtrace", "ppo", "awr", "vmpo"]
FIELDS = {"unroll_length": 5, "batch_size": 4, "max_abs_reward": 0.0, "normalize_values": True, "popart_step_size": 0.3}


class SlowPopArt:
    """The statistics of van Hasselt et al. 2016 and their rescaling, without the step of descent, for one output."""

    def __init__(self, weight: list[float], bias: float, beta: float) -> None:
        self.weight, self.bias, self.beta = weight, bias, beta
        self.mean, self.deviation, self.second, self.t = 0.0, 1.0, 0.0, 0

    def update(self, targets: list[float]) -> None:
        self.t += 1
        step = self.beta / (1 - (1 - self.beta) ** self.t)  # of an average without a bias to its beginning
        mean = (1 - step) * self.mean + step * sum(targets) / len(targets)
        self.second = (1 - step) * self.second + step * sum(target**2 for target in targets) / len(targets)
        deviation = math.sqrt(self.second - mean**2)
        self.weight = [weight * self.deviation / deviation for weight in self.weight]
        self.bias = (self.deviation * self.bias + self.mean - mean) / deviation
        self.mean, self.deviation = mean, deviation

    def value(self, features: list[float]) -> float:
        normalised = sum(w * h for w, h in zip(self.weight, features, strict=True)) + self.bias
        return self.deviation * normalised + self.mean


@pytest.mark.parametrize("beta", [1e-3, 0.1, 1.0])
def test_statistics_and_weights_are_those_of_the_paper(beta: float) -> None:
    random, head = np.random.default_rng(0), PopArtValue(6)
    slow = SlowPopArt(head.weight[0].tolist(), head.bias.item(), beta)
    features = random.normal(size=(5, 6)).astype(np.float32)
    for number in range(30):
        targets = random.normal(10.0 * number, 1 + 5.0 * number, (4, 3)).astype(np.float32)
        head.follow(torch.from_numpy(targets), step_size=beta)
        slow.update(targets.flatten().tolist())
        assert float(head.mean) == pytest.approx(slow.mean, rel=1e-9, abs=1e-9)
        assert float(head.moments.deviation) == pytest.approx(slow.deviation, rel=1e-9)
        assert head.weight[0].tolist() == pytest.approx(slow.weight, rel=1e-4)
        assert head.bias.item() == pytest.approx(slow.bias, rel=1e-4, abs=1e-5)
    values = head(torch.from_numpy(features))[:, 0].tolist()
    assert values == pytest.approx([slow.value(row) for row in features.tolist()], abs=1e-4)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_no_value_changes_when_the_statistics_do(scale: float) -> None:
    torch.manual_seed(0)
    head, features = PopArtValue(64), torch.randn(100, 64)
    for number in range(200):
        before = head(features)
        head.follow(scale * torch.randn(20, 8) * (1 + number) + scale * number, step_size=0.05)
        size = max(1.0, float(head.moments.deviation), float(head.mean))  # of numbers that are added up in float32
        torch.testing.assert_close(head(features), before, rtol=1e-5, atol=1e-5 * size)
    assert float(head.moments.deviation) > scale and head(features).dtype == torch.float32


def test_targets_that_are_not_finite_change_nothing() -> None:
    head = PopArtValue(3)
    for _ in range(2):
        before = {name: value.clone() for name, value in head.state_dict().items()}
        for wrong in (math.nan, math.inf):
            head.follow(torch.tensor([1.0, wrong]), step_size=0.1)
            assert all(torch.equal(value, head.state_dict()[name]) for name, value in before.items())
        head.follow(torch.tensor([1.0, 3.0]), step_size=0.1)
    assert float(head.mean) == pytest.approx(2.0)


def test_targets_that_are_all_the_same_leave_a_deviation_to_divide_by() -> None:
    head = PopArtValue(3)
    head.follow(torch.full((4,), 7.0), step_size=0.1)
    assert 0 < float(head.moments.deviation) < 1e-3 and float(head.per_deviation) == pytest.approx(1e4)


# --- in training ------------------------------------------------------------------------------------------------------


def config_of(algorithm: str, **more: Any) -> RunConfig:
    return RunConfig.build("vector", algorithm=algorithm, **{**FIELDS, **more})


def trainer_of(config: RunConfig) -> Trainer:
    algorithm = algorithms.build(config, spec=SPEC)
    network = networks.build("mlp", spec=SPEC, heads=algorithm.heads, seed=0)
    return Trainer(network, algorithm, Device("cpu", precision="fp32"), config.hyperparameters)


def batch_of(trainer: Trainer, seed: int, *, scale: float = 1000.0) -> Batch:
    random = np.random.default_rng(seed)
    unrolls = [random_unroll(SPEC, length=5, rng=random, behaviour=trainer.algorithm.behaviour_fields())
               for _ in range(4)]
    batch = algorithms.collate(unrolls)
    batch.reward *= scale
    return batch


def updated(trainer: Trainer, config: RunConfig, number: int) -> Loss:
    told: list[str] = []
    loss = trainer.update(batch_of(trainer, number), config=config.hyperparameters, learning_rate=1e-3,
                          on_bad=told.append)
    assert loss is not None and not told
    return loss


def loss_of(trainer: Trainer, config: RunConfig, batch: Batch) -> Loss:
    return trainer.algorithm.loss(trainer.network, batch=batch, config=config.hyperparameters)  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", BASELINES)
def test_the_loss_is_that_of_normalised_values_and_targets(algorithm: str) -> None:
    more = {"normalize_advantages": False} if algorithm == "ppo" else {}
    config = config_of(algorithm, **more)
    trainer = trainer_of(config)
    for number in range(3):
        updated(trainer, config, number)
    batch = batch_of(trainer, 9)
    loss = loss_of(trainer, config, batch)
    head = value_head(trainer.network)
    mean, deviation = float(head.mean), float(head.moments.deviation)
    assert deviation > 100
    values = trainer.algorithm.outputs(trainer.network, batch).value[:-1].detach()
    normal, targets = (values - mean) / deviation, (loss.value_targets - mean) / deviation
    expected = 0.5 * 0.5 * (targets - normal).square().mean()
    torch.testing.assert_close(loss.scalars["baseline_loss"], expected, rtol=1e-4, atol=1e-6)
    assert float(loss.scalars["value_deviation"]) == pytest.approx(deviation)

    plain = algorithms.build(config.replaced(normalize_values=False), spec=SPEC)
    of_returns = plain.loss(trainer.network, batch=batch, config=config.hyperparameters)
    torch.testing.assert_close(of_returns.value_targets, loss.value_targets)
    if algorithm in ("vtrace", "ppo"):  # linear in the advantages; the others normalise them, or weigh by them
        torch.testing.assert_close(loss.scalars["policy_loss"], of_returns.scalars["policy_loss"] / deviation,
                                   rtol=1e-3, atol=1e-6)
    (gradient,) = torch.autograd.grad(loss.total, [head.bias])
    slow = 0.5 * (normal - targets).mean()
    assert float(gradient) == pytest.approx(float(slow), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("algorithm", BASELINES)
def test_the_first_update_only_measures_and_each_one_moves_the_statistics(algorithm: str) -> None:
    config = config_of(algorithm)
    trainer = trainer_of(config)
    head = value_head(trainer.network)
    deviations, before = [], head.weight.clone()
    for number in range(3):
        loss = updated(trainer, config, number)
        assert (float(loss.scalars["baseline_loss"]) == 0) == (number == 0)
        deviations.append(float(head.moments.deviation))
        if number == 0:
            torch.testing.assert_close(head.weight, before / deviations[0])
            assert float(head.mean) == pytest.approx(float(loss.value_targets.mean()), rel=1e-5)
    assert len(set(deviations)) == 3 and min(deviations) > 100


@pytest.mark.parametrize("algorithm", BASELINES)
def test_neither_the_loss_nor_the_statistics_wait_for_the_device(algorithm: str) -> None:
    config = config_of(algorithm, normalize_rewards=True)
    trainer = trainer_of(config)
    batch, hyperparameters = batch_of(trainer, 0), config.hyperparameters
    with NoWaiting():
        trainer.algorithm.before_update(batch, config=hyperparameters)
        loss = loss_of(trainer, config, batch)
        loss.total.backward()
        trainer.algorithm.after_update(loss, config=hyperparameters)


def values_in(network: nn.Module) -> Tensor:
    observation = torch.linspace(-1, 1, 12).view(1, 4, 3)
    with torch.no_grad():
        output, _ = network(observation, torch.zeros(1, 4, dtype=torch.int64), torch.zeros(1, 4),
                            torch.ones(1, 4, dtype=torch.bool), ())
    assert isinstance(output.value, Tensor)
    return output.value


def test_inference_gets_statistics_and_weights_together() -> None:
    config = config_of("vtrace")
    trainer = trainer_of(config)
    policy = PublishedPolicy(trainer.network, version=0, device=Device("cpu", precision="fp32"))
    first = values_in(trainer.network)
    for number in range(2):
        updated(trainer, config, number)
    with policy.reading() as (network, _):
        assert torch.equal(values_in(network), first)
    policy.publish(2)
    with policy.reading() as (network, _):
        assert torch.equal(values_in(network), values_in(trainer.network))
    assert not torch.equal(values_in(trainer.network), first)


@pytest.mark.parametrize("algorithm", BASELINES)
def test_a_checkpoint_keeps_the_statistics_and_training_goes_on_from_it_exactly(tmp_path: Path, algorithm: str) -> None:
    config = config_of(algorithm, normalize_rewards=True)
    trainer, resumed = trainer_of(config), trainer_of(config)
    for number in range(2):
        updated(trainer, config, number)
    checkpoint = checkpoints.write(
        tmp_path, frames=1, groups=checkpointing.groups_of(trainer, torch.Generator()), requested=False,
        meta={"steps": 1, "updates": 2, "time_s": 1.0})
    checkpointing.restore(checkpoint, resumed, torch.Generator())
    resumed.updates = trainer.updates
    for one in (trainer, resumed):
        for number in (5, 6):
            updated(one, config, number)
    ours, theirs = (checkpointing.groups_of(one, torch.Generator()) for one in (trainer, resumed))
    assert "value.second_moment" in ours["model"] and "discounted_returns.variance" in ours["algorithm"]
    for group in ("model", "optimizer", "algorithm"):
        for name, value in ours[group].items():
            np.testing.assert_array_equal(theirs[group][name], value, f"{group} {name}")


class Own(nn.Module):
    """A user's network without memory."""

    def __init__(self, value: nn.Module) -> None:
        super().__init__()
        self.policy, self.value = nn.Linear(3, 2), value

    def initial_state(self, batch: int) -> tuple[Tensor, ...]:
        return ()

    def forward(self, observation: Tensor, *others: Any) -> tuple[PolicyValueOutput, tuple[Tensor, ...]]:
        return PolicyValueOutput(self.policy(observation), self.value(observation)[..., 0]), ()


def test_a_users_network_needs_a_head_that_normalises() -> None:
    config = config_of("vtrace")
    algorithm = algorithms.build(config, spec=SPEC)
    algorithm.prepare(Own(networks.PopArtValue(3)))
    with pytest.raises(NetworkFailed, match=r"networks\.PopArtValue\(features\) computes, and Own has none"):
        algorithm.prepare(Own(nn.Linear(3, 1)))


# --- what it is for ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["vtrace", *(pytest.param(name, marks=pytest.mark.full)
                                                   for name in ("ppo", "awr", "vmpo"))])
def test_values_of_thousands_are_learnt_with_normalisation_and_not_without(algorithm: str) -> None:
    """Measured: an error of 0.02 to 0.03 of the returns with either, of 0.98 to 0.99 without."""
    def error(**fields: bool) -> float:
        return learn(1000.0, updates=60, algorithm=algorithm, learning_rate=1e-2, **fields).value_error

    assert error() > 0.9
    assert error(normalize_values=True) < 0.2
    assert error(normalize_rewards=True) < 0.2

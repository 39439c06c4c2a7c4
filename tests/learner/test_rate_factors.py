"""Parts that learn at rates of their own: as slow copies with an optimizer each, live, frozen, recorded, resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import workbench as wb
from tests.learner.replaying import ReplayingDevice
from tests.learner.updates import UNROLL, VECTOR, batch_of, trainer_on, update, weights
from workbench import checkpoints, networks
from workbench.algorithms.sac.agent import SAC
from workbench.config import RunConfig, settings
from workbench.config.own_algorithm import described
from workbench.errors import AlgorithmFailed, NetworkFailed
from workbench.learner.devices.device import Device
from workbench.learner.training import checkpointing
from workbench.learner.training.trainer import Trainer

META = {"frames": 1, "steps": 1, "updates": 3, "time_s": 1.0, "episodes": 0, "episode_return": None}


class Parts(wb.Algorithm):
    """A policy gradient whose value learns at a rate of its own, from a torso that may be frozen; it draws noise."""

    class Config(wb.LearningConfig):
        value_factor: float = wb.setting(3.0, "of the value's learning rate", low=0.0, high=100.0, live=True)
        freezes: bool = False
        counts: bool = wb.setting(False, "names a part less", live=True)

    def loss(self, network: Any, *, batch: Any, config: Any) -> wb.Loss:
        output = self.outputs(network, batch)
        rewards, _ = self.rewards_and_discounts(batch, config)
        noise = torch.rand(rewards.shape, generator=self.training_generator)
        log_probs = self.distribution.log_prob(output.policy_logits[:-1], actions=batch.action[:-1])
        total = (output.value[:-1] - rewards - noise).square().mean() - (log_probs * rewards).mean()
        return wb.Loss(total, {"loss": total.detach()})

    def rate_factors(self, network: Any, *, config: Any) -> Any:
        value = network.value.parameters(), config.value_factor
        frozen = network.torso.parameters(), None
        return [value, *([frozen] if config.freezes and not config.counts else [])]


def config_of(**fields: Any) -> RunConfig:
    description = described(Parts.Config, taken=settings(RunConfig))
    return RunConfig.build("x", algorithm="Parts", own_algorithm=description, **{**UNROLL, **fields})


def parts_on(device: Device, config: RunConfig, *, seed: int = 0) -> Trainer:
    algorithm = Parts(config.hyperparameters, spec=VECTOR)
    network = networks.build("mlp", spec=VECTOR, heads=algorithm.heads, seed=seed)
    return Trainer(network, algorithm, device, config.hyperparameters)


def train(trainer: Trainer, config: RunConfig, *, seed: int, learning_rate: float = 1e-3) -> None:
    batch = batch_of(RunConfig.build("x", algorithm="ppo", **UNROLL), VECTOR, seed=seed)
    told: list[str] = []
    trainer.update(batch, config=config.hyperparameters, learning_rate=learning_rate, on_bad=told.append)
    assert not told


def separate(network: nn.Module, config: RunConfig) -> list[tuple[torch.optim.Optimizer, bool]]:
    """An optimizer of torch's for the value, and one for the rest; whether it is the value's."""
    hyper, value = config.hyperparameters, [*network.value.parameters()]  # type: ignore[union-attr, operator]
    rest = [parameter for parameter in network.parameters() if all(parameter is not one for one in value)]
    if hyper.optimizer == "adam":
        return [(torch.optim.Adam(group, betas=(0.9, 0.999), eps=hyper.adam_epsilon), group is value)
                for group in (value, rest)]
    return [(torch.optim.RMSprop(group, alpha=hyper.rmsprop_decay, eps=hyper.rmsprop_epsilon), group is value)
            for group in (value, rest)]


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
@pytest.mark.parametrize("kind", [lambda: Device("cpu", precision="fp32"), ReplayingDevice], ids=["plain", "recorded"])
def test_each_part_takes_the_steps_of_an_optimizer_of_its_own(kind: Any, optimizer: str) -> None:
    """Gradients are clipped over all parts together; learning rate (as a schedule does) and factor (live) change."""
    config = config_of(optimizer=optimizer, max_gradient_norm=0.1)
    trainer, slow = parts_on(kind(), config), parts_on(Device("cpu", precision="fp32"), config)
    optimizers = separate(slow.network, config)
    for number in range(8):
        now = config.replaced(value_factor=3.0 if number < 5 else 0.25)
        rate = 1e-3 / (number + 1)
        train(trainer, now, seed=number, learning_rate=rate)
        batch = batch_of(RunConfig.build("x", algorithm="ppo", **UNROLL), VECTOR, seed=number)
        slow.network.zero_grad()
        slow.algorithm.loss(slow.network, batch=batch, config=now.hyperparameters).total.backward()  # type: ignore
        torch.nn.utils.clip_grad_norm_(slow.network.parameters(), 0.1)
        for one, is_value in optimizers:
            one.param_groups[0]["lr"] = rate * (now.value("value_factor") if is_value else 1.0)
            one.step()
    assert (weights(trainer) - weights(slow)).abs().max() < 1e-6


def test_a_live_factor_drops_no_recording() -> None:
    device, config = ReplayingDevice(), config_of()
    trainer = parts_on(device, config)
    for seed in range(8):
        train(trainer, config.replaced(value_factor=1.0 + seed), seed=seed)
    assert (device.records, device.replays) == (1, 5)


def test_a_factor_of_zero_holds_a_part_still_while_it_lasts() -> None:
    config = config_of()
    trainer = parts_on(Device("cpu", precision="fp32"), config)
    train(trainer, config, seed=0)
    value, torso = (trainer.network.get_parameter(f"{name}.weight") for name in ("value", "policy"))
    before = value.clone(), torso.clone()
    train(trainer, config.replaced(value_factor=0.0), seed=1)
    assert torch.equal(value, before[0]) and not torch.equal(torso, before[1])
    train(trainer, config, seed=2)
    assert not torch.equal(value, before[0])


@pytest.mark.parametrize("kind", [lambda: Device("cpu", precision="fp32"), ReplayingDevice], ids=["plain", "recorded"])
def test_a_frozen_part_stays_as_it_is_and_has_no_gradient(kind: Any) -> None:
    config = config_of(freezes=True)
    trainer = parts_on(kind(), config)
    before = {name: value.clone() for name, value in trainer.network.state_dict().items()}
    for seed in range(5):
        train(trainer, config, seed=seed)
    changed = {name.split(".")[0] for name, value in trainer.network.state_dict().items()
               if not torch.equal(value, before[name])}
    assert changed == {"value_torso", "policy", "value"}
    frozen = [parameter for name, parameter in trainer.network.named_parameters() if name.startswith("torso.")]
    assert frozen and all(parameter.grad is None and parameter not in trainer.optimizer.state for parameter in frozen)


def test_the_same_parts_are_named_at_every_update() -> None:
    config = config_of(freezes=True)
    trainer = parts_on(Device("cpu", precision="fp32"), config)
    with pytest.raises(AlgorithmFailed, match="named 2 parts, 1 of them frozen at first, and now 1 parts"):
        train(trainer, config.replaced(counts=True), seed=0)


def written(trainer: Trainer, folder: Path) -> Any:
    groups = checkpointing.groups_of(trainer, torch.Generator())
    return checkpoints.write(folder, frames=1, groups=groups, meta=META, requested=True)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
@pytest.mark.parametrize("freezes", [False, True])
def test_training_with_parts_and_noise_goes_on_after_a_checkpoint_as_if_nothing_had_been(
    tmp_path: Path, optimizer: str, freezes: bool
) -> None:
    config, device = config_of(optimizer=optimizer, freezes=freezes), Device("cpu", precision="fp32")
    unbroken, first = parts_on(device, config), parts_on(device, config)
    for seed in range(6):
        train(unbroken, config, seed=seed)
        if seed < 3:
            train(first, config, seed=seed)
    second = parts_on(device, config, seed=1)
    assert checkpointing.restore(written(first, tmp_path), second, torch.Generator()) == []
    for seed in range(3, 6):
        train(second, config, seed=seed)
    assert torch.equal(weights(second), weights(unbroken))


def test_a_momentum_that_a_fork_begins_with_starts_at_nothing(tmp_path: Path) -> None:
    config, device = config_of(optimizer="rmsprop"), Device("cpu", precision="fp32")
    first = parts_on(device, config)
    train(first, config, seed=0)
    second = parts_on(device, config.replaced(rmsprop_momentum=0.9))
    assert checkpointing.restore(written(first, tmp_path), second, torch.Generator()) == []
    kept = [entry["momentum_buffer"] for entry in second.optimizer.state.values()]
    assert kept and not any(buffer.any() for buffer in kept)
    train(second, config, seed=1)
    assert any(entry["momentum_buffer"].any() for entry in second.optimizer.state.values())


class OnePart(SAC):
    """SAC as it was before it had parts."""

    def rate_factors(self, network: nn.Module, *, config: Any) -> list[tuple[list[nn.Parameter], float]]:
        return []


@pytest.mark.parametrize("kind", [lambda: Device("cpu", precision="fp32"), ReplayingDevice], ids=["plain", "recorded"])
@pytest.mark.parametrize("fields", [{}, {"optimizer": "rmsprop", "rmsprop_momentum": 0.9}, {"max_gradient_norm": 0.5},
                                    {"adam_epsilon_form": "keras"}], ids=str)
def test_parts_of_one_rate_are_one_part_bit_for_bit_and_go_on_from_its_checkpoints(
    tmp_path: Path, kind: Any, fields: dict[str, Any]
) -> None:
    config = RunConfig.build("x", algorithm="sac", critic_size=16, **UNROLL, **fields)

    def sac(algorithm: type[SAC], seed: int = 0) -> Trainer:
        one = algorithm(config.hyperparameters, spec=VECTOR)
        network = networks.build("mlp", spec=VECTOR, heads=one.heads, seed=seed)
        return Trainer(network, one, kind(), config.hyperparameters)

    before, parts = sac(OnePart), sac(SAC)
    assert [len(one.optimizer.param_groups) for one in (before, parts)] == [1, 3]
    for seed in range(5):
        for one in (before, parts):
            update(one, config, VECTOR, seed=seed)
    assert torch.equal(weights(parts), weights(before))
    (tmp_path / "parts").mkdir()
    for source in (written(before, tmp_path), written(parts, tmp_path / "parts")):
        for name, value in source.load("optimizer").items():
            number = int(name.partition(".")[0])
            assert not value.ndim or value.shape == before.parameters[number].shape, "numbered as in the network"
        again, other = sac(SAC, seed=1), sac(OnePart, seed=2)
        for one in (again, other):
            checkpointing.restore(source, one, torch.Generator())
            update(one, config, VECTOR, seed=9)
        assert torch.equal(weights(again), weights(other)) and not torch.equal(weights(again), weights(before))


def test_sac_has_a_rate_of_its_critics_and_one_of_its_temperature() -> None:
    config = RunConfig.build("x", algorithm="sac", critic_size=16, critic_rate_factor=4.0, temperature_rate_factor=0.0,
                             **UNROLL)
    trainer = trainer_on(Device("cpu", precision="fp32"), config, VECTOR)
    before = {name: value.detach().clone() for name, value in trainer.network.named_parameters()}
    update(trainer, config, VECTOR, seed=0)  # Adam's first step is the learning rate, where a gradient is not tiny
    rate, furthest = UNROLL["learning_rate"], dict[str, float]()
    for name, value in trainer.network.named_parameters():
        moved, part = float((value.detach() - before[name]).abs().max()), name.split(".")[0]
        furthest[part] = max(moved, furthest.get(part, 0.0))
    assert furthest == pytest.approx(
        {"critics": 4 * rate, "critic_torso": 4 * rate, "torso": rate, "policy": rate}, rel=1e-3)
    assert float(trainer.algorithm.log_temperature.detach()) == 0.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(("fields", "keeps"), [
    ({"multiplier_rate_factor": 30.0}, True), ({"multiplier_rate_factor": 0.0, "first_kl_cost": 1e-3}, False)], ids=str)
def test_vmpo_keeps_its_bound_of_kl_over_many_updates_from_one_old_policy(fields: dict[str, Any], keeps: bool) -> None:
    """At the old policy itself the slope of KL is 0: the first update goes as far as its learning rate."""
    config = RunConfig.build("x", algorithm="vmpo", kl_bound=0.01, **UNROLL, **fields)
    trainer = trainer_on(Device("cpu", precision="fp32"), config, VECTOR)
    batch, found = batch_of(config, VECTOR, seed=0), []
    with torch.no_grad():
        batch.behaviour["policy_logits"] = trainer.algorithm.outputs(trainer.network, batch).policy_logits.clone()
    for _ in range(250):
        trainer.update(batch, config=config.hyperparameters, learning_rate=1e-3, on_bad=found.append)
        found.append(trainer.drain()[0]["kl"])
    assert found[0] == pytest.approx(0.0, abs=1e-6)
    assert 0.005 < found[-1] < 0.02 if keeps else found[-1] > 0.1


class Unnamed(nn.Module):
    """A user's network for SAC that calls its critics otherwise."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.whole = inner

    def q_values(self, features: Any, actions: Any, *, frozen: bool = False) -> Any:
        return self.whole.q_values(features, actions, frozen=frozen)

    def initial_state(self, batch: int) -> Any:
        return self.whole.initial_state(batch)

    def forward(self, *inputs: Any) -> Any:
        return self.whole(*inputs)


def test_a_network_whose_critics_have_other_names_learns_at_one_rate_and_says_so_where_another_is_asked_for() -> None:
    config = RunConfig.build("x", algorithm="sac", critic_size=16, **UNROLL)

    def made(config: RunConfig) -> Trainer:
        one = SAC(config.hyperparameters, spec=VECTOR)
        network = Unnamed(networks.build("mlp", spec=VECTOR, heads=one.heads, seed=0))
        return Trainer(network, one, Device("cpu", precision="fp32"), config.hyperparameters)

    trainer = made(config)
    before = weights(trainer)
    update(trainer, config, VECTOR, seed=0)
    assert not torch.equal(weights(trainer), before)
    with pytest.raises(NetworkFailed, match="critic_rate_factor=3, which .* needs a network whose critics are a part"):
        made(config.replaced(critic_rate_factor=3.0))

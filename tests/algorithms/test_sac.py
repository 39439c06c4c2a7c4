"""SAC's losses are those of its papers, written out in Python's floats, and each part trains its own weights alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.algorithms.no_waiting import NoWaiting
from tests.algorithms.unrolls import random_unroll, with_final_observations
from workbench import algorithms, networks
from workbench.algorithms import Batch, Loss, collate
from workbench.algorithms.distributions import TanhNormal
from workbench.algorithms.sac import targets
from workbench.config import RunConfig
from workbench.environment_spec import ActionSpec, EnvironmentSpec
from workbench.errors import NetworkFailed

STEPS, ROWS = 5, 3
CHOICES = EnvironmentSpec("choices", (3,), "float32", 4)
NUMBERS = EnvironmentSpec("numbers", (3,), "float32", 2, actions=ActionSpec("tanh_normal", (0, 0)))


def built(spec: EnvironmentSpec, network_name: str = "mlp", **fields: Any) -> tuple[Any, Any, Any]:
    """The algorithm, its network and its configuration; the target network's weights are not the network's."""
    config = RunConfig.build("x", algorithm="sac", **{"critic_size": 16, "discount": 0.9, **fields})
    one = algorithms.build(config, spec=spec)
    network = networks.build(network_name, spec=spec, heads=one.heads, seed=0)
    one.prepare(networks.build(network_name, spec=spec, heads=one.heads, seed=1))
    return one, network, config.hyperparameters


def batch_for(spec: EnvironmentSpec, seed: int = 0) -> Batch:
    random = np.random.default_rng(seed)
    unrolls = [random_unroll(CHOICES, length=STEPS, rng=random, behaviour={"value": ((), "float32")})
               for _ in range(ROWS)]
    batch = collate(unrolls)
    if spec is NUMBERS:
        shape = (STEPS + 1, ROWS, 2)
        batch.action = torch.from_numpy(random.normal(size=shape).astype(np.float32))
        batch.previous_action = torch.from_numpy(random.normal(size=shape).astype(np.float32))
    return batch


def ends(batch: Batch, t: int, b: int) -> tuple[float, float]:
    """Reward and discount of the transition into x_t, with a truncated episode's value in its reward."""
    flags, reward = int(batch.flags[t, b]), float(batch.reward[t, b])
    if flags & 2 and not flags & 5:
        return reward + 0.9 * float(batch.bootstrap_value[t, b]), 0.0
    return reward, 0.0 if flags & 7 else 0.9


def test_losses_where_actions_are_choices() -> None:
    one, network, config = built(CHOICES, first_temperature=0.3)
    batch = batch_for(CHOICES)
    with NoWaiting():
        loss = one.loss(network, batch=batch, config=config)
    output, late = one.outputs(network, batch), one.outputs(one._target.network, batch)
    policy = output.policy_logits.softmax(-1).tolist()
    online = network.q_values(output.features, None).tolist()
    target = one._target.network.q_values(late.features, None).tolist()
    critics, policies, entropies = [], [], []
    for t in range(STEPS):
        for b in range(ROWS):
            reward, discount = ends(batch, t + 1, b)
            later = sum(p * (min(target[0][t + 1][b][a], target[1][t + 1][b][a]) - 0.3 * math.log(p))
                        for a, p in enumerate(policy[t + 1][b]))
            y, action = reward + discount * later, int(batch.action[t, b])
            critics.append(sum((y - online[i][t][b][action]) ** 2 for i in range(2)))
            policies.append(sum(p * (0.3 * math.log(p) - min(online[0][t][b][a], online[1][t][b][a]))
                                for a, p in enumerate(policy[t][b])))
            entropies.append(-sum(p * math.log(p) for p in policy[t][b]))
    entropy = float(np.mean(entropies))
    expected = {"critic_loss": 0.5 * np.mean(critics), "policy_loss": np.mean(policies), "entropy": entropy,
                "temperature_loss": 0.3 * (entropy - 0.5 * math.log(4))}
    for name, value in expected.items():
        assert float(loss.scalars[name]) == pytest.approx(float(value), rel=1e-4), name


@pytest.mark.parametrize("name", ["mlp", "mlp-256"])
def test_a_loss_asks_critics_three_times_and_leaves_acting_its_values(name: str) -> None:
    one, network, config = built(NUMBERS, name)
    asked: list[str] = []
    rows: list[tuple[str, int, bool]] = []
    for whose, each in (("online", network), ("target", one._target.network)):
        each.critics.register_forward_hook(lambda *_, whose=whose: asked.append(whose))
        each.torso.register_forward_hook(
            lambda *parts, whose=whose: rows.append((whose, len(parts[-1]), parts[-1].requires_grad)))
    batch = batch_for(NUMBERS)
    one.loss(network, batch=batch, config=config)
    assert asked == ["target", "online", "online"], "the targets', the critics' and the policy's"
    assert rows == [("online", STEPS * ROWS, True), ("online", ROWS, False)], "the last step's policy is a target alone"
    for each in (network, one._target.network):
        output = one.outputs(each, batch)
        assert output.value.abs().min() > 0 and output.policy_logits.abs().min() > 0


def test_a_policy_that_a_memory_reads_is_not_left_out() -> None:
    one, network, config = built(NUMBERS, "mlp-lstm")
    batch = batch_for(NUMBERS)
    batch.initial_state = network.initial_state(ROWS)
    one.loss(network, batch=batch, config=config)
    features = one.outputs(network, batch).features
    network.leaves_out = frozenset({"policy_logits", "value"})
    torch.testing.assert_close(one.outputs(network, batch).features, features)


def test_the_paper_s_network_has_policy_and_critics_of_two_layers_of_256() -> None:
    _, network, _ = built(NUMBERS, "mlp-256", critic_size=256)
    sizes = {name: tuple(weight.shape) for name, weight in network.named_parameters() if weight.ndim == 2}
    critics = {f"critics.{layer}.{number}.weight": shape for number in range(2)
               for layer, shape in (("first", (256, 3 + 2)), ("second", (256, 256)), ("last", (1, 256)))}
    assert sizes == {"torso.hidden.0.weight": (256, 3), "torso.hidden.2.weight": (256, 256),
                     "policy.weight": (4, 256), **critics}


def test_losses_where_actions_are_numbers() -> None:
    one, network, config = built(NUMBERS, first_temperature=0.3)
    batch = batch_for(NUMBERS)
    drawn = one.training_generator.get_state()
    loss = one.loss(network, batch=batch, config=config)
    again = torch.Generator()
    again.set_state(drawn)
    output, late = one.outputs(network, batch), one.outputs(one._target.network, batch)
    u, log_probs = TanhNormal().sample_with_gradient(output.policy_logits[1:], generator=again)
    q_later = one._target.network.q_values(late.features[1:], u.tanh()).amin(0) - 0.3 * log_probs
    q_now = network.q_values(output.features[:-1], batch.action[:-1].tanh())
    errors = []
    for t in range(STEPS):
        for b in range(ROWS):
            reward, discount = ends(batch, t + 1, b)
            y = reward + discount * float(q_later[t, b])
            errors.append(sum((y - float(q_now[i, t, b])) ** 2 for i in range(2)))
    u_now, log_probs_now = TanhNormal().sample_with_gradient(output.policy_logits[:-1], generator=again)
    q_policy = network.q_values(output.features[:-1], u_now.tanh())
    policies = [0.3 * float(log_probs_now[t, b]) - min(float(q_policy[0, t, b]), float(q_policy[1, t, b]))
                for t in range(STEPS) for b in range(ROWS)]
    entropy = -float(log_probs_now.mean())
    expected = {"critic_loss": 0.5 * float(np.mean(errors)), "policy_loss": float(np.mean(policies)),
                "entropy": entropy, "temperature_loss": 0.3 * (entropy + 2.0)}  # the target: minus two numbers
    for name, value in expected.items():
        assert float(loss.scalars[name]) == pytest.approx(value, rel=1e-4), name


@pytest.mark.parametrize("length", [STEPS, 1])
def test_a_truncated_step_bootstraps_by_the_target_critics_at_its_final_observation(length: int) -> None:
    one, network, config = built(CHOICES, first_temperature=0.3)
    random = np.random.default_rng(1)
    unrolls = [with_final_observations(
        random_unroll(CHOICES, length=length, rng=random, ends=0.6, behaviour={"value": ((), "float32")}),
        places=1, after=0, rng=random) for _ in range(40 // length)]
    batch, expected = collate(unrolls), collate([replace(one, final_step=None, final_observation=None)
                                                 for one in unrolls])
    steps = batch.final_step[:, 0].tolist()
    assert 0 in steps and len(set(steps)) > length // 2, "some were truncated, at different steps"
    for b, t in enumerate(steps):
        if not t:
            continue
        goes_on = expected.map(lambda tensor: tensor.clone())
        goes_on.observation[t, b], goes_on.flags[t, b] = batch.final_observation[b, 0], 0
        policy = one.outputs(network, goes_on).policy_logits[t, b].softmax(-1)
        features = one.outputs(one._target.network, goes_on).features[t, b]
        q_values = one._target.network.q_values(features[None, None], None).amin(0)[0, 0]
        expected.bootstrap_value[t, b] = (policy * (q_values - 0.3 * policy.log())).sum().item()
    with NoWaiting():
        loss, slow = (one.loss(network, batch=each, config=config) for each in (batch, expected))
    for name, value in slow.scalars.items():
        torch.testing.assert_close(loss.scalars[name], value, rtol=1e-5, atol=1e-6, msg=name)
    torch.testing.assert_close(loss.priorities, slow.priorities, rtol=1e-5, atol=1e-6)
    weights = list(network.parameters())
    for mine, theirs in zip(*(torch.autograd.grad(each.total, weights) for each in (loss, slow)), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


def test_the_density_of_a_sample_is_that_of_what_the_environment_gets() -> None:
    """Against the change of variables by hand, also where tanh is 1 to all digits; its mean is minus the entropy."""
    parameters = torch.tensor([[0.3, -1.0, 0.2, 0.8]], dtype=torch.float64).expand(200_000, 4)
    u, log_probs = TanhNormal().sample_with_gradient(parameters, generator=torch.Generator().manual_seed(0))
    mean, width = TanhNormal().mean_and_width(parameters)
    normal = torch.distributions.Normal(mean, width).log_prob(u).sum(-1)
    assert torch.allclose(log_probs, normal - torch.log1p(-u.tanh() ** 2).sum(-1), atol=1e-6)
    assert float(-log_probs.mean()) == pytest.approx(float(TanhNormal().entropy(parameters[:1])), abs=5e-3)
    far, density = TanhNormal().sample_with_gradient(
        torch.tensor([[40.0, 0.0]]), generator=torch.Generator().manual_seed(0))
    assert float(far.tanh()) == 1.0 and math.isfinite(float(density)) and float(density) > 70


@pytest.mark.parametrize("spec", [CHOICES, NUMBERS], ids=["choices", "numbers"])
def test_each_part_of_the_loss_trains_its_own_weights_alone(spec: EnvironmentSpec) -> None:
    one, network, config = built(spec)
    batch = batch_for(spec)
    one.loss(network, batch=batch, config=config).total.backward()
    grads = {name: parameter.grad for name, parameter in network.named_parameters()}
    assert all(grad is not None for grad in grads.values())

    def slopes(scale_rewards: float) -> dict[str, Tensor]:
        network.zero_grad()
        other = batch_for(spec)
        other.reward = other.reward * scale_rewards
        one.training_generator.manual_seed(7)
        one.loss(network, batch=other, config=config).total.backward()
        return {name: parameter.grad.clone() for name, parameter in network.named_parameters()}

    plain, scaled = slopes(1.0), slopes(3.0)
    moved = {name.split(".")[0] for name in plain if not torch.equal(plain[name], scaled[name])}
    assert moved == {"critic_torso", "critics"}, "rewards reach the critics alone"
    assert float(one.log_temperature.grad) != 0


def test_the_target_network_follows_by_its_share() -> None:
    one, network, config = built(CHOICES, target_share=0.25)
    before = [value.clone() for value in one._target.network.parameters()]
    one.updated(network, updates=1, config=config)
    for old, new, online in zip(before, one._target.network.parameters(), network.parameters(), strict=True):
        assert torch.allclose(new, 0.75 * old + 0.25 * online, atol=1e-6)


def test_all_that_it_has_learnt_is_saved_and_restored_and_what_older_checkpoints_kept_of_its_random_numbers() -> None:
    one, network, config = built(NUMBERS)
    one.loss(network, batch=batch_for(NUMBERS), config=config)  # draws
    with torch.no_grad():
        one.log_temperature.fill_(-2.0)
    again, _, _ = built(NUMBERS)
    again.load_state({**one.state(), "sampling": one.training_generator.get_state()})

    def loss(algorithm: Any) -> Loss:
        return algorithm.loss(network, batch=batch_for(NUMBERS), config=config)  # type: ignore[no-any-return]

    assert float(loss(one).total) == float(loss(again).total)


def test_a_network_without_critics_is_refused_before_it_trains() -> None:
    algorithm = algorithms.build(RunConfig.build("CartPole-v1", algorithm="sac"), spec=CHOICES)
    with pytest.raises(NetworkFailed, match="q_values.features, actions, frozen=False., and Linear has no such method"):
        algorithm.prepare(torch.nn.Linear(2, 2))


def test_soft_values_and_the_temperature_point_the_right_way() -> None:
    q_values = torch.tensor([[1.0, 5.0], [2.0, 4.0]])
    found = targets.soft_value(q_values, log_probs=torch.tensor([-1.0, 2.0]), temperature=torch.tensor(0.5))
    assert found.tolist() == [1.5, 3.0]
    log_temperature = torch.zeros((), requires_grad=True)
    targets.temperature_loss(log_temperature, entropy=torch.tensor(2.0), target=0.5).backward()
    assert float(log_temperature.grad) == 1.5, "more entropy than wanted: the temperature falls"

"""The costs of entropy and KL adapt as SEED's Lagrange multipliers do, for every algorithm that has them."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.algorithms.test_on_policy import ROWS, SPEC, STEPS, case, log_softmax
from workbench import algorithms
from workbench.algorithms.adaptive_cost import AdaptiveCost
from workbench.config import RunConfig

REGULARIZED = ["vtrace", "ppo", "awr"]


def built(algorithm: str, **fields: Any) -> tuple[Any, Any]:
    config = RunConfig.build("x", algorithm=algorithm, **fields)
    return algorithms.build(config, spec=SPEC), config.hyperparameters


def slow_kl(batch: Any, network: Any) -> float:
    """The mean of Σ_a μ (log μ - log π) over all steps."""
    total = 0.0
    for t in range(STEPS):
        for b in range(ROWS):
            old = log_softmax(batch.behaviour["policy_logits"][t, b].tolist())
            new = log_softmax(network.policy_logits[t, b].tolist())
            total += sum(math.exp(mu) * (mu - pi) for mu, pi in zip(old, new, strict=True))
    return total / (STEPS * ROWS)


def test_the_loss_is_that_of_seeds_constraint() -> None:
    """sg(c) x + c sg(threshold - x), c = exp(speed p); its slopes: c of x, speed c (threshold - x) of p."""
    cost, penalty = AdaptiveCost("x", speed=3.0), torch.tensor(0.7, requires_grad=True)
    loss, used = cost.losses(penalty, cost=0.2, bound=0.5)
    assert float(used) == pytest.approx(0.2, rel=1e-5)
    assert float(loss.detach()) == pytest.approx(0.2 * 0.7 + 0.2 * (0.5 - 0.7), rel=1e-5)
    of_penalty, of_parameter = torch.autograd.grad(loss, [penalty, cost.parameter])
    assert float(of_penalty) == pytest.approx(0.2, rel=1e-5)
    assert float(of_parameter) == pytest.approx(3.0 * 0.2 * (0.5 - 0.7), rel=1e-5)


@pytest.mark.parametrize("algorithm", REGULARIZED)
@pytest.mark.parametrize("adapts", [False, True])
def test_the_kl_of_the_behaviour_is_penalised(algorithm: str, adapts: bool) -> None:
    one, config = built(algorithm, kl_cost=0.3, **({"kl_cost_target": 0.05} if adapts else {}))
    batch, network = case(1)
    loss = one.loss(network, batch=batch, config=config)
    kl = slow_kl(batch, network)
    expected = 0.3 * kl + (0.3 * (0.05 - kl) if adapts else 0.0)
    assert float(loss.scalars["kl_loss"]) == pytest.approx(expected, rel=1e-4, abs=1e-6)
    if adapts:
        assert float(loss.scalars["kl"]) == pytest.approx(kl, rel=1e-4)
        assert float(loss.scalars["kl_cost"]) == pytest.approx(0.3, rel=1e-5)
    fixed, plain = built(algorithm, kl_cost=0.3)
    without, off = built(algorithm)
    slopes = []
    for each, settings in ((one, config), (fixed, plain), (without, off)):
        batch, network = case(1)
        each.loss(network, batch=batch, config=settings).total.backward()
        slopes.append(network.policy_logits.grad)
    torch.testing.assert_close(slopes[0], slopes[1])
    assert not torch.allclose(slopes[0], slopes[2])


def adapted(one: Any, config: Any, name: str, updates: int) -> list[float]:
    """The cost over updates of the costs alone, by descent; policy and behaviour stay as they are."""
    optimizer = torch.optim.SGD(one.parameters(), lr=0.02)
    costs = []
    for _ in range(updates):
        batch, network = case(2)
        optimizer.zero_grad()
        loss = one.loss(network, batch=batch, config=config)
        loss.total.backward()
        optimizer.step()
        costs.append(float(loss.scalars[name]))
    return costs


@pytest.mark.parametrize("algorithm", REGULARIZED)
@pytest.mark.parametrize(("share", "sign"), [(0.5, 1), (2.0, -1)])
def test_the_cost_of_kl_rises_above_its_target_and_falls_below_it(algorithm: str, share: float, sign: int) -> None:
    kl = slow_kl(*case(2))
    one, config = built(algorithm, kl_cost=0.2, kl_cost_target=share * kl)
    costs = adapted(one, config, "kl_cost", 6)
    assert costs[0] == pytest.approx(0.2, rel=1e-5) and all(sign * (b - a) > 0 for a, b in pairwise(costs))
    slow, parameter = [], math.log(0.2) / 10
    for _ in range(6):
        slow.append(math.exp(10 * parameter))
        parameter -= 0.02 * 10 * slow[-1] * (share * kl - kl)
    assert costs == pytest.approx(slow, rel=1e-3)


@pytest.mark.parametrize("algorithm", REGULARIZED)
def test_the_cost_of_entropy_rises_below_its_target_for_each(algorithm: str) -> None:
    one, config = built(algorithm, entropy_cost=0.05, target_entropy=5.0)  # more than four choices can have
    costs = adapted(one, config, "entropy_cost", 4)
    assert costs[0] == pytest.approx(0.05, rel=1e-5) and costs == sorted(set(costs))


def test_a_cost_of_nothing_begins_at_1_when_it_is_to_adapt_and_a_fixed_one_of_nothing_costs_nothing() -> None:
    one, config = built("ppo", kl_cost_target=0.1)
    assert adapted(one, config, "kl_cost", 1) == [1.0]
    batch, network = case(0)
    plain, off = built("ppo")
    loss = plain.loss(network, batch=batch, config=off)
    assert "kl_loss" not in loss.scalars and "kl_cost" not in loss.scalars
    loss.total.backward()
    assert [parameter.grad for parameter in plain.parameters()] == [None, None]


def test_a_cost_of_kl_that_adapts_again_starts_from_its_fixed_weight() -> None:
    one, config = built("ppo", kl_cost_target=1e-6)
    assert adapted(one, config, "kl_cost", 6)[-1] > 1.0
    batch, network = case(0)
    _, off = built("ppo")
    one.loss(network, batch=batch, config=off)
    assert adapted(one, config, "kl_cost", 1) == [1.0]


@pytest.mark.parametrize("algorithm", REGULARIZED)
def test_an_entropy_cost_of_nothing_begins_at_a_hundredth_when_it_is_to_adapt(algorithm: str) -> None:
    one, config = built(algorithm, entropy_cost=0.0, target_entropy=5.0)
    costs = adapted(one, config, "entropy_cost", 4)
    assert costs[0] == pytest.approx(0.01, rel=1e-5) and costs == sorted(set(costs))


@pytest.mark.parametrize("target", [None, 5.0])
@pytest.mark.parametrize("cost", [0.0, 0.1])
def test_entropy_that_costs_nothing_takes_no_gradient_and_is_shown_all_the_same(
    cost: float, target: float | None
) -> None:
    one, config = built("ppo", entropy_cost=cost, target_entropy=target)
    logits = torch.randn(STEPS, ROWS, SPEC.num_actions, requires_grad=True)
    bonus = one.entropy_bonus(logits, config=config)
    plain = -torch.log_softmax(logits, -1).mul(torch.softmax(logits, -1)).sum(-1).mean()
    assert float(bonus.scalars["entropy"]) == pytest.approx(float(plain), rel=1e-5)
    assert bonus.terms["entropy_loss"].requires_grad == (cost > 0 or target is not None)


def test_a_checkpoint_of_a_cost_that_began_at_nothing_keeps_its_weight() -> None:
    one, config = built("vtrace", entropy_cost=0.0, target_entropy=5.0)
    last = adapted(one, config, "entropy_cost", 4)[-1]
    again, _ = built("vtrace", entropy_cost=0.0, target_entropy=5.0)
    again.load_state(one.state())
    assert adapted(again, config, "entropy_cost", 1)[0] > last > 0.01


def test_a_fork_with_another_speed_begins_with_the_weight_of_its_parent() -> None:
    fields = {"kl_cost": 0.2, "kl_cost_target": 0.01, "entropy_cost": 0.05, "target_entropy": 5.0}
    one, config = built("vtrace", **fields)
    adapted(one, config, "kl_cost", 3)
    forked, settings = built("vtrace", **fields, kl_cost_speed=100.0, entropy_cost_speed=1.0)
    forked.load_state(one.state())
    logs = [[float(cost.speed * cost.parameter) for cost in (each.kl_cost, each.entropy_cost)]
            for each in (one, forked)]
    assert logs[1] == pytest.approx(logs[0], rel=1e-5) and logs[0][0] != pytest.approx(math.log(0.2), abs=0.01)
    assert adapted(forked, settings, "kl_cost", 1)[0] == pytest.approx(math.exp(logs[0][0]), rel=1e-4)


def test_ppos_early_end_of_a_round_is_another_field() -> None:
    batch, network = case(0)
    one, config = built("ppo", kl_cost_target=0.01)
    assert one.loss(network, batch=batch, config=config).enough is None
    both, settings = built("ppo", kl_cost_target=0.01, target_kl=0.01)
    assert isinstance(both.loss(network, batch=batch, config=settings).enough, Tensor)


@pytest.mark.parametrize("algorithm", REGULARIZED)
def test_both_costs_go_on_from_a_checkpoint_also_one_from_before_they_could_adapt(algorithm: str) -> None:
    fields = {"kl_cost": 0.2, "kl_cost_target": 0.01, "entropy_cost": 0.05, "target_entropy": 5.0}
    one, config = built(algorithm, **fields)
    adapted(one, config, "kl_cost", 3)
    again, _ = built(algorithm, **fields)
    again.load_state(one.state())
    assert adapted(again, config, "kl_cost", 1)[0] == adapted(one, config, "kl_cost", 1)[0] > 0.2
    old, _ = built(algorithm, **fields)
    old.load_state({name: value for name, value in one.state().items() if not name.startswith("kl_cost")})
    assert adapted(old, config, "kl_cost", 1)[0] == pytest.approx(0.2, rel=1e-5)

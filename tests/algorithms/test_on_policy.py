"""The losses of PPO, AWR and V-MPO are those of their papers, written out step by step in Python's floats."""

from __future__ import annotations

import math
import statistics
import threading
from typing import Any

import numpy as np
import pytest
import torch

from tests.algorithms.no_waiting import NoWaiting
from tests.algorithms.unrolls import TableNetwork, log_softmax, random_tables, random_unroll
from workbench import algorithms
from workbench.algorithms import Algorithm, Batch, Loss, Roles, collate
from workbench.algorithms.advantages import normalised
from workbench.config import RunConfig
from workbench.environment_spec import ActionSpec, EnvironmentSpec
from workbench.errors import InvalidInput

ACTIONS, STEPS, ROWS = 4, 6, 3
SPEC = EnvironmentSpec("test", (3,), "float32", ACTIONS)
COMMON = {"discount": 0.9, "lambda_": 0.8, "max_abs_reward": 1.0, "baseline_cost": 0.7}


def built(algorithm: str, **fields: Any) -> tuple[Algorithm, Any]:
    config = RunConfig.build("x", algorithm=algorithm, **{**COMMON, **fields})
    return algorithms.build(config, spec=SPEC), config.hyperparameters


def case(seed: int) -> tuple[Batch, TableNetwork]:
    random = np.random.default_rng(seed)
    return (collate([random_unroll(SPEC, length=STEPS, rng=random) for _ in range(ROWS)]),
            random_tables(STEPS, ROWS, ACTIONS, random))


def loss_of(algorithm: str, batch: Batch, network: TableNetwork, **fields: Any) -> Loss:
    one, config = built(algorithm, **fields)
    with NoWaiting():
        return one.loss(network, batch=batch, config=config)


class Steps:
    """Every trained step of a batch, in Python's floats."""

    def __init__(self, batch: Batch, network: TableNetwork, *, acted_values: bool) -> None:
        values = batch.behaviour["value"] if acted_values else network.value.detach()
        self.advantages, self.returns, self.log_ratios, self.log_probs, self.errors = [], [], [], [], []
        self.entropies, self.kls = [], []
        for t in range(STEPS):
            for b in range(ROWS):
                advantage = self._advantage(batch, values[:, b].tolist(), t, b)
                self.advantages.append(advantage)
                self.returns.append(advantage + float(values[t, b]))
                new = log_softmax(network.policy_logits[t, b].tolist())
                old = log_softmax(batch.behaviour["policy_logits"][t, b].tolist())
                action = int(batch.action[t, b])
                self.log_probs.append(new[action])
                self.log_ratios.append(new[action] - old[action])
                self.errors.append(self.returns[-1] - float(network.value[t, b]))
                self.entropies.append(-sum(math.exp(x) * x for x in new))
                self.kls.append(sum(math.exp(x) * (x - y) for x, y in zip(old, new, strict=True)))

    @staticmethod
    def _advantage(batch: Batch, values: list[float], t: int, b: int) -> float:
        """Σ (γλ)^k δ, forwards: until the unroll's end, or that of the episode."""
        total, factor = 0.0, 1.0
        for k in range(t, STEPS):
            flags, reward = int(batch.flags[k + 1, b]), max(-1.0, min(1.0, float(batch.reward[k + 1, b])))
            terminated, truncated, lost = flags & 1, flags & 2, flags & 4
            goes_on = not (terminated or truncated or lost)
            after = values[k + 1] if goes_on else 0.0
            if truncated and not terminated and not lost:
                after = float(batch.bootstrap_value[k + 1, b])
            total += factor * (reward + 0.9 * after - values[k])
            if not goes_on:
                break
            factor *= 0.9 * 0.8
        return total

    def normalised(self) -> list[float]:
        mean, deviation = statistics.mean(self.advantages), statistics.pstdev(self.advantages)
        return [(one - mean) / (deviation + 1e-8) for one in self.advantages]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("normalize", [True, False])
def test_ppo(seed: int, normalize: bool) -> None:
    batch, network = case(seed)
    loss = loss_of("ppo", batch, network, clip=0.2, entropy_cost=0.03, normalize_advantages=normalize)
    steps = Steps(batch, network, acted_values=True)
    advantages = steps.normalised() if normalize else steps.advantages
    surrogate = [min(math.exp(r) * a, max(0.8, min(1.2, math.exp(r))) * a)
                 for r, a in zip(steps.log_ratios, advantages, strict=True)]
    expected = {
        "policy_loss": -statistics.mean(surrogate),
        "baseline_loss": 0.7 * 0.5 * statistics.mean(error**2 for error in steps.errors),
        "entropy_loss": -0.03 * statistics.mean(steps.entropies),
        "kl": statistics.mean(math.exp(r) - 1 - r for r in steps.log_ratios),
        "clip_fraction": statistics.mean(abs(math.exp(r) - 1) > 0.2 for r in steps.log_ratios),
    }
    for name, value in expected.items():
        assert float(loss.scalars[name]) == pytest.approx(value, rel=1e-4, abs=1e-6), name
    assert float(loss.total) == pytest.approx(sum(expected[name] for name in list(expected)[:3]), rel=1e-4)
    assert loss.enough is None


def test_ppos_values_move_by_the_clip_at_most() -> None:
    batch, network = case(0)
    clipped = loss_of("ppo", batch, network, value_clip=0.1).scalars["baseline_loss"]
    before = batch.behaviour["value"][:-1]
    steps = Steps(batch, network, acted_values=True)
    returns = torch.tensor(steps.returns).view(STEPS, ROWS)
    near = before + (network.value[:-1] - before).clamp(-0.1, 0.1)
    worst = torch.maximum((near - returns) ** 2, (network.value[:-1] - returns) ** 2)
    assert float(clipped) == pytest.approx(0.35 * float(worst.mean()), rel=1e-4)


def test_ppo_says_when_a_round_moved_the_policy_far_enough() -> None:
    batch, network = case(0)
    kl = float(loss_of("ppo", batch, network).scalars["kl"])
    assert float(loss_of("ppo", batch, network, target_kl=kl).enough) == pytest.approx(-0.5 * kl, rel=1e-4)
    assert float(loss_of("ppo", batch, network, target_kl=kl / 3).enough) == pytest.approx(0.5 * kl, rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_awr(seed: int) -> None:
    batch, network = case(seed)
    loss = loss_of("awr", batch, network, temperature=0.5, largest_weight=4.0, entropy_cost=0.02)
    steps = Steps(batch, network, acted_values=True)
    weights = [min(4.0, math.exp(advantage / 0.5)) for advantage in steps.normalised()]
    assert max(weights) == 4.0 > min(weights), "some are cut"
    expected = {
        "policy_loss": -statistics.mean(w * p for w, p in zip(weights, steps.log_probs, strict=True)),
        "baseline_loss": 0.35 * statistics.mean(error**2 for error in steps.errors),
        "entropy_loss": -0.02 * statistics.mean(steps.entropies),
    }
    for name, value in expected.items():
        assert float(loss.scalars[name]) == pytest.approx(value, rel=1e-4, abs=1e-6), name


class TwoInThreads:
    """Two learners, each of which averages in a thread of its own."""

    size = 2

    def __init__(self) -> None:
        self.here, self.barrier = threading.local(), threading.Barrier(2)
        self.told: list[Any] = [None, None]

    def average(self, tensor: torch.Tensor) -> torch.Tensor:
        self.told[self.here.rank] = tensor.clone()
        self.barrier.wait(240)
        mean = (self.told[0] + self.told[1]) / 2
        self.barrier.wait(240)
        return tensor.copy_(mean)


def test_two_learners_normalise_by_the_advantages_of_both() -> None:
    advantages = torch.randn(6, 8, generator=torch.Generator().manual_seed(0)) + torch.arange(8)  # the parts differ
    peers, parts = TwoInThreads(), [torch.zeros(0), torch.zeros(0)]

    def learn(rank: int) -> None:
        peers.here.rank = rank
        parts[rank] = normalised(advantages.chunk(2, 1)[rank], peers)

    threads = [threading.Thread(target=learn, args=(rank,), daemon=True) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    torch.testing.assert_close(torch.cat(parts, 1), normalised(advantages))


def test_one_step_alone_keeps_its_advantage_and_vmpo_refuses_it() -> None:
    assert normalised(torch.tensor([[-5.0]])).item() == -5.0
    one, config = built("ppo", batch_size=1, unroll_length=1, clip=10.0, entropy_cost=0.0)
    random = np.random.default_rng(0)
    batch = collate([random_unroll(SPEC, length=1, rng=random)])
    network = random_tables(1, 1, ACTIONS, random)
    one.loss(network, batch=batch, config=config).total.backward()
    assert any(table.grad is not None and table.grad.abs().max() > 0 for table in network.parameters())
    with pytest.raises(InvalidInput, match="batch_size=1 with unroll_length=1 has one step. Give more of either"):
        built("vmpo", batch_size=1, unroll_length=1)


def test_vmpo_begins_with_any_multiplier_that_it_may_have() -> None:
    for value in (1e-3, 0.6, 800.0, 1000.0):
        one, _ = built("vmpo", first_temperature=value, first_kl_cost=value)
        assert torch.nn.functional.softplus(one.multipliers.detach()).tolist() == pytest.approx([value] * 2, rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_vmpo(seed: int) -> None:
    batch, network = case(seed)
    fields = {"first_temperature": 0.6, "first_kl_cost": 2.0, "temperature_bound": 0.2, "kl_bound": 0.3}
    one, config = built("vmpo", **fields)
    loss = one.loss(network, batch=batch, config=config)
    steps = Steps(batch, network, acted_values=False)
    best = sorted(range(STEPS * ROWS), key=lambda at: -steps.advantages[at])[: STEPS * ROWS // 2]
    total = sum(math.exp(steps.advantages[at] / 0.6) for at in best)
    expected = {
        "policy_loss": -sum(math.exp(steps.advantages[at] / 0.6) / total * steps.log_probs[at] for at in best),
        "baseline_loss": 0.35 * statistics.mean(error**2 for error in steps.errors),
        "temperature_loss": 0.6 * (0.2 + math.log(total / len(best))),
        "kl_loss": 2.0 * 0.3,
        "kl": statistics.mean(steps.kls),
    }
    for name, value in expected.items():
        assert float(loss.scalars[name]) == pytest.approx(value, rel=1e-4, abs=1e-6), name
    loss.total.backward()
    (multipliers,) = one.parameters()
    slope_of_alpha = (0.3 - expected["kl"]) * (1 - math.exp(-2.0))  # of softplus at the α of 2
    assert float(multipliers.grad[1]) == pytest.approx(slope_of_alpha, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("algorithm", ["ppo", "awr", "vmpo"])
def test_what_is_learnt_beside_the_network_is_saved_and_restored(algorithm: str) -> None:
    one, _ = built(algorithm)
    for parameter in one.parameters():
        parameter.data.fill_(0.25)
    again, _ = built(algorithm)
    again.load_state(one.state())
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize("algorithm", ["ppo", "awr", "vmpo"])
@pytest.mark.parametrize("actions", [ActionSpec("tanh_normal", (0, 0)), ActionSpec("multi_discrete", (2, 3)),
                                     ActionSpec("bernoulli", (0, 0))])
def test_all_kinds_of_actions_are_chosen_and_trained(algorithm: str, actions: ActionSpec) -> None:
    spec = EnvironmentSpec("test", (3,), "float32", actions.encoded_size, actions=actions)
    config = RunConfig.build("x", algorithm=algorithm)
    one = algorithms.build(config, spec=spec)
    random = torch.Generator().manual_seed(0)
    parameters = torch.randn(STEPS + 1, ROWS, actions.parameters, generator=random).requires_grad_()
    network = TableNetwork(parameters.detach(), torch.randn(STEPS + 1, ROWS, generator=random))
    output, _ = network()
    chosen = [one.act(type(output)(*(part[t:t + 1] for part in output)), roles=Roles.evaluating(ROWS), greedy=False,
                      generator=random, config=config.hyperparameters) for t in range(STEPS + 1)]
    batch, _ = case(0)
    batch.action = torch.stack([action for action, _ in chosen])
    batch.behaviour = {name: torch.stack([fields[name] for _, fields in chosen]) for name in chosen[0][1]}
    loss = one.loss(network, batch=batch, config=config.hyperparameters)
    loss.total.backward()
    assert torch.isfinite(loss.total) and network.policy_logits.grad.abs().sum() > 0


def test_an_algorithm_refuses_actions_that_it_cannot_choose() -> None:
    spec = EnvironmentSpec("Pendulum-v1", (3,), "float32", 1, actions=ActionSpec("tanh_normal", (0,)))
    with pytest.raises(InvalidInput, match=r"R2D2 .* are one choice, and those of .*Pendulum-v1 are numbers"):
        algorithms.build(RunConfig.build("Pendulum-v1", algorithm="r2d2"), spec=spec)

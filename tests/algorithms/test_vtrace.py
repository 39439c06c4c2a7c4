from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.algorithms.no_waiting import NoWaiting
from tests.algorithms.unrolls import TableNetwork, log_softmax, random_tables, random_unroll
from workbench import networks
from workbench.algorithms import Batch, Loss, PolicyValueOutput, Roles, collate
from workbench.algorithms.distributions import CATEGORICAL
from workbench.algorithms.episode_ends import rewards_and_discounts
from workbench.algorithms.vtrace import targets as vtrace
from workbench.algorithms.vtrace.agent import VTrace
from workbench.algorithms.vtrace.config import VTraceConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.trajectory import Flags

ACTIONS = 4
SPEC = EnvironmentSpec("test", (3,), "float32", ACTIONS)


def column(batch: Batch, network: TableNetwork, b: int, config: VTraceConfig) -> tuple[list[float], list[float]]:
    """v_s and the advantages of row b by the sums of equation 1, in Python's floats."""
    steps, discount = len(batch.reward) - 1, config.discount
    values = network.value[:, b].tolist()
    rhos, rewards, after = [], [], []  # `after`: V(x_{t+1}), or what stands for it at an end
    goes_on = []
    for t in range(steps):
        action = int(batch.action[t, b])
        target = log_softmax(network.policy_logits[t, b].tolist())[action]
        behaviour = log_softmax(batch.behaviour["policy_logits"][t, b].tolist())[action]
        rhos.append(math.exp(target - behaviour) if config.off_policy_correction else 1.0)
        reward, bound = config.reward_scale * float(batch.reward[t + 1, b]), config.max_abs_reward
        rewards.append(max(-bound, min(bound, reward)) if bound else reward)
        flags = Flags(int(batch.flags[t + 1, b]))
        if flags & (Flags.TERMINATED | Flags.LIFE_LOST):
            after.append(0.0)
        elif flags & Flags.TRUNCATED:
            after.append(float(batch.bootstrap_value[t + 1, b]))
        else:
            after.append(values[t + 1])
        goes_on.append(not flags & (Flags.TERMINATED | Flags.LIFE_LOST | Flags.TRUNCATED))

    vs = []
    for s in range(steps):
        v_s = values[s]
        for t in range(s, steps):
            if not all(goes_on[s:t]):
                break
            product = math.prod(config.lambda_ * min(config.c_clip, rhos[i]) for i in range(s, t))
            delta = min(config.rho_clip, rhos[t]) * (rewards[t] + discount * after[t] - values[t])
            v_s += discount ** (t - s) * product * delta
        vs.append(v_s)
    v_next = [*vs[1:], values[steps]]
    advantages = [
        min(config.pg_rho_clip, rhos[t])
        * (rewards[t] + discount * (v_next[t] if goes_on[t] else after[t]) - values[t])
        for t in range(steps)
    ]
    return vs, advantages


def slow_loss(batch: Batch, network: TableNetwork, config: VTraceConfig) -> Tensor:
    """The loss term by term, one step and row at a time."""
    steps, rows = len(batch.reward) - 1, batch.reward.shape[1]
    total = torch.zeros((), dtype=torch.float64)
    for b in range(rows):
        vs, advantages = column(batch, network, b, config)
        for t in range(steps):
            policy = torch.softmax(network.policy_logits[t, b].double(), -1)
            behaviour = torch.softmax(batch.behaviour["policy_logits"][t, b].double(), -1)
            total = total - advantages[t] * policy[batch.action[t, b]].log()
            total = total + config.baseline_cost * 0.5 * (vs[t] - network.value[t, b].double()) ** 2
            total = total + config.entropy_cost * (policy * policy.log()).sum()
            total = total + config.kl_cost * (behaviour * (behaviour / policy).log()).sum()
    return total / (steps * rows)


def random_case(seed: int, length: int, batch: int = 3) -> tuple[Batch, TableNetwork]:
    rng = np.random.default_rng(seed)
    unrolls = [random_unroll(SPEC, length=length, rng=rng) for _ in range(batch)]
    return collate(unrolls), random_tables(length, batch, ACTIONS, rng)


def loss_of(batch: Batch, network: torch.nn.Module, config: VTraceConfig) -> Loss:
    return VTrace(config, spec=SPEC).loss(network, batch=batch, config=config)


CONFIGS = {
    "defaults": VTraceConfig(),
    "no ratio is clipped": VTraceConfig(rho_clip=1e6, c_clip=1e6, pg_rho_clip=1e6),
    "each clip differs": VTraceConfig(rho_clip=1.3, c_clip=0.7, pg_rho_clip=0.9, lambda_=0.8, discount=0.9),
    "every ratio is clipped": VTraceConfig(rho_clip=0.01, c_clip=0.01, pg_rho_clip=0.01),
    "lambda 0, KL cost, rewards not clipped": VTraceConfig(lambda_=0.0, kl_cost=0.3, max_abs_reward=0.0),
    "rewards scaled and clipped": VTraceConfig(reward_scale=0.3, max_abs_reward=0.2),
    "no correction": VTraceConfig(off_policy_correction=False, rho_clip=1.3, c_clip=0.7),
    "other costs": VTraceConfig(entropy_cost=0.2, baseline_cost=2.0, kl_cost=1.0, max_abs_reward=0.5),
}


@pytest.mark.parametrize("length", [1, 2, 7])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_loss_and_gradient_equal_the_sums_of_the_paper(config: VTraceConfig, length: int) -> None:
    for seed in range(3):
        batch, network = random_case(seed, length)
        loss_of(batch, network, config).total.backward()
        slow = slow_loss(batch, network, config)
        slow_gradients = torch.autograd.grad(slow, [network.policy_logits, network.value])
        torch.testing.assert_close(loss_of(batch, network, config).total.double(), slow, rtol=1e-5, atol=1e-5)
        for name, gradient in zip(("policy_logits", "value"), slow_gradients, strict=True):
            torch.testing.assert_close(getattr(network, name).grad, gradient, rtol=1e-4, atol=1e-6)


def test_the_random_cases_hold_ratios_on_both_sides_of_the_clips_and_every_kind_of_end() -> None:
    batch, network = random_case(0, 7)
    ratios = loss_of(batch, network, VTraceConfig()).samples["importance_ratio"]
    assert (ratios < 0.7).any() and (ratios > 1.3).any()
    for kind in (Flags.TERMINATED, Flags.TRUNCATED, Flags.LIFE_LOST):
        assert batch.has(kind)[1:].any()


def test_targets_equal_the_sums_of_the_paper() -> None:
    config = CONFIGS["each clip differs"]
    batch, network = random_case(5, 9)
    logits = network.policy_logits[:-1]
    behaviour, actions = batch.behaviour["policy_logits"][:-1], batch.action[:-1]
    rewards, discounts = rewards_and_discounts(
        batch.reward[1:],
        ended=batch.has(Flags.TERMINATED | Flags.LIFE_LOST)[1:],
        truncated=batch.has(Flags.TRUNCATED)[1:],
        bootstrap_values=batch.bootstrap_value[1:],
        discount=config.discount,
        max_abs_reward=config.max_abs_reward,
    )
    targets = vtrace.vtrace_targets(
        network.value[:-1],
        bootstrap_value=network.value[-1],
        r_t=rewards,
        discount_t=discounts,
        rho_tm1=vtrace.log_importance_ratios(logits, behaviour_logits=behaviour, actions=actions).exp(),
        lambda_=config.lambda_,
        rho_clip=config.rho_clip,
        c_clip=config.c_clip,
        pg_rho_clip=config.pg_rho_clip,
    )
    slow = [column(batch, network, b, config) for b in range(3)]
    torch.testing.assert_close(targets.vs, torch.tensor([vs for vs, _ in slow]).T, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(targets.pg_advantages, torch.tensor([a for _, a in slow]).T, rtol=1e-5, atol=1e-5)
    assert not targets.vs.requires_grad and not targets.pg_advantages.requires_grad


def test_on_policy_targets_are_n_step_returns() -> None:
    rng = np.random.default_rng(1)
    values, rewards = (torch.from_numpy(rng.normal(size=(6, 2))) for _ in range(2))
    discounts = torch.full((6, 2), 0.9)
    discounts[3, 1] = 0
    bootstrap = torch.from_numpy(rng.normal(size=2))
    targets = vtrace.vtrace_targets(
        values, bootstrap_value=bootstrap, r_t=rewards, discount_t=discounts, rho_tm1=torch.ones(6, 2)
    )
    returns = bootstrap
    for t in reversed(range(6)):
        returns = rewards[t] + discounts[t] * returns
        torch.testing.assert_close(targets.vs[t], returns)


def test_a_truncated_episode_bootstraps_from_its_final_observation_and_a_terminated_one_from_nothing() -> None:
    values = torch.zeros(1, 3)
    targets = []
    for max_abs_reward in (0.0, 1.0):
        rewards, discounts = rewards_and_discounts(
            torch.full((1, 3), 2.0),
            ended=torch.tensor([[False, True, False]]),
            truncated=torch.tensor([[True, True, False]]),
            bootstrap_values=torch.full((1, 3), 10.0),
            discount=0.5,
            max_abs_reward=max_abs_reward,
        )
        targets.append(
            vtrace.vtrace_targets(values, bootstrap_value=torch.full((3,), 40.0), r_t=rewards,
                                  discount_t=discounts, rho_tm1=torch.ones(1, 3)).vs
        )
    assert targets[0].tolist() == [[2 + 5, 2, 2 + 20]]
    assert targets[1].tolist() == [[1 + 5, 1, 1 + 20]]


def test_the_last_step_of_an_unroll_only_bootstraps() -> None:
    batch, network = random_case(2, 4)
    loss_of(batch, network, VTraceConfig()).total.backward()
    assert network.value.grad is not None and network.policy_logits.grad is not None
    assert not network.value.grad[-1].any() and not network.policy_logits.grad[-1].any()
    assert network.value.grad[:-1].all()


def test_kl_is_zero_for_equal_policies_and_positive_for_others() -> None:
    logits = torch.randn(3, 2, ACTIONS, generator=torch.Generator().manual_seed(0))
    assert CATEGORICAL.kl(logits + 5, logits).mean().abs() < 1e-6
    assert CATEGORICAL.kl(2 * logits, logits).mean() > 0.01


def test_entropy_of_a_uniform_policy_is_the_logarithm_of_its_actions() -> None:
    assert CATEGORICAL.entropy(torch.zeros(2, 3, ACTIONS)).mean().item() == pytest.approx(math.log(ACTIONS))


def adapt(algorithm: VTrace, config: VTraceConfig, updates: int) -> list[float]:
    """Entropy costs over SGD updates of the entropy cost alone, with a uniform policy."""
    batch, network = random_case(0, 3)
    with torch.no_grad():
        network.policy_logits.zero_()
    optimizer = torch.optim.SGD(algorithm.parameters(), lr=0.05)
    costs = []
    for _ in range(updates):
        optimizer.zero_grad()
        loss = algorithm.loss(network, batch=batch, config=config)
        loss.total.backward()
        optimizer.step()
        costs.append(loss.scalars["entropy_cost"].item())
    return costs


@pytest.mark.parametrize(("target", "sign"), [(2.0, 1), (0.5, -1)])
def test_entropy_cost_rises_below_the_target_entropy_and_falls_above_it(target: float, sign: int) -> None:
    config = VTraceConfig(entropy_cost=0.01, target_entropy=target)
    costs = adapt(VTrace(config, spec=SPEC), config, 10)  # the uniform policy's entropy is log 4 = 1.39
    assert costs[0] == pytest.approx(0.01)
    assert all(sign * (after - before) > 0 for before, after in pairwise(costs))


def test_entropy_adaptation_leaves_the_gradient_of_the_policy_that_of_a_fixed_cost() -> None:
    gradients = []
    for config in (VTraceConfig(entropy_cost=0.1), VTraceConfig(entropy_cost=0.1, target_entropy=3.0)):
        batch, network = random_case(3, 4)
        loss_of(batch, network, config).total.backward()
        gradients.append(network.policy_logits.grad)
    torch.testing.assert_close(*gradients)


def test_entropy_cost_is_the_configured_one_and_not_learnt_without_a_target() -> None:
    config = VTraceConfig(entropy_cost=0.0)
    algorithm = VTrace(config, spec=SPEC)
    batch, network = random_case(0, 3)
    loss = algorithm.loss(network, batch=batch, config=config)
    loss.total.backward()
    assert loss.scalars["entropy_cost"].item() == 0 and loss.scalars["entropy_loss"].item() == 0
    assert [parameter.grad for parameter in algorithm.parameters()] == [None, None]


def test_entropy_cost_starts_anew_when_it_is_tuned_and_stays_within_its_bounds() -> None:
    config = VTraceConfig(entropy_cost=0.01, target_entropy=2.0)
    algorithm = VTrace(config, spec=SPEC)
    assert adapt(algorithm, config, 5)[-1] > 0.01
    assert adapt(algorithm, VTraceConfig(entropy_cost=0.3, target_entropy=2.0), 1) == [pytest.approx(0.3)]
    with torch.no_grad():
        algorithm.parameters()[0].fill_(1000.0)
    tuned = VTraceConfig(entropy_cost=0.3, target_entropy=2.0)
    assert adapt(algorithm, tuned, 1) == [pytest.approx(math.exp(20))]
    assert adapt(algorithm, VTraceConfig(entropy_cost=1e-12, target_entropy=2.0), 1) == [pytest.approx(math.exp(-20))]


def test_entropy_cost_goes_on_from_a_checkpoint() -> None:
    config = VTraceConfig(entropy_cost=0.01, target_entropy=2.0)
    algorithm, resumed = VTrace(config, spec=SPEC), VTrace(config, spec=SPEC)
    last = adapt(algorithm, config, 5)[-1]
    resumed.load_state(algorithm.state())
    assert adapt(resumed, config, 1)[0] == adapt(algorithm, config, 1)[0] > last
    fresh = VTrace(config, spec=SPEC)
    fresh.load_state(VTrace(config, spec=SPEC).state())
    assert adapt(fresh, config, 1) == [pytest.approx(0.01)]


def test_actions_are_sampled_in_proportion_to_the_policy_and_repeatably() -> None:
    algorithm = VTrace(VTraceConfig(), spec=SPEC)
    policy = torch.tensor([0.1, 0.2, 0.3, 0.4])
    output = PolicyValueOutput(policy.log().expand(1, 40_000, 4), torch.arange(40_000.0)[None])
    roles = Roles.evaluating(40_000)

    def act(greedy: bool) -> tuple[Tensor, dict[str, Tensor]]:
        generator = torch.Generator().manual_seed(7)
        return algorithm.act(output, roles=roles, greedy=greedy, generator=generator, config=VTraceConfig())

    first, second = act(False)[0], act(False)[0]
    assert first.dtype == torch.int64 and torch.equal(first, second)
    torch.testing.assert_close(first.bincount(minlength=4) / 40_000, policy, atol=0.01, rtol=0)
    greedy, behaviour = act(True)
    assert (greedy == 3).all()
    for name, (shape, dtype) in algorithm.behaviour_fields().items():
        assert behaviour[name].shape == (40_000, *shape) and str(behaviour[name].dtype) == f"torch.{dtype}"
    assert torch.equal(algorithm.bootstrap(output), torch.arange(40_000.0))


@pytest.mark.parametrize("target_entropy", [None, 1.0])
def test_loss_never_waits_for_the_device(target_entropy: float | None) -> None:
    spec = EnvironmentSpec("images", (1, 12, 12), "uint8", ACTIONS, frame_stack=3)
    config = VTraceConfig(target_entropy=target_entropy)
    network = networks.build("small-cnn", spec=spec, heads=VTrace.heads, seed=0)
    rng = np.random.default_rng(0)
    batch = collate([random_unroll(spec, length=5, rng=rng) for _ in range(2)])
    with NoWaiting():
        VTrace(config, spec=spec).loss(network, batch=batch, config=config).total.backward()
    with pytest.raises(AssertionError, match="waits"), NoWaiting():
        batch.reward.sum().item()


def test_metrics_are_detached_scalars_and_sum_to_the_loss() -> None:
    batch, network = random_case(4, 5)
    loss = loss_of(batch, network, VTraceConfig(kl_cost=0.1))
    assert all(value.ndim == 0 and not value.requires_grad for value in loss.scalars.values())
    terms = sum(loss.scalars[name] for name in ("policy_loss", "baseline_loss", "entropy_loss", "kl_loss"))
    torch.testing.assert_close(loss.scalars["loss"], terms)
    assert list(loss.samples) == ["importance_ratio"]
    assert not loss.samples["importance_ratio"].requires_grad and loss.samples["importance_ratio"].shape == (5, 3)

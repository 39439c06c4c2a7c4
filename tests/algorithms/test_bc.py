"""Behaviour cloning's loss is the likelihood of the demonstrated actions, by torch's own losses and written out step by
step in Python's floats."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.algorithms.no_waiting import NoWaiting
from tests.algorithms.unrolls import TableNetwork, random_tables, random_unroll
from workbench import algorithms, networks
from workbench.algorithms import Algorithm, Batch, Loss, collate
from workbench.algorithms.bc import targets
from workbench.config import RunConfig
from workbench.environment_spec import ActionSpec, EnvironmentSpec
from workbench.environments.adapters.action_spaces import actions_of
from workbench.learner.devices.device import Device
from workbench.learner.training.trainer import Trainer

ACTIONS, STEPS, TRAINED, HELD_OUT = 4, 6, 3, 2
ROWS = TRAINED + HELD_OUT
SPEC = EnvironmentSpec("test", (3,), "float32", ACTIONS)
FIELDS = {"discount": 0.9, "lambda_": 0.8, "max_abs_reward": 1.0, "baseline_cost": 0.7, "entropy_cost": 0.03,
          "batch_size": TRAINED}


def built(spec: EnvironmentSpec = SPEC, **fields: Any) -> tuple[Algorithm, Any]:
    config = RunConfig.build("x", algorithm="bc", **{**FIELDS, "burn_in": 0, **fields})
    return algorithms.build(config, spec=spec), config.hyperparameters


def with_held_out(batch: Batch) -> Batch:
    """The batch, whose last unrolls are held out."""
    batch.weight = torch.tensor([1.0] * TRAINED + [0.0] * HELD_OUT)
    return batch


def case(seed: int, spec: EnvironmentSpec = SPEC, *, length: int = STEPS) -> tuple[Batch, TableNetwork]:
    random = np.random.default_rng(seed)
    unrolls = [random_unroll(spec, length=length, rng=random) for _ in range(ROWS)]
    return with_held_out(collate(unrolls)), random_tables(STEPS, ROWS, spec.actions.parameters, random)


def loss_of(batch: Batch, network: Any, spec: EnvironmentSpec = SPEC, **fields: Any) -> Loss:
    one, config = built(spec, **fields)
    with NoWaiting():
        return one.loss(network, batch=batch, config=config)


def expected_return(batch: Batch, values: list[float], t: int, b: int) -> float:
    """V + Σ (γλ)^k δ, forwards, to the end of unroll or episode; one that was cut off teaches its last step nothing."""
    total, factor = 0.0, 1.0
    for k in range(t, STEPS):
        flags, reward = int(batch.flags[k + 1, b]), max(-1.0, min(1.0, float(batch.reward[k + 1, b])))
        ended, cut = flags & 5, flags & 2 and not flags & 5
        if cut:
            break
        total += factor * (reward + (0.0 if ended else 0.9 * values[k + 1]) - values[k])
        if ended:
            break
        factor *= 0.9 * 0.8
    return total + values[t]


@pytest.mark.parametrize("seed", range(4))
def test_the_loss_is_cross_entropy_a_value_loss_and_entropy_of_what_is_not_held_out(seed: int) -> None:
    batch, network = case(seed)
    loss, known = loss_of(batch, network), network.value.detach()
    logits, actions = network.policy_logits[:-1], batch.action[:-1]

    def cross_entropy(rows: slice) -> torch.Tensor:
        return F.cross_entropy(logits[:, rows].reshape(-1, ACTIONS), actions[:, rows].reshape(-1))

    trained, held_out = slice(0, TRAINED), slice(TRAINED, ROWS)
    errors = [(expected_return(batch, known[:, b].tolist(), t, b) - float(known[t, b])) ** 2
              for t in range(STEPS) for b in range(TRAINED)]
    entropy = torch.distributions.Categorical(logits=logits[:, trained]).entropy().mean()
    right = (logits.argmax(-1) == actions).float()
    expected = {
        "policy_loss": cross_entropy(trained), "baseline_loss": 0.7 * 0.5 * np.mean(errors),
        "entropy_loss": -0.03 * entropy, "accuracy": right[:, trained].mean(),
        "held_out_loss": cross_entropy(held_out), "held_out_accuracy": right[:, held_out].mean(),
    }
    for name, value in expected.items():
        assert float(loss.scalars[name]) == pytest.approx(float(value), rel=1e-4, abs=1e-6), name
    total = sum(float(expected[name]) for name in ("policy_loss", "baseline_loss", "entropy_loss"))
    assert float(loss.total) == pytest.approx(total, rel=1e-4)
    loss.total.backward()
    assert float(network.policy_logits.grad[:, held_out].abs().sum()) == 0, "nothing is learnt from what is held out"
    assert float(network.value.grad[:, held_out].abs().sum()) == 0
    assert (network.policy_logits.grad[:-1, trained].abs().sum(-1) > 0).all()


def test_without_held_out_unrolls_no_metric_says_anything_of_them() -> None:
    batch, network = case(0)
    batch.weight = torch.ones(ROWS)
    assert not [name for name in loss_of(batch, network, batch_size=ROWS).scalars if name.startswith("held_out")]


KINDS = {
    "several choices": EnvironmentSpec("several", (3,), "float32", 5, actions=ActionSpec("multi_discrete", (2, 3))),
    "switches": EnvironmentSpec("switches", (3,), "float32", 2, actions=ActionSpec("bernoulli", (2, 2))),
    "numbers": EnvironmentSpec("numbers", (3,), "float32", 2, actions=ActionSpec("tanh_normal", (0, 0))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_action_has_torchs_likelihood(kind: str) -> None:
    spec = KINDS[kind]
    batch, network = case(0, spec)
    generator = torch.Generator().manual_seed(1)
    if kind == "numbers":
        batch.action = torch.randn(STEPS + 1, ROWS, 2, generator=generator)
    else:
        batch.action = torch.stack([torch.randint(size, (STEPS + 1, ROWS), generator=generator)
                                    for size in spec.actions.sizes], -1)
    batch.previous_action = batch.action
    logits, actions = network.policy_logits[:-1, :TRAINED].detach(), batch.action[:-1, :TRAINED]
    if kind == "several choices":
        losses = [F.cross_entropy(part.flatten(0, 1), actions[..., k].flatten())
                  for k, part in enumerate(logits.split([2, 3], -1))]
        expected, judged = sum(losses), (torch.stack([logits[..., :2].argmax(-1), logits[..., 2:].argmax(-1)], -1)
                                         == actions).all(-1).float().mean()
    elif kind == "switches":
        expected = F.binary_cross_entropy_with_logits(logits, actions.float()) * 2
        judged = ((logits > 0).long() == actions).all(-1).float().mean()
    else:
        mean, width = logits.chunk(2, -1)
        normal = torch.distributions.Normal(mean, F.softplus(width) + 1e-3)
        expected = -normal.log_prob(actions).sum(-1).mean()
        judged = (mean.tanh() - actions.tanh()).abs().mean()
    found = loss_of(batch, network, spec).scalars
    assert float(found["policy_loss"]) == pytest.approx(float(expected), rel=1e-4)
    name = "action_error" if kind == "numbers" else "accuracy"
    assert float(found[name]) == pytest.approx(float(judged), rel=1e-4)


def test_choices_and_numbers_of_a_mixed_action_are_judged_apart() -> None:
    space = gymnasium.spaces.Dict({"gear": gymnasium.spaces.Discrete(3), "steer": gymnasium.spaces.Box(-9, 9, (2,)),
                                   "lamps": gymnasium.spaces.MultiBinary(2)})
    spec = EnvironmentSpec("mixed", (3,), "float32", 2, actions=actions_of(space, "mixed")[0])
    batch, network = case(0, spec)
    batch.action = built(spec=spec)[0].distribution.mode(network.policy_logits.detach())
    found = loss_of(batch, network, spec).scalars
    assert float(found["accuracy"]) == 1 and float(found["action_error"]) == 0
    numbers = [column for column, size in enumerate(spec.actions.sizes) if not size]
    assert len(numbers) == 2
    batch.action[..., numbers[0]] += 0.5
    off = loss_of(batch, network, spec).scalars
    assert float(off["accuracy"]) == 1 and 0 < float(off["action_error"]) < 0.25


@pytest.mark.parametrize("memory", ["", "-lstm"])
def test_the_burn_in_is_not_learnt_from_and_brings_the_state_up_to_date(memory: str) -> None:
    burn_in = 3
    batch, _ = case(2, length=burn_in + STEPS)
    one, config = built(burn_in=burn_in)
    network = networks.build(f"mlp{memory}", spec=SPEC, heads=one.heads, seed=0)
    batch.initial_state = network.initial_state(ROWS)
    output, _ = network(batch.observation, batch.previous_action, batch.reward, batch.start, batch.initial_state)
    log_probs = output.policy_logits[burn_in:-1].log_softmax(-1).gather(-1, batch.action[burn_in:-1, :, None])
    found = one.loss(network, batch=batch, config=config).scalars["policy_loss"]
    assert float(found) == pytest.approx(-float(log_probs[:, :TRAINED].mean()), rel=1e-4)
    other = batch.map(lambda tensor: tensor.clone())
    other.observation[0] += 10
    assert bool(one.loss(network, batch=other, config=config).scalars["policy_loss"] != found) == bool(memory)


def test_the_returns_of_a_recording_that_was_cut_off_bootstrap_from_its_last_step() -> None:
    values = torch.tensor([[1.0], [2.0], [50.0], [4.0], [8.0]])  # step 2 is the last one of a recording
    r_t, discount_t = torch.tensor([[1.0], [1.0], [9.0], [1.0]]), torch.tensor([[0.5], [0.5], [0.0], [0.5]])
    cut_t = torch.tensor([[False], [False], [True], [False]])
    found = targets.demonstrated_returns(values, r_t=r_t, discount_t=discount_t, cut_t=cut_t, lambda_=1.0)
    assert found.flatten().tolist() == [1 + 0.5 * (1 + 0.5 * 50), 1 + 0.5 * 50, 50.0, 1 + 0.5 * 8]


def test_a_mean_of_nothing_is_zero() -> None:
    assert float(targets.weighted_mean(torch.ones(2, 3), weights=torch.zeros(3))) == 0.0
    values, weights = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 3.0])
    assert float(targets.weighted_mean(values, weights=weights)) == (1 + 3 + 3 * (2 + 4)) / 8
    allowed = torch.tensor([[True, False], [True, True]])  # a step that a mask forbids counts nowhere
    assert float(targets.weighted_mean(values, weights=weights * allowed)) == pytest.approx((1 + 3 + 3 * 4) / 5)


def test_held_out_episodes_are_not_in_the_statistics_of_the_observations() -> None:
    one, config = built(normalize_observations=True)
    network = networks.build("mlp", spec=SPEC, heads=one.heads, seed=0, normalise=True)
    batch, _ = case(0)
    trainer = Trainer(network, one, Device("cpu", precision="fp32"), config)
    assert trainer.update(batch, config=config, learning_rate=1e-3, on_bad=pytest.fail) is not None
    seen = batch.observation[:-1, :TRAINED].flatten(0, 1)
    (found,) = network.statistics.values()
    assert float(found.count) == len(seen) == STEPS * TRAINED
    torch.testing.assert_close(found.mean.float(), seen.mean(0))

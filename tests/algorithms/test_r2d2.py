"""The pure functions of R2D2 against the papers' formulas in Python's floats."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.algorithms.slow_r2d2 import slow_h, slow_inverse, slow_n_step_target
from workbench.algorithms.episode_ends import rewards_and_discounts
from workbench.algorithms.r2d2 import targets as r2d2
from workbench.trajectory import NO_DISCOUNT, Flags

EPSILONS = [1e-3, 1e-2, 1.0]
# Errors in float32 are of a few roundings (6e-8 each); measured: 1.9e-7 for h, 4.7e-7 for a round trip.
TOLERANCE = {"rtol": 1e-6, "atol": 1e-12}


def numbers() -> Tensor:
    """float32 from -1e6 to 1e6, dense near 0, with 0."""
    positive = torch.logspace(-8, 6, 3001, dtype=torch.float64).float()
    return torch.cat([-positive.flip(0), torch.zeros(1), positive])


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_rescaling_and_its_inverse_equal_the_papers_closed_forms(epsilon: float) -> None:
    x = numbers()
    large = x[x.abs() > 1e-3]  # below, the closed forms lose digits even in Python's floats
    for function, slow in ((r2d2.rescale, slow_h), (r2d2.unrescale, slow_inverse)):
        expected = torch.tensor([slow(value, epsilon) for value in large.double().tolist()], dtype=torch.float64)
        torch.testing.assert_close(function(large, epsilon=epsilon).double(), expected, **TOLERANCE)


@pytest.mark.parametrize("epsilon", [*EPSILONS, 1e-9])
def test_rescaling_and_its_inverse_undo_each_other_over_a_million_in_float32(epsilon: float) -> None:
    x = numbers()
    there_and_back = r2d2.unrescale(r2d2.rescale(x, epsilon=epsilon), epsilon=epsilon)
    back_and_there = r2d2.rescale(r2d2.unrescale(x, epsilon=epsilon), epsilon=epsilon)
    assert there_and_back.dtype == torch.float32
    torch.testing.assert_close(there_and_back, x, **TOLERANCE)
    torch.testing.assert_close(back_and_there, x, **TOLERANCE)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gradients_of_rescaling_are_those_of_the_formula_also_at_zero(epsilon: float) -> None:
    x = numbers().requires_grad_()
    (slope,) = torch.autograd.grad(r2d2.rescale(x, epsilon=epsilon).sum(), x)
    torch.testing.assert_close(slope, 0.5 / (x.detach().abs() + 1).sqrt() + epsilon, **TOLERANCE)
    y = r2d2.rescale(x.detach(), epsilon=epsilon).requires_grad_()
    (inverse_slope,) = torch.autograd.grad(r2d2.unrescale(y, epsilon=epsilon).sum(), y)
    torch.testing.assert_close(inverse_slope, 1 / slope, **TOLERANCE)


KINDS = [Flags(0), Flags.TERMINATED | Flags.START, Flags.TRUNCATED | Flags.START, Flags.LIFE_LOST,
         Flags.TERMINATED | Flags.TRUNCATED | Flags.START, Flags.START]


@pytest.mark.parametrize("n", [1, 2, 5, 30])
@pytest.mark.parametrize("length", [1, 2, 5, 12])
def test_n_step_targets_equal_their_sums_whatever_ends_where(length: int, n: int) -> None:
    rng = np.random.default_rng(100 * length + n)
    rows, discount = 40, 0.9
    flags = rng.choice([int(kind) for kind in KINDS], (length, rows), p=[0.7, 0.06, 0.06, 0.06, 0.06, 0.06])
    assert length < 5 or set(flags.ravel()) == {int(kind) for kind in KINDS}
    values, rewards, bootstraps = (torch.from_numpy(rng.normal(0, 10, (steps, rows)))
                                   for steps in (length + 1, length, length))
    clipped, discounts = rewards_and_discounts(
        rewards,
        ended=torch.from_numpy((flags & int(NO_DISCOUNT)) != 0),
        truncated=torch.from_numpy((flags & int(Flags.TRUNCATED)) != 0),
        bootstrap_values=bootstraps,
        discount=discount,
        max_abs_reward=0.0,
    )
    targets = r2d2.n_step_targets(values, r_t=clipped, discount_t=discounts, n_steps=n)
    assert targets.shape == (length, rows)
    for b in range(rows):
        for t in range(length):
            expected = slow_n_step_target(
                values[:, b].tolist(), rewards[:, b].tolist(), [Flags(int(flag)) for flag in flags[:, b]],
                bootstraps[:, b].tolist(), t=t, n=n, discount=discount,
            )
            assert targets[t, b].item() == pytest.approx(expected), (t, b)


def test_the_last_targets_of_an_unroll_are_of_fewer_steps() -> None:
    values, rewards = torch.tensor([[1e3], [1e4], [1e5], [7.0]]), torch.tensor([[1.0], [2.0], [3.0]])
    targets = r2d2.n_step_targets(values, r_t=rewards, discount_t=torch.full((3, 1), 0.5), n_steps=2)
    assert targets[:, 0].tolist() == [1 + 0.5 * 2 + 0.25 * 1e5, 2 + 0.5 * 3 + 0.25 * 7, 3 + 0.5 * 7]


def test_targets_leave_the_values_as_they_are() -> None:
    values = torch.ones(4, 2)
    r2d2.n_step_targets(values, r_t=torch.ones(3, 2), discount_t=torch.ones(3, 2), n_steps=2)
    assert torch.equal(values, torch.ones(4, 2))


def test_double_q_takes_the_online_networks_choice_and_the_target_networks_value() -> None:
    online = torch.tensor([[[1.0, 3.0, 2.0], [5.0, 4.0, 0.0]]])
    target = torch.tensor([[[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]]])
    assert r2d2.double_q_values(online, target=target).tolist() == [[20.0, 40.0]]
    rng = np.random.default_rng(0)
    online, target = (torch.from_numpy(rng.normal(size=(4, 3, 5))) for _ in range(2))
    values = r2d2.double_q_values(online, target=target)
    for t in range(4):
        for b in range(3):
            best = max(range(5), key=lambda action: online[t, b, action].item())
            assert values[t, b] == target[t, b, best]


def test_a_sequences_priority_mixes_its_largest_and_its_mean_error() -> None:
    errors = torch.tensor([[1.0, 0.0], [-4.0, 0.0], [1.0, -3.0]])
    assert r2d2.sequence_priorities(errors, max_share=0.9).tolist() == pytest.approx([0.9 * 4 + 0.1 * 2, 0.9 * 3 + 0.1])
    assert r2d2.sequence_priorities(errors, max_share=0.0).tolist() == [2.0, 1.0]
    assert r2d2.sequence_priorities(errors, max_share=1.0).tolist() == [4.0, 3.0]


def test_the_loss_sums_over_a_sequence_and_averages_over_weighted_sequences() -> None:
    errors, weights = torch.tensor([[1.0, 2.0], [-3.0, 0.5]]), torch.tensor([1.0, 0.25])
    expected = (1.0 * 0.5 * (1 + 9) + 0.25 * 0.5 * (4 + 0.25)) / 2
    assert r2d2.sequence_loss(errors, weights=weights).item() == pytest.approx(expected)

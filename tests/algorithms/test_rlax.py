"""Our targets and losses are rlax's, to the last digits of float64; `rlax_numbers.py` wrote what rlax says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.algorithms.advantages import generalised_advantages
from workbench.algorithms.distributions import CATEGORICAL
from workbench.algorithms.popart import Moments, moments_after, preserved
from workbench.algorithms.ppo import targets as ppo
from workbench.algorithms.r2d2 import targets as r2d2
from workbench.algorithms.vmpo import targets as vmpo
from workbench.algorithms.vtrace import targets as vtrace

RLAX = json.loads(Path(__file__).with_name("rlax_numbers.json").read_text())


def given(name: str) -> Tensor:
    """An input, float64 (int64 actions), [T, 1, ...] where it is one of steps."""
    return torch.from_numpy(np.array(RLAX["inputs"][name]))


def column(name: str) -> Tensor:
    return given(name).unsqueeze(1)


def equals(ours: Tensor, name: str) -> None:
    np.testing.assert_allclose(ours.squeeze().numpy(), np.array(RLAX[name]), rtol=1e-12, atol=1e-14)


def test_generalised_advantages() -> None:
    equals(generalised_advantages(
        column("values"), r_t=column("r_t"), discount_t=column("discount_t"), lambda_=0.9), "gae")


def test_vtrace() -> None:
    values = column("values")
    ours = vtrace.vtrace_targets(
        values[:-1], bootstrap_value=values[-1], r_t=column("r_t"), discount_t=column("discount_t"),
        rho_tm1=column("log_rho").exp(), lambda_=0.9, rho_clip=1.2, c_clip=1.0, pg_rho_clip=1.0)
    equals(ours.vs - values[:-1], "vtrace_errors")
    # rlax mixes λ into the policy gradient's targets; SEED and we bootstrap from v_t itself. At λ=1 all agree.
    assert not np.allclose(ours.pg_advantages.squeeze().numpy(), RLAX["vtrace_pg_advantage"])
    one = vtrace.vtrace_targets(
        values[:-1], bootstrap_value=values[-1], r_t=column("r_t"), discount_t=column("discount_t"),
        rho_tm1=column("log_rho").exp(), lambda_=1.0, rho_clip=1.2, c_clip=1.0, pg_rho_clip=1.0)
    equals(one.pg_advantages, "vtrace_pg_advantage_of_1")


def test_the_clipped_surrogate() -> None:
    equals(ppo.clipped_surrogate_loss(
        given("log_rho"), advantages=given("advantages")[:7], clip=0.2), "clipped_surrogate")


def test_the_divergence_of_choices() -> None:
    equals(CATEGORICAL.kl(given("mu"), given("pi")), "categorical_kl")


def test_rescaled_n_step_returns_of_double_q_learning() -> None:
    epsilon = 1e-3
    equals(r2d2.rescale(given("values"), epsilon=epsilon), "rescaled")
    equals(r2d2.unrescale(given("values"), epsilon=epsilon), "unrescaled")
    best = r2d2.double_q_values(column("q"), target=column("target_q"))
    values = torch.cat([torch.zeros(1, 1, dtype=torch.float64), r2d2.unrescale(best, epsilon=epsilon)])
    returns = r2d2.n_step_targets(values, r_t=column("r_t"), discount_t=column("discount_t"), n_steps=3)
    equals(r2d2.rescale(returns, epsilon=epsilon), "transformed_n_step")


def test_vmpo() -> None:
    advantages, log_probs = given("advantages"), given("log_probs")
    best = vmpo.better_half(advantages)
    eta = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    alpha = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    of_eta = vmpo.temperature_loss(eta, advantages=advantages[best], bound=0.1)
    of_alpha = vmpo.kl_loss(given("kl"), cost=alpha, bound=0.05)
    policy = vmpo.weighted_policy_loss(log_probs[best], advantages=advantages[best], temperature=eta)
    assert [float(of_eta + of_alpha), float(policy)] == pytest.approx(RLAX["vmpo"], rel=1e-9)
    slopes = torch.autograd.grad(of_eta + of_alpha + policy, [eta, alpha])
    assert float(slopes[0]) == pytest.approx(RLAX["vmpo_temperature_slope"], rel=1e-9)
    assert float(slopes[1]) == pytest.approx(RLAX["vmpo_alpha_slope"], rel=1e-9)


def test_popart() -> None:
    one = torch.ones((), dtype=torch.float64)
    moments, (weight, bias) = Moments(0 * one, one, one), (given("weight"), given("bias"))  # rlax begins with 0 and 1
    for targets, expected in zip(given("targets"), RLAX["popart"], strict=True):
        new = moments_after(moments, mean=targets.mean(), second=targets.square().mean(), step_size=0.1)
        weight, bias = preserved(weight, bias, old=moments, new=new)
        moments = new
        ours = [moments.mean, moments.second, moments.deviation, *weight, *bias]
        np.testing.assert_allclose([float(number) for number in ours], expected, rtol=1e-12)

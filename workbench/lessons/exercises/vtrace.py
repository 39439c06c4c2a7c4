"""Exercises of lesson 3."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from workbench.algorithms.vtrace.targets import vtrace_targets
from workbench.lessons.answers import compared, number

ENVIRONMENTS, BATCH = 512, 4


def vtrace(values, last_value, rewards, discounts, rhos, rho_bar=1.0, c_bar=1.0, lambda_=1.0):  # type: ignore[no-untyped-def]
    """Targets v_0 ... v_{T-1}, [T, B], by remark 1 from the back."""
    targets = np.zeros_like(values)
    next_value, next_target = last_value, last_value  # V(x_T) = v_T
    for t in reversed(range(len(values))):
        delta = np.minimum(rho_bar, rhos[t]) * (rewards[t] + discounts[t] * next_value - values[t])
        c = lambda_ * np.minimum(c_bar, rhos[t])
        targets[t] = values[t] + delta + discounts[t] * c * (next_target - next_value)
        next_value, next_target = values[t], targets[t]
    return targets


def _case(*rhos: float, end: bool = False, **clips: float) -> dict[str, Any]:
    """Two unrolls of three steps, side by side."""
    discounts = np.array([[0.9, 0.9], [0.0 if end else 0.9, 0.9], [0.9, 0.9]])
    return {"values": np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]), "last_value": np.array([4.0, 1.0]),
            "rewards": np.array([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]), "discounts": discounts,
            "rhos": np.array([[rho, 1.0] for rho in rhos]), **clips}


def _another_size() -> dict[str, Any]:
    """Three unrolls of five steps."""
    random = np.random.default_rng(0)
    values, rewards, rhos = random.integers(1, 9, (3, 5, 3)) / 4
    return {"values": values, "last_value": np.array([1.0, 2.0, 3.0]), "rewards": rewards,
            "discounts": np.full((5, 3), 0.9), "rhos": rhos}


def _targets(
    values: Any, last_value: Any, rewards: Any, discounts: Any, rhos: Any, rho_bar: float = 1.0, c_bar: float = 1.0,
    lambda_: float = 1.0,
) -> Any:
    """The same by the function that the learner uses."""
    numbers = [torch.as_tensor(array, dtype=torch.float64) for array in (values, rewards, discounts, rhos)]
    targets = vtrace_targets(
        numbers[0], bootstrap_value=torch.as_tensor(last_value), r_t=numbers[1], discount_t=numbers[2],
        rho_tm1=numbers[3], rho_clip=rho_bar, c_clip=c_bar, lambda_=lambda_)
    return targets.vs.numpy()


targets = compared(
    vtrace,
    (_case(1.0, 1.0, 1.0), "on policy (every ρ is 1)"),
    (_case(1.0, 1.0, 1.0, end=True), "on policy, with an episode that ends in the middle (γ is 0 there)"),
    (_case(3.0, 3.0, 3.0), "with ratios of 3, which ρ̄ and c̄ cut"),
    (_case(0.5, 0.5, 0.5), "with ratios of 0.5"),
    (_case(3.0, 3.0, 3.0, rho_bar=2.0, c_bar=0.5), "with ρ̄ = 2 and c̄ = 0.5"),
    (_case(0.5, 2.0, 0.8), "with another ratio at each step"),
    (_case(1.0, 1.0, 1.0, lambda_=0.5), "with λ = 0.5"),
    (_case(3.0, 0.5, 3.0, lambda_=0.5), "with λ = 0.5 and ratios of 3, 0.5 and 3"),
    (_another_size(), "with three unrolls of five steps"),
    expected=_targets,
    why="One pass from the back: the correction of step t+1, cut by c̄ and γ, is added to the error of step t.",
)


def importance_ratios(actions, target, behaviour):  # type: ignore[no-untyped-def]
    """π(a|x) / μ(a|x) of each action; True is a step to the right."""
    return np.where(actions, target / behaviour, (1 - target) / (1 - behaviour))


ACTIONS = np.array([[True, False], [True, True]])
ratios = compared(
    importance_ratios, (ACTIONS, 0.8, 0.5), (ACTIONS, 0.3, 0.3), (ACTIONS, 0.1, 0.4),
    words="the ratio of each action taken",
    names=("actions (1: right)", "π(right)", "μ(right)"),
    why="Right was chosen with probability μ(right), left with 1 - μ(right); π has the same two cases.",
)


def clipped_policy(behaviour, target, rho_bar):  # type: ignore[no-untyped-def]
    """The probability of going right of π_ρ̄, equation 3."""
    right, left = min(rho_bar * behaviour, target), min(rho_bar * (1 - behaviour), 1 - target)
    return right / (right + left)


fixed_point = compared(
    clipped_policy, (0.5, 0.8, 1.0), (0.5, 0.8, 10.0), (0.5, 0.8, 0.1), (0.6, 0.2, 1.0),
    words="the probability of going right of π_ρ̄",
    names=("μ(right)", "π(right)", "ρ̄"),
    why="Clipping takes away the excess of π over ρ̄ μ; what is left is divided by its sum, to be a policy again.",
)


expected_lag = number(
    ENVIRONMENTS / BATCH / 2, "the mean over the steps of an unroll",
    {"environments": ENVIRONMENTS, "unrolls in a batch": BATCH},
    hints={ENVIRONMENTS / BATCH: "So many updates are made while an unroll fills. That is the lag of its first steps. "
                                 "And its last?"},
    why="While an unroll fills, every environment fills one: 512 / 4 = 128 updates. Its first steps are so old, its "
        "last ones new, and the mean is about half of it.",
)

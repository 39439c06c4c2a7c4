"""Exercises of lesson 3."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from workbench.algorithms.vtrace.targets import vtrace_targets
from workbench.lessons.answers import expect_close, expect_written
from workbench.lessons.exercise import Exercise


def vtrace(values, last_value, rewards, discounts, rhos, rho_bar=1.0, c_bar=1.0):  # type: ignore[no-untyped-def]
    """Targets v_0 ... v_{T-1} of the values V(x_0) ... V(x_{T-1}), by equation 1 from the back."""
    targets = np.zeros(len(values))
    next_value, next_target = last_value, last_value  # V(x_T) = v_T
    for t in reversed(range(len(values))):
        delta = min(rho_bar, rhos[t]) * (rewards[t] + discounts[t] * next_value - values[t])
        targets[t] = values[t] + delta + discounts[t] * min(c_bar, rhos[t]) * (next_target - next_value)
        next_value, next_target = values[t], targets[t]
    return targets


def _check_targets(answer: Any) -> None:
    for case, words in (
        (_case(rho=1.0), "on policy (every ρ is 1)"),
        (_case(rho=1.0, end=True), "on policy, with an episode that ends in the middle (γ is 0 there)"),
        (_case(rho=3.0), "with ratios of 3, which ρ̄ and c̄ cut"),
        (_case(rho=0.5), "with ratios of 0.5"),
        (_case(rho=3.0, rho_bar=2.0, c_bar=0.5), "with ρ̄ = 2 and c̄ = 0.5"),
    ):
        expect_close(expect_written(answer(**case)), _targets(**case), words, case)


def _case(*, rho: float, end: bool = False, **clips: float) -> dict[str, Any]:
    discounts = np.array([0.9, 0.0 if end else 0.9, 0.9])
    return {"values": np.array([1.0, 2.0, 3.0]), "last_value": 4.0, "rewards": np.array([1.0, 0.0, 2.0]),
            "discounts": discounts, "rhos": np.full(3, rho), **clips}


def _targets(
    values: Any, last_value: float, rewards: Any, discounts: Any, rhos: Any, rho_bar: float = 1.0, c_bar: float = 1.0
) -> Any:
    """The same by the function that the learner uses."""
    column = [torch.as_tensor(array, dtype=torch.float64).unsqueeze(1) for array in (values, rewards, discounts, rhos)]
    last = torch.tensor([last_value], dtype=torch.float64)
    targets = vtrace_targets(column[0], bootstrap_value=last, r_t=column[1], discount_t=column[2], rho_tm1=column[3],
                             rho_clip=rho_bar, c_clip=c_bar)
    return targets.vs.squeeze(1).numpy()


targets = Exercise(
    _check_targets, vtrace,
    why="One pass from the back: the correction of step t+1, cut by c̄ and γ, is added to the error of step t.",
)

"""The losses of behaviour cloning as pure functions of tensors. Tensors are time-major: [T, B]."""

from __future__ import annotations

import torch
from torch import Tensor

from workbench.algorithms.advantages import generalised_advantages


def weighted_mean(values: Tensor, *, weights: Tensor) -> Tensor:
    """Σ w_tb x_tb / Σ w_tb, a scalar; 0 where all weights are 0.

    Args:
        values: x, [T, B].
        weights: w, [T, B], or [B] for all steps alike.
    """
    return (values * weights).sum() / weights.expand_as(values).sum().clamp(min=torch.finfo(values.dtype).tiny)


@torch.no_grad()
def demonstrated_returns(values: Tensor, *, r_t: Tensor, discount_t: Tensor, cut_t: Tensor, lambda_: float) -> Tensor:
    """λ-returns of the demonstrations, [T, B], of steps 0 … T-1; without gradients.

    A recording that was cut off does not have its last observation. So its last step has no target (but its own value),
    and the returns of the steps before bootstrap from it.

    Args:
        values: V(x_t) of all steps, [T+1, B].
        r_t, discount_t: of the transitions into x_t, [T, B]; the discount is 0 where an episode ended or was cut off.
        cut_t: bool [T, B], whether the transition into x_t cut an episode off.
    """
    rewards = torch.where(cut_t, values[:-1], r_t)
    return values[:-1] + generalised_advantages(values, r_t=rewards, discount_t=discount_t, lambda_=lambda_)


def agreement(chosen: Tensor, actions: Tensor, *, parts: bool) -> Tensor:
    """1 where the policy's likeliest action is the demonstrated one, in all of its parts, else 0; float32 [T, B].

    Args:
        chosen, actions: int64 [T, B], or [T, B, K] with `parts`.
    """
    same = chosen == actions
    return (same.all(-1) if parts else same).float()


def distance(chosen: Tensor, actions: Tensor) -> Tensor:
    """Mean distance of the numbers of two actions, [T, B], from actions [T, B, K]."""
    return (chosen - actions).abs().mean(-1)

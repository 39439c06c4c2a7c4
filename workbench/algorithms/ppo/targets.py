"""PPO's losses as pure functions of tensors. Source: Schulman et al. 2017, arXiv 1707.06347."""

from __future__ import annotations

import torch
from torch import Tensor

from workbench.algorithms.baseline import baseline_loss


def clipped_surrogate_loss(log_ratios: Tensor, *, advantages: Tensor, clip: float) -> Tensor:
    """-mean min(ρ A, clip(ρ, 1-ε, 1+ε) A) (eq. 7), a scalar; the advantages have no gradient.

    Args:
        log_ratios: log π(a|x) - log μ(a|x), any shape.
        advantages: A, of that shape.
        clip: ε.
    """
    ratios, advantages = log_ratios.exp(), advantages.detach()
    return -torch.minimum(ratios * advantages, ratios.clamp(1 - clip, 1 + clip) * advantages).mean()


def clipped_value_loss(values: Tensor, *, before: Tensor, targets: Tensor, clip: float) -> Tensor:
    """½ mean max((V - R)², (V_clipped - R)²), V within `clip` of the value `before`; with 0 simply ½ mean (V - R)²."""
    if clip == 0:
        return baseline_loss(values, targets=targets)
    near = before + (values - before).clamp(-clip, clip)
    return 0.5 * torch.maximum((values - targets.detach()).square(), (near - targets.detach()).square()).mean()


def approximate_kl(log_ratios: Tensor) -> Tensor:
    """An estimate of KL(μ ‖ π) that is never negative: mean (ρ - 1 - log ρ) (Schulman 2020, joschu.net)."""
    return (log_ratios.exp() - 1 - log_ratios).mean()

"""V-MPO's losses as pure functions of tensors. Source: Song et al. 2020, arXiv 1909.12238, section 4."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from workbench.algorithms.adaptive_cost import lagrange_loss


def better_half(advantages: Tensor) -> Tensor:
    """Indices [N/2] of the flattened advantages above their median, as in the E-step. The host never waits for them."""
    return advantages.flatten().topk(max(1, advantages.numel() // 2)).indices


def weighted_policy_loss(log_probs: Tensor, *, advantages: Tensor, temperature: Tensor) -> Tensor:
    """-Σ ψ log π(a|x), a scalar, ψ = softmax(A/η) over the given steps (the M-step); ψ has no gradient.

    Args:
        log_probs, advantages: [N], of the better half.
    """
    return -((advantages / temperature).softmax(0).detach() * log_probs).sum()


def temperature_loss(temperature: Tensor, *, advantages: Tensor, bound: float) -> Tensor:
    """η ε_η + η log mean exp(A/η) over the better half's advantages [N] (the E-step). Only η has a gradient."""
    mean = torch.logsumexp(advantages.detach() / temperature, 0) - math.log(len(advantages))
    return temperature * (bound + mean)


def kl_loss(kl: Tensor, *, cost: Tensor, bound: float) -> Tensor:
    """mean α (ε_α - sg[KL]) + sg[α] KL, a scalar; α has a gradient in the first term, the policy in the second.

    Args:
        kl: KL(π_old ‖ π) of every step, any shape.
        cost: α.
    """
    return lagrange_loss(kl, cost=cost, bound=bound).mean()

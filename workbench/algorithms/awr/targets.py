"""AWR's loss as pure functions of tensors. Source: Peng et al. 2019, arXiv 1910.00177."""

from __future__ import annotations

import math

import torch
from torch import Tensor


@torch.no_grad()
def imitation_weights(advantages: Tensor, *, temperature: float, largest: float) -> Tensor:
    """min(exp(A/β), ω_max), of the advantages' shape (algorithm 1); without overflow."""
    return (advantages / temperature).clamp(max=math.log(largest)).exp()


def weighted_imitation_loss(log_probs: Tensor, *, weights: Tensor) -> Tensor:
    """-mean ω log π(a|x), a scalar (algorithm 1); the weights have no gradient."""
    return -(weights.detach() * log_probs).mean()

"""Generalised advantages, shared by the algorithms that train on them. Tensors are time-major: [T, B]."""

from __future__ import annotations

import torch
from torch import Tensor

from workbench.algorithms.backward_sums import backward_sums
from workbench.algorithms.running_statistics import Peers

_SMALLEST_DEVIATION = 1e-8


@torch.no_grad()
def generalised_advantages(values: Tensor, *, r_t: Tensor, discount_t: Tensor, lambda_: float) -> Tensor:
    """GAE (Schulman et al. 2016, arXiv 1506.02438, eq. 16), [T, B], of steps 0 … T-1; without gradients.

        A_{t-1} = δ_t + γ_t λ A_t,   δ_t = r_t + γ_t V(x_t) - V(x_{t-1}),   A_T = 0

    A_{t-1} + V(x_{t-1}) is the λ-return.

    Args:
        values: V(x_t) of all steps, [T+1, B].
        r_t: rewards of the transitions into x_t, [T, B].
        discount_t: γ_t, [T, B]; 0 where the transition ended an episode.
    """
    return backward_sums(r_t + discount_t * values[1:] - values[:-1], discount_t * lambda_)


def normalised(advantages: Tensor, peers: Peers | None = None) -> Tensor:
    """`advantages` brought to mean 0 and standard deviation 1 over all of their steps, and over those of the peers.

    Args:
        advantages: of any shape; each peer has as many. One alone stays as it is: its distance from its mean is 0.
        peers: the learners that train together, all of which call this; None: this one is alone.
    """
    if advantages.numel() * (1 if peers is None else peers.size) == 1:
        return advantages
    if peers is None:
        mean, deviation = advantages.mean(), advantages.std(correction=0)
    else:
        mean = peers.average(advantages.mean())
        deviation = peers.average((advantages - mean).square().mean()).sqrt()
    return (advantages - mean) / (deviation + _SMALLEST_DEVIATION)

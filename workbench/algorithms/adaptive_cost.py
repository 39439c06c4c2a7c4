"""The weight of a term of the loss: fixed, or adapted until the term keeps a bound.

Adaptation is SEED RL's (agents/vtrace/learner.py for the entropy; agents/policy_gradient/modules/constraints.py): the
weight is a Lagrange multiplier exp(speed·p), whose parameter p is learnt by the loss beside the network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

_FIRST = 0.01  # where the fixed weight is 0: from nearly nothing a multiplier hardly rises
LOG_BOUND = 20.0  # |speed·p| is kept below this, as in SEED's V-trace


def lagrange_loss(penalty: Tensor, *, cost: Tensor, bound: float) -> Tensor:
    """The loss by which `penalty` falls to `bound` (SEED constraints.py; V-MPO, arXiv 1909.12238, section 4.2).

        L = cost (bound - sg[penalty]) + sg[cost] penalty

    The cost learns from the first term: it rises where the penalty is above its bound. The policy learns from the
    second.
    """
    return cost * (bound - penalty.detach()) + cost.detach() * penalty


class AdaptiveCost:
    """The weight called `name`. It starts from the fixed weight whenever adaptation is turned on or that changes."""

    def __init__(self, name: str, *, speed: float) -> None:
        self.speed = speed
        self.parameter = nn.Parameter(torch.zeros(()))
        self._name = name
        self._started_from: float | None = None  # the fixed weight at which adaptation began; None: not adapting

    def losses(self, penalty: Tensor, *, cost: float, bound: float | None) -> tuple[Tensor, Tensor]:
        """The loss to add for a scalar `penalty`, and the weight in use (detached), both scalars.

        With `bound` None, or speed 0, the weight is `cost` and the parameter has no gradient; else see `lagrange_loss`.
        """
        if bound is None or self.speed == 0:
            self.forget()
            return cost * penalty, torch.full_like(penalty.detach(), cost)
        self._start_from(cost)
        adapted = torch.exp(self.speed * self.parameter)
        return lagrange_loss(penalty, cost=adapted, bound=bound), adapted.detach()

    @torch.no_grad()
    def _start_from(self, cost: float) -> None:
        if cost != self._started_from:
            self._started_from = cost
            self.parameter.fill_(math.log(max(cost or _FIRST, math.exp(-LOG_BOUND))) / self.speed)
        bound = LOG_BOUND / self.speed
        self.parameter.clamp_(-bound, bound)

    def forget(self) -> None:
        """Start from the fixed weight when adaptation is turned on again."""
        self._started_from = None

    def state(self) -> dict[str, Tensor]:
        """The tensors that a checkpoint keeps."""
        started_from = math.nan if self._started_from is None else self._started_from
        return {
            f"{self._name}_parameter": self.parameter.detach().clone(),
            f"{self._name}_started_from": torch.tensor(started_from, dtype=torch.float64),
            f"{self._name}_speed": torch.tensor(self.speed, dtype=torch.float64),
        }

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state` returned; the weight stays where the speed is another. Raises KeyError where it is
        missing."""
        self.parameter.copy_(state[f"{self._name}_parameter"])
        if self.speed and (speed := state.get(f"{self._name}_speed")) is not None:  # not in old checkpoints
            self.parameter.mul_(float(speed) / self.speed)
        started_from = float(state[f"{self._name}_started_from"])
        self._started_from = None if math.isnan(started_from) else started_from

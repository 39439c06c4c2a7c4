"""The weight of the entropy bonus: fixed, or adapted until the policy has the target entropy.

Adaptation is SEED RL's (agents/vtrace/learner.py): a Lagrange multiplier exp(speed·p) whose parameter p is learnt by
the loss cost·(H - target), in which H has no gradient.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

LOG_BOUND = 20.0  # |speed·p| is kept below this, as in SEED


class EntropyCost:
    """The learned weight. It starts from `entropy_cost` whenever adaptation is turned on or that field changes."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self.parameter = nn.Parameter(torch.zeros(()))
        self._started_from: float | None = None  # the entropy_cost at which adaptation began; None: not adapting

    def losses(self, entropy: Tensor, *, entropy_cost: float, target_entropy: float | None) -> tuple[Tensor, Tensor]:
        """The loss to add, and the weight in use (detached), both scalars.

            loss = -cost·H + cost·(H - target)       no gradient of cost in the first term, none of H in the second

        With `target_entropy` None, or speed 0, the weight is `entropy_cost` and the parameter has no gradient.
        """
        if target_entropy is None or self.speed == 0:
            self._started_from = None
            return -entropy_cost * entropy, torch.full_like(entropy.detach(), entropy_cost)
        self._start_from(entropy_cost)
        cost = torch.exp(self.speed * self.parameter)
        return cost.detach() * -entropy + cost * (entropy.detach() - target_entropy), cost.detach()

    @torch.no_grad()
    def _start_from(self, entropy_cost: float) -> None:
        if entropy_cost != self._started_from:
            self._started_from = entropy_cost
            self.parameter.fill_(math.log(max(entropy_cost, math.exp(-LOG_BOUND))) / self.speed)
        bound = LOG_BOUND / self.speed
        self.parameter.clamp_(-bound, bound)

    def state(self) -> dict[str, Tensor]:
        """The tensors that a checkpoint keeps."""
        started_from = math.nan if self._started_from is None else self._started_from
        return {
            "entropy_cost_parameter": self.parameter.detach().clone(),
            "entropy_cost_started_from": torch.tensor(started_from, dtype=torch.float64),
        }

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state` returned."""
        self.parameter.copy_(state["entropy_cost_parameter"])
        started_from = float(state["entropy_cost_started_from"])
        self._started_from = None if math.isnan(started_from) else started_from

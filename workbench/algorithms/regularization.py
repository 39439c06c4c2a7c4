"""What keeps a policy random and near the one that acted: costs of entropy and KL, fixed or adapted to targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from workbench.algorithms.adaptive_cost import AdaptiveCost
from workbench.algorithms.baseline import BaselineAlgorithm
from workbench.environment_spec import EnvironmentSpec

_FIRST_KL_COST = 1.0  # where kl_cost is 0, as SEED's init_alpha


class Regularization(NamedTuple):
    """Terms of the loss, and metrics (not detached), by name."""

    terms: dict[str, Tensor]
    scalars: dict[str, Tensor]


class RegularizedAlgorithm(BaselineAlgorithm):
    """An actor and a critic whose configuration has an entropy_cost and the fields of `RegularizationFields`."""

    def __init__(self, config: Any, *, spec: EnvironmentSpec) -> None:
        super().__init__(config, spec=spec)
        self.entropy_cost = AdaptiveCost("entropy_cost", speed=config.entropy_cost_speed)
        self.kl_cost = AdaptiveCost("kl_cost", speed=config.kl_cost_speed)

    def entropy_bonus(self, logits: Tensor, *, config: Any) -> Regularization:
        """The loss -cost·H, with H the mean entropy of a policy with the parameters `logits` [..., A]; without a
        gradient while neither `entropy_cost` nor `target_entropy` asks for it."""
        target = config.target_entropy
        if config.entropy_cost == 0 and target is None:
            logits = logits.detach()
        entropy = self.distribution.entropy(logits).mean()
        loss, cost = self.entropy_cost.losses(
            -entropy, cost=config.entropy_cost, bound=None if target is None else -target)
        return Regularization({"entropy_loss": loss}, {"entropy": entropy, "entropy_cost": cost})

    def kl_penalty(self, logits: Tensor, *, behaviour_logits: Tensor, config: Any) -> Regularization:
        """The loss cost·KL(μ ‖ π), with the mean over all steps, of parameters [..., A] of π and of the behaviour μ.

        Nothing while neither `kl_cost` nor `kl_cost_target` asks for it.

        SEED's V-trace estimates KL by log μ(a) - log π(a); the sum over actions is that estimate's mean, without its
        noise, as in SEED's KLPolicyRegularizer.
        """
        if config.kl_cost == 0 and config.kl_cost_target is None:
            self.kl_cost.forget()
            return Regularization({}, {})
        kl = self.distribution.kl(behaviour_logits, logits).mean()
        adapts = config.kl_cost_target is not None
        first = (config.kl_cost or _FIRST_KL_COST) if adapts else config.kl_cost
        loss, cost = self.kl_cost.losses(kl, cost=first, bound=config.kl_cost_target)
        return Regularization({"kl_loss": loss}, {"kl": kl, "kl_cost": cost} if adapts else {})

    # ---- what it has learnt beside the network ----------------------------------------------------------------------

    def parameters(self) -> list[nn.Parameter]:
        """The costs' parameters, which have a gradient only while a target is set."""
        return [self.entropy_cost.parameter, self.kl_cost.parameter]

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), **self.entropy_cost.state(), **self.kl_cost.state()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        super().load_state(state)
        for cost in (self.entropy_cost, self.kl_cost):
            if cost.state().keys() & state.keys():  # a checkpoint from before a cost could adapt has nothing of it
                cost.load_state(state)

"""V-MPO as the learner uses it: the loss of a batch, and its two Lagrange multipliers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.algorithms.advantages import generalised_advantages
from workbench.algorithms.baseline import BaselineAlgorithm, baseline_loss
from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import Loss, Network, PolicyValueOutput
from workbench.algorithms.vmpo import targets
from workbench.algorithms.vmpo.config import VMPOConfig
from workbench.environment_spec import EnvironmentSpec

_SMALLEST = 1e-8  # multiplier, as in the paper


class VMPO(BaselineAlgorithm):
    """V-MPO (Song et al. 2020, arXiv 1909.12238).

    The old policy is the one that acted, whose distribution is stored with each step (as in SEED), and not a target
    network; updates of the same old policy are those of a round. For actions that are numbers the KL of means and
    widths is bounded together.
    """

    Config = VMPOConfig

    def __init__(self, config: VMPOConfig, *, spec: EnvironmentSpec) -> None:
        super().__init__(config, spec=spec)
        first = [config.first_temperature, config.first_kl_cost]
        self.multipliers = nn.Parameter(torch.tensor([value + math.log(-math.expm1(-value)) for value in first]))

    def loss(self, network: Network, *, batch: Batch, config: VMPOConfig) -> Loss:
        """Policy, value, temperature and KL losses of a batch of T·B steps."""
        output: PolicyValueOutput = self.outputs(network, batch)
        logits, values, policy = output.policy_logits[:-1].float(), output.value.float(), self.distribution
        r_t, discount_t = self.rewards_and_discounts(batch, config)
        advantages = generalised_advantages(values.detach(), r_t=r_t, discount_t=discount_t, lambda_=config.lambda_)
        returns = advantages + values[:-1].detach()
        advantages = self.in_deviations(advantages)
        temperature, kl_cost = F.softplus(self.multipliers) + _SMALLEST
        best = targets.better_half(advantages)
        better = advantages.flatten()[best]
        log_probs = policy.log_prob(logits, actions=batch.action[:-1]).flatten()[best]
        kl = policy.kl(batch.behaviour["policy_logits"][:-1], logits)
        terms = {
            "policy_loss": targets.weighted_policy_loss(log_probs, advantages=better, temperature=temperature),
            "baseline_loss": config.baseline_cost * baseline_loss(
                self.in_deviations(values[:-1]), targets=self.in_deviations(returns)),
            "temperature_loss": targets.temperature_loss(
                temperature, advantages=better, bound=config.temperature_bound),
            "kl_loss": targets.kl_loss(kl, cost=kl_cost, bound=config.kl_bound),
        }
        scalars = {"entropy": policy.entropy(logits).mean(), "kl": kl.mean(), "temperature": temperature,
                   "kl_cost": kl_cost, **self.normalisation()}
        return Loss.of(terms, scalars=scalars, value_targets=returns)

    def parameters(self) -> list[nn.Parameter]:
        """The parameters of η and α, whose softplus they are."""
        return [self.multipliers]

    def rate_factors(self, network: nn.Module, *, config: VMPOConfig) -> list[tuple[list[nn.Parameter], float]]:
        """Those of η and α."""
        return [([self.multipliers], config.multiplier_rate_factor)]

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), "multipliers": self.multipliers.detach().clone()}

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        super().load_state(state)
        self.multipliers.copy_(state["multipliers"])

"""PPO as the learner uses it: the loss of a minibatch.

Advantages and returns come from the values that the unroll was acted with, which are stored with it. So they are the
same in every epoch, as in the paper, although each minibatch computes them anew; but for a normalization of rewards,
whose divisor follows the returns from minibatch to minibatch.
"""

from __future__ import annotations

from workbench.algorithms.advantages import generalised_advantages, normalised
from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import Loss, Network, PolicyValueOutput
from workbench.algorithms.ppo import targets
from workbench.algorithms.ppo.config import PPOConfig
from workbench.algorithms.regularization import RegularizedAlgorithm

_KL_MARGIN = 1.5  # times the target, as in Spinning Up and Stable-Baselines3


class PPO(RegularizedAlgorithm):
    """Proximal policy optimization (Schulman et al. 2017, arXiv 1707.06347)."""

    Config = PPOConfig
    histogram_edges = {
        "importance_ratio": tuple(10.0 ** (power / 20) for power in range(-20, 21))
    }

    def loss(self, network: Network, *, batch: Batch, config: PPOConfig) -> Loss:
        """Clipped policy loss, value loss and entropy of a minibatch, as means over its T·B steps."""
        output: PolicyValueOutput = self.outputs(network, batch)
        logits, values, actions = output.policy_logits[:-1].float(), output.value[:-1].float(), batch.action[:-1]
        acted, values_before = batch.behaviour["policy_logits"][:-1], batch.behaviour["value"]
        policy, scaled = self.distribution, self.in_deviations
        r_t, discount_t = self.rewards_and_discounts(batch, config)
        advantages = generalised_advantages(values_before, r_t=r_t, discount_t=discount_t, lambda_=config.lambda_)
        returns = advantages + values_before[:-1]
        advantages = scaled(advantages)
        if config.normalize_advantages:
            advantages = normalised(advantages, self.peers)
        log_ratios = policy.log_prob(logits, actions=actions) - policy.log_prob(acted, actions=actions)
        bonus = self.entropy_bonus(logits, config=config)
        penalty = self.kl_penalty(logits, behaviour_logits=acted, config=config)
        terms = {
            "policy_loss": targets.clipped_surrogate_loss(log_ratios, advantages=advantages, clip=config.clip),
            "baseline_loss": config.baseline_cost * targets.clipped_value_loss(
                scaled(values), before=scaled(values_before[:-1]), targets=scaled(returns), clip=config.value_clip),
            **bonus.terms,
            **penalty.terms,
        }
        ratios = log_ratios.detach().exp()
        kl = targets.approximate_kl(log_ratios.detach())
        scalars = {**bonus.scalars, "kl": kl, **penalty.scalars,
                   "clip_fraction": ((ratios - 1).abs() > config.clip).float().mean(), **self.normalisation()}
        return Loss.of(terms, scalars=scalars, samples={"importance_ratio": ratios}, value_targets=returns,
                       enough=kl - _KL_MARGIN * config.target_kl if config.target_kl > 0 else None)

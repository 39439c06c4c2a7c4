"""AWR as the learner uses it: the loss of a minibatch."""

from __future__ import annotations

from workbench.algorithms.advantages import generalised_advantages, normalised
from workbench.algorithms.awr import targets
from workbench.algorithms.awr.config import AWRConfig
from workbench.algorithms.baseline import baseline_loss
from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import Loss, Network, PolicyValueOutput
from workbench.algorithms.regularization import RegularizedAlgorithm


class AWR(RegularizedAlgorithm):
    """Advantage-weighted regression (Peng et al. 2019, arXiv 1910.00177).

    One network learns policy and value together, on recent unrolls (SEED's way); the paper has two networks, and a
    replay. Importance ratios play no part.
    """

    Config = AWRConfig
    histogram_edges = {"weight": tuple(10.0 ** (power / 10) for power in range(-30, 31))}

    def loss(self, network: Network, *, batch: Batch, config: AWRConfig) -> Loss:
        """Weighted imitation, value loss and entropy of a minibatch, as means over its T·B steps."""
        output: PolicyValueOutput = self.outputs(network, batch)
        logits, values = output.policy_logits[:-1].float(), output.value[:-1].float()
        before, acted = batch.behaviour["value"], batch.behaviour["policy_logits"][:-1]
        policy, scaled = self.distribution, self.in_deviations
        r_t, discount_t = self.rewards_and_discounts(batch, config)
        advantages = generalised_advantages(before, r_t=r_t, discount_t=discount_t, lambda_=config.lambda_)
        returns = advantages + before[:-1]
        weights = targets.imitation_weights(
            normalised(scaled(advantages), self.peers), temperature=config.temperature, largest=config.largest_weight)
        bonus = self.entropy_bonus(logits, config=config)
        penalty = self.kl_penalty(logits, behaviour_logits=acted, config=config)
        terms = {
            "policy_loss": targets.weighted_imitation_loss(
                policy.log_prob(logits, actions=batch.action[:-1]), weights=weights),
            "baseline_loss": config.baseline_cost * baseline_loss(scaled(values), targets=scaled(returns)),
            **bonus.terms,
            **penalty.terms,
        }
        return Loss.of(terms, scalars={**bonus.scalars, **penalty.scalars, **self.normalisation()},
                       samples={"weight": weights}, value_targets=returns)

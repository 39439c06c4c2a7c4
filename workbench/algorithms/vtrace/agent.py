"""V-trace as the learner uses it: the loss of a batch."""

from __future__ import annotations

import torch

from workbench.algorithms.baseline import baseline_loss
from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import Loss, Network, PolicyValueOutput
from workbench.algorithms.regularization import RegularizedAlgorithm
from workbench.algorithms.vtrace import targets
from workbench.algorithms.vtrace.config import VTraceConfig


class VTrace(RegularizedAlgorithm):
    """IMPALA's algorithm (arXiv 1802.01561) with SEED RL's additions."""

    Config = VTraceConfig
    histogram_edges = {
        "importance_ratio": tuple(10.0 ** (power / 10) for power in range(-20, 21))
    }

    def loss(self, network: Network, *, batch: Batch, config: VTraceConfig) -> Loss:
        """Policy gradient, value, entropy and KL losses of a batch, as means over its T·B steps.

        Step T only bootstraps.
        """
        output: PolicyValueOutput = self.outputs(network, batch)
        logits_tm1, v_tm1 = output.policy_logits[:-1].float(), output.value[:-1].float()
        a_tm1, behaviour_logits_tm1 = batch.action[:-1], batch.behaviour["policy_logits"][:-1]
        policy, scaled = self.distribution, self.in_deviations
        log_rho_tm1 = targets.log_importance_ratios(
            logits_tm1.detach(), behaviour_logits=behaviour_logits_tm1, actions=a_tm1, distribution=policy
        )
        r_t, discount_t = self.rewards_and_discounts(batch, config)
        corrected = targets.vtrace_targets(
            v_tm1,
            bootstrap_value=output.value[-1].float(),
            r_t=r_t,
            discount_t=discount_t,
            rho_tm1=log_rho_tm1.exp() if config.off_policy_correction else torch.ones_like(log_rho_tm1),
            lambda_=config.lambda_,
            rho_clip=config.rho_clip,
            c_clip=config.c_clip,
            pg_rho_clip=config.pg_rho_clip,
        )
        bonus = self.entropy_bonus(logits_tm1, config=config)
        penalty = self.kl_penalty(logits_tm1, behaviour_logits=behaviour_logits_tm1, config=config)
        terms = {
            "policy_loss": targets.policy_gradient_loss(
                logits_tm1, actions=a_tm1, advantages=scaled(corrected.pg_advantages), distribution=policy
            ),
            "baseline_loss": config.baseline_cost * baseline_loss(scaled(v_tm1), targets=scaled(corrected.vs)),
            **bonus.terms,
            **penalty.terms,
        }
        return Loss.of(terms, scalars={**bonus.scalars, **penalty.scalars, **self.normalisation()},
                       samples={"importance_ratio": log_rho_tm1.exp()}, value_targets=corrected.vs)

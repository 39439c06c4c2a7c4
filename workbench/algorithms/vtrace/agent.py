"""V-trace as the learner uses it: the loss of a batch, and an entropy cost that may adapt."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import Algorithm, Loss, Network, PolicyValueOutput
from workbench.algorithms.vtrace import targets
from workbench.algorithms.vtrace.config import VTraceConfig
from workbench.algorithms.vtrace.entropy_cost import EntropyCost
from workbench.trajectory import EnvironmentSpec


class VTrace(Algorithm):
    """IMPALA's algorithm (arXiv 1802.01561) with SEED RL's additions."""

    histogram_edges = {
        "importance_ratio": tuple(10.0 ** (power / 10) for power in range(-20, 21))
    }

    def __init__(self, config: VTraceConfig, *, spec: EnvironmentSpec) -> None:
        super().__init__(config, spec=spec)
        self.entropy_cost = EntropyCost(config.entropy_cost_speed)

    def loss(self, network: Network, *, batch: Batch, config: VTraceConfig) -> Loss:
        """Policy gradient, value, entropy and KL losses of a batch, as means over its T·B steps.

        Step T only bootstraps.
        """
        output: PolicyValueOutput = self.outputs(network, batch)
        logits_tm1, v_tm1 = output.policy_logits[:-1].float(), output.value[:-1].float()
        a_tm1, behaviour_logits_tm1 = batch.action[:-1], batch.behaviour["policy_logits"][:-1]
        policy = self.distribution
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
        entropy = targets.entropy(logits_tm1, distribution=policy)
        entropy_loss, entropy_cost = self.entropy_cost.losses(
            entropy, entropy_cost=config.entropy_cost, target_entropy=config.target_entropy
        )
        terms = {
            "policy_loss": targets.policy_gradient_loss(
                logits_tm1, actions=a_tm1, advantages=corrected.pg_advantages, distribution=policy
            ),
            "baseline_loss": config.baseline_cost * targets.baseline_loss(v_tm1, targets=corrected.vs),
            "entropy_loss": entropy_loss,
            "kl_loss": config.kl_cost * targets.kl_to_behaviour(
                logits_tm1, behaviour_logits=behaviour_logits_tm1, distribution=policy
            ),
        }
        total = torch.stack(list(terms.values())).sum()
        scalars = {"loss": total, **terms, "entropy": entropy, "entropy_cost": entropy_cost}
        detached = {name: value.detach() for name, value in scalars.items()}
        return Loss(total, detached, {"importance_ratio": log_rho_tm1.exp()})

    def to(self, device: torch.device | str) -> VTrace:
        """Returns itself, with the entropy cost's parameter on `device`."""
        self.entropy_cost.parameter = nn.Parameter(self.entropy_cost.parameter.detach().to(device))
        return self

    def parameters(self) -> list[nn.Parameter]:
        """The entropy cost's parameter, which has a gradient only while a target entropy is set."""
        return [self.entropy_cost.parameter]

    def state(self) -> dict[str, Tensor]:
        return self.entropy_cost.state()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.entropy_cost.load_state(state)

"""V-trace as the learner uses it: how to act, which outputs to store with each step, and the loss of a batch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from workbench.algorithms import vtrace
from workbench.algorithms.batch import Batch
from workbench.algorithms.distributions import distribution_of
from workbench.algorithms.entropy_cost import EntropyCost
from workbench.algorithms.episode_ends import rewards_and_discounts
from workbench.algorithms.frame_stacking import stack_frames
from workbench.algorithms.interface import Heads, Loss, Network, PolicyValueOutput, Roles
from workbench.config import VTraceConfig
from workbench.trajectory import NO_DISCOUNT, EnvironmentSpec, FieldSpec, Flags


class VTrace:
    """IMPALA's algorithm (arXiv 1802.01561) with SEED RL's additions. Implements `algorithms.interface.Algorithm`."""

    overlap = 0
    heads = Heads(PolicyValueOutput)
    histogram_edges: Mapping[str, tuple[float, ...]] = {
        "importance_ratio": tuple(10.0 ** (power / 10) for power in range(-20, 21))
    }

    def __init__(self, config: VTraceConfig, *, spec: EnvironmentSpec) -> None:
        self.distribution = distribution_of(spec.actions)
        self._parameters = spec.actions.parameters
        self.entropy_cost = EntropyCost(config.entropy_cost_speed)

    def behaviour_fields(self) -> dict[str, FieldSpec]:
        """The behaviour's logits (its distribution's parameters) for importance ratios, and its value for display."""
        return {"policy_logits": ((self._parameters,), "float32"), "value": ((), "float32")}

    def act(
        self,
        output: PolicyValueOutput,
        *,
        roles: Roles,
        greedy: bool,
        generator: torch.Generator | None,
        config: VTraceConfig,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions [B, *action], sampled from the policy or its mode, and the behaviour fields, for an output of T=1.

        `roles` are ignored: the policy itself explores.
        """
        logits, value = output.policy_logits[0].float(), output.value[0].float()
        policy = self.distribution
        actions = policy.mode(logits) if greedy else policy.sample(logits, generator=generator)
        return actions, {"policy_logits": logits, "value": value}

    def bootstrap(self, output: PolicyValueOutput) -> Tensor:
        return output.value[0].float()

    def loss(self, network: Network, *, batch: Batch, config: VTraceConfig) -> Loss:
        """Policy gradient, value, entropy and KL losses of a batch, as means over its T·B steps.

        Step T only bootstraps.
        """
        start = batch.start
        stacked = stack_frames(batch.observation, stack_prefix=batch.stack_prefix, start=start)
        output, _ = network(stacked, batch.previous_action, batch.reward, start, batch.initial_state)
        return self._loss_of(output, batch, config)

    def _loss_of(self, output: PolicyValueOutput, batch: Batch, config: VTraceConfig) -> Loss:
        logits_tm1, v_tm1 = output.policy_logits[:-1].float(), output.value[:-1].float()
        a_tm1, behaviour_logits_tm1 = batch.action[:-1], batch.behaviour["policy_logits"][:-1]
        policy = self.distribution
        log_rho_tm1 = vtrace.log_importance_ratios(
            logits_tm1.detach(), behaviour_logits=behaviour_logits_tm1, actions=a_tm1, distribution=policy
        )
        r_t, discount_t = rewards_and_discounts(
            batch.reward[1:],
            ended=batch.has(NO_DISCOUNT)[1:],
            truncated=batch.has(Flags.TRUNCATED)[1:],
            bootstrap_values=batch.bootstrap_value[1:],
            discount=config.discount,
            max_abs_reward=config.max_abs_reward,
            reward_scale=config.reward_scale,
        )
        targets = vtrace.vtrace_targets(
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
        entropy = vtrace.entropy(logits_tm1, distribution=policy)
        entropy_loss, entropy_cost = self.entropy_cost.losses(
            entropy, entropy_cost=config.entropy_cost, target_entropy=config.target_entropy
        )
        terms = {
            "policy_loss": vtrace.policy_gradient_loss(
                logits_tm1, actions=a_tm1, advantages=targets.pg_advantages, distribution=policy
            ),
            "baseline_loss": config.baseline_cost * vtrace.baseline_loss(v_tm1, targets=targets.vs),
            "entropy_loss": entropy_loss,
            "kl_loss": config.kl_cost * vtrace.kl_to_behaviour(
                logits_tm1, behaviour_logits=behaviour_logits_tm1, distribution=policy
            ),
        }
        total = torch.stack(list(terms.values())).sum()
        scalars = {"loss": total, **terms, "entropy": entropy, "entropy_cost": entropy_cost}
        detached = {name: value.detach() for name, value in scalars.items()}
        return Loss(total, detached, {"importance_ratio": log_rho_tm1.exp()})

    def prepare(self, network: nn.Module) -> None:
        """Nothing to do."""

    def updated(self, network: nn.Module, *, updates: int, config: VTraceConfig) -> None:
        """Nothing to do."""

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

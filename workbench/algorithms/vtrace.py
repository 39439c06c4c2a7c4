"""V-trace as pure functions of tensors: targets, losses, and what they are made of.

Source: IMPALA (Espeholt et al. 2018, arXiv 1802.01561), with what SEED RL (arXiv 1910.06591) added: means instead of
sums, λ, and a KL cost. Tensors are time-major: [T, B]. Index t runs over the T steps trained on; `rewards[t]` and
`discounts[t]` belong to the transition from x_t into x_{t+1}.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from workbench.algorithms.distributions import CATEGORICAL, Distribution


class VTraceTargets(NamedTuple):
    """Targets without gradients.

    Attributes:
        vs: v_t, the targets of the values, [T, B].
        pg_advantages: min(ρ̄_pg, ρ_t)·(r_t + γ_t v_{t+1} - V(x_t)), the weights of the policy gradient, [T, B].
    """

    vs: Tensor
    pg_advantages: Tensor


def log_probabilities(policy_logits: Tensor, *, actions: Tensor, distribution: Distribution = CATEGORICAL) -> Tensor:
    """log π(a_t | x_t), [T, B], from logits (a distribution's parameters) [T, B, A] and actions [T, B, *action]."""
    return distribution.log_prob(policy_logits, actions=actions)


def log_importance_ratios(
    target_logits: Tensor, *, behaviour_logits: Tensor, actions: Tensor, distribution: Distribution = CATEGORICAL
) -> Tensor:
    """log π(a_t | x_t) - log μ(a_t | x_t), [T, B], from logits [T, B, A] of the target π and the behaviour μ."""
    target = distribution.log_prob(target_logits, actions=actions)
    return target - distribution.log_prob(behaviour_logits, actions=actions)


@torch.no_grad()
def vtrace_targets(
    values: Tensor,
    *,
    bootstrap_value: Tensor,
    rewards: Tensor,
    discounts: Tensor,
    rhos: Tensor,
    lambda_: float = 1.0,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
    pg_rho_clip: float = 1.0,
) -> VTraceTargets:
    """V-trace targets and policy-gradient advantages; no gradient flows through them.

        v_t = V(x_t) + Σ_{k=t}^{T-1} (Π_{i=t}^{k-1} γ_i c_i) δ_k                    (eq. 1)
        δ_k = min(ρ̄, ρ_k) (r_k + γ_k V(x_{k+1}) - V(x_k)),   c_i = λ min(c̄, ρ_i)
        A_t = min(ρ̄_pg, ρ_t) (r_t + γ_t v_{t+1} - V(x_t))                           (eq. 4 and section 4.2)

    computed backwards in time (remark 1): v_t = V(x_t) + δ_t + γ_t c_t (v_{t+1} - V(x_{t+1})), v_T = V(x_T).

    Args:
        values: V(x_t), [T, B].
        bootstrap_value: V(x_T), [B].
        rewards: r_t, [T, B].
        discounts: γ_t, [T, B]; 0 where the transition ended an episode.
        rhos: importance ratios π/μ, not clipped, [T, B].
        lambda_: λ of remark 2.
        rho_clip, c_clip, pg_rho_clip: ρ̄, c̄, and ρ̄ of the policy gradient.
    """
    values_tp1 = torch.cat([values[1:], bootstrap_value.unsqueeze(0)])
    deltas = rhos.clamp(max=rho_clip) * (rewards + discounts * values_tp1 - values)
    traces = discounts * lambda_ * rhos.clamp(max=c_clip)
    correction = torch.zeros_like(bootstrap_value)  # v_t - V(x_t)
    corrections = []
    for t in reversed(range(len(values))):
        correction = deltas[t] + traces[t] * correction
        corrections.append(correction)
    vs = values + torch.stack(corrections[::-1])
    vs_tp1 = torch.cat([vs[1:], bootstrap_value.unsqueeze(0)])
    return VTraceTargets(vs, rhos.clamp(max=pg_rho_clip) * (rewards + discounts * vs_tp1 - values))


def policy_gradient_loss(
    policy_logits: Tensor, *, actions: Tensor, advantages: Tensor, distribution: Distribution = CATEGORICAL
) -> Tensor:
    """-mean_t,b A_t log π(a_t | x_t), a scalar; A has no gradient (section 4.2)."""
    return -(advantages.detach() * distribution.log_prob(policy_logits, actions=actions)).mean()


def baseline_loss(values: Tensor, *, targets: Tensor) -> Tensor:
    """½ mean_t,b (v_t - V(x_t))², a scalar; the targets have no gradient (section 4.2, halved as in SEED)."""
    return 0.5 * (targets.detach() - values).square().mean()


def entropy(policy_logits: Tensor, *, distribution: Distribution = CATEGORICAL) -> Tensor:
    """mean_t,b of H[π(· | x_t)] (-Σ_a π log π where actions are choices), a scalar in nats."""
    return distribution.entropy(policy_logits).mean()


def kl_to_behaviour(
    policy_logits: Tensor, *, behaviour_logits: Tensor, distribution: Distribution = CATEGORICAL
) -> Tensor:
    """mean_t,b of KL(μ ‖ π) (Σ_a μ (log μ - log π) where actions are choices), a scalar in nats.

    SEED estimates it by log μ(a_t) - log π(a_t); the sum over actions is that estimate's mean, without its noise.
    """
    return distribution.kl(behaviour_logits, policy_logits).mean()

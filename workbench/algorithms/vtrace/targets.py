"""V-trace as pure functions of tensors: targets, losses and their terms.

Source: IMPALA (Espeholt et al. 2018, arXiv 1802.01561), with SEED RL's additions (arXiv 1910.06591): means instead of
sums, λ, and a KL cost. Tensors are time-major: [T, B]. As in rlax and in `workbench.trajectory`, r_t and γ_t belong to
the transition into x_t: a name ending in `_t` holds steps 1 … T, one ending in `_tm1` steps 0 … T-1.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from workbench.algorithms.backward_sums import backward_sums
from workbench.algorithms.distributions import CATEGORICAL, Distribution


class VTraceTargets(NamedTuple):
    """Targets without gradients.

    Attributes:
        vs: v_{t-1}, the targets of the values, [T, B].
        pg_advantages: A_{t-1}, the weights of the policy gradient, [T, B].
    """

    vs: Tensor
    pg_advantages: Tensor


def log_importance_ratios(
    target_logits: Tensor, *, behaviour_logits: Tensor, actions: Tensor, distribution: Distribution = CATEGORICAL
) -> Tensor:
    """log π(a|x) - log μ(a|x), [T, B], from logits [T, B, A] of the target π and the behaviour μ."""
    target = distribution.log_prob(target_logits, actions=actions)
    return target - distribution.log_prob(behaviour_logits, actions=actions)


@torch.no_grad()
def vtrace_targets(
    v_tm1: Tensor,
    *,
    bootstrap_value: Tensor,
    r_t: Tensor,
    discount_t: Tensor,
    rho_tm1: Tensor,
    lambda_: float = 1.0,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
    pg_rho_clip: float = 1.0,
) -> VTraceTargets:
    """V-trace targets and policy-gradient advantages; no gradient flows through them.

        v_{t-1} = V(x_{t-1}) + Σ_{k=t}^{T} (Π_{i=t}^{k-1} γ_i c_{i-1}) δ_k           (eq. 1)
        δ_k     = min(ρ̄, ρ_{k-1}) (r_k + γ_k V(x_k) - V(x_{k-1})),   c_i = λ min(c̄, ρ_i)
        A_{t-1} = min(ρ̄_pg, ρ_{t-1}) (r_t + γ_t v_t - V(x_{t-1}))                    (eq. 4 and section 4.2)

    computed backwards in time (remark 1): v_{t-1} = V(x_{t-1}) + δ_t + γ_t c_{t-1} (v_t - V(x_t)), v_T = V(x_T).

    Args:
        v_tm1: V(x_{t-1}), [T, B].
        bootstrap_value: V(x_T), [B].
        r_t: [T, B].
        discount_t: γ_t, [T, B]; 0 where the transition ended an episode.
        rho_tm1: importance ratios π/μ of a_{t-1}, not clipped, [T, B].
        lambda_: λ of remark 2.
        rho_clip, c_clip, pg_rho_clip: ρ̄, c̄, and ρ̄ of the policy gradient.
    """
    v_t = torch.cat([v_tm1[1:], bootstrap_value.unsqueeze(0)])
    delta_t = rho_tm1.clamp(max=rho_clip) * (r_t + discount_t * v_t - v_tm1)
    trace_t = discount_t * lambda_ * rho_tm1.clamp(max=c_clip)
    vs_tm1 = v_tm1 + backward_sums(delta_t, trace_t)  # the corrections v_{t-1} - V(x_{t-1})
    vs_t = torch.cat([vs_tm1[1:], bootstrap_value.unsqueeze(0)])
    return VTraceTargets(vs_tm1, rho_tm1.clamp(max=pg_rho_clip) * (r_t + discount_t * vs_t - v_tm1))


def policy_gradient_loss(
    policy_logits: Tensor, *, actions: Tensor, advantages: Tensor, distribution: Distribution = CATEGORICAL
) -> Tensor:
    """-mean_t,b A log π(a|x), a scalar; A has no gradient (section 4.2)."""
    return -(advantages.detach() * distribution.log_prob(policy_logits, actions=actions)).mean()

"""SAC's targets and losses as pure functions of tensors. Source: Haarnoja et al. 2018, arXiv 1812.05905, section 4-5.

Critics come in pairs: [2, ...]. Where actions are choices, expectations are sums over them (arXiv 1910.07207).
"""

from __future__ import annotations

from torch import Tensor


def soft_value(q_values: Tensor, *, log_probs: Tensor, temperature: Tensor) -> Tensor:
    """V(x) = min Q(x, a) - α log π(a|x) of a sampled action (eq. 3), of the shape of `log_probs`.

    Args:
        q_values: of both critics for that action, [2, ...].
    """
    return q_values.amin(0) - temperature * log_probs


def soft_value_of_choices(q_values: Tensor, *, log_policy: Tensor, temperature: Tensor) -> Tensor:
    """V(x) = Σ_a π(a|x) (min Q(x, a) - α log π(a|x)) (arXiv 1910.07207, eq. 10), [...].

    Args:
        q_values: of both critics for all actions, [2, ..., A].
        log_policy: log π, [..., A].
    """
    return (log_policy.exp() * (q_values.amin(0) - temperature * log_policy)).sum(-1)


def critic_loss(q_values: Tensor, *, targets: Tensor, weights: Tensor) -> Tensor:
    """Σ over both critics of ½ mean w (y - Q(x, a))² (eq. 5), a scalar; the targets have no gradient.

    Args:
        q_values: [2, T, B].
        targets: y, [T, B].
        weights: of the unrolls, [B].
    """
    return 0.5 * (weights * (targets.detach() - q_values).square()).mean((1, 2)).sum()


def temperature_loss(log_temperature: Tensor, *, entropy: Tensor, target: Tensor | float) -> Tensor:
    """α (H - H_target), a scalar (eq. 18): α falls while the policy has more entropy than the target.

    Args:
        log_temperature: log α.
        entropy: H[π], estimated; has no gradient here.
    """
    return log_temperature.exp() * (entropy.detach() - target)

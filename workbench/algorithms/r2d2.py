"""R2D2 as pure functions of tensors: value rescaling, n-step double-Q targets, priorities of sequences, exploration.

Sources: R2D2 (Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement learning", section
2.3), value rescaling (Pohlen et al. 2018, arXiv 1805.11593), Ape-X (Horgan et al. 2018, arXiv 1803.00933). Tensors are
time-major: [T, B]. Index t runs over the T steps trained on; `rewards[t]` and `discounts[t]` belong to the transition
from x_t into x_{t+1}, as `returns.rewards_and_discounts` gives them.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rescale(x: Tensor, *, epsilon: float) -> Tensor:
    """h(x) = sign(x)(√(|x|+1) - 1) + εx, of x's shape (Pohlen et al., proposition A.2).

    Computed as x·(1/(√(|x|+1) + 1) + ε), which subtracts nothing and so keeps float32's precision near 0.
    """
    return x * (1 / ((x.abs() + 1).sqrt() + 1) + epsilon)


def unrescale(y: Tensor, *, epsilon: float) -> Tensor:
    """h⁻¹(y), the x for which `rescale` gives y, of y's shape.

    With u = √(|x|+1) - 1, |y| = εu² + (1+2ε)u and |x| = u(u+2). The root u is taken in the form that subtracts nothing,

        u = 2|y| / (1 + 2ε + √((1+2ε)² + 4ε|y|))

    where the paper's closed form, ((√(1 + 4ε(|y|+1+ε)) - 1)/2ε)² - 1, loses the digits of small values in float32.
    """
    slope = 1 + 2 * epsilon
    u = 2 * y / (slope + (slope**2 + 4 * epsilon * y.abs()).sqrt())  # with y's sign
    return u * (u.abs() + 2)


def q_values_of(q_values: Tensor, *, actions: Tensor) -> Tensor:
    """Q(x_t, a_t), [T, B], from values [T, B, A] and actions int64 [T, B]."""
    return q_values.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def double_q_values(online: Tensor, *, target: Tensor) -> Tensor:
    """Q_target(x, argmax_a Q_online(x, a)), [T, B], from the values of both, [T, B, A] (arXiv 1509.06461, eq. 4)."""
    return q_values_of(target, actions=online.argmax(-1))


def n_step_targets(values: Tensor, *, rewards: Tensor, discounts: Tensor, n_steps: int) -> Tensor:
    """n-step returns with a bootstrap, [T, B], in units of return.

        y_t = Σ_{k<m} (Π_{i<k} γ_{t+i}) r_{t+k} + (Π_{i<m} γ_{t+i}) V(x_{t+m}),   m = min(n, T-t)

    An episode's end inside is a γ of 0, with what a truncated one is worth already in its reward. The last n-1 targets
    are of fewer steps, as the unroll says nothing after x_T.

    Args:
        values: V(x_t), [T+1, B], in units of return.
        rewards: r_t, [T, B].
        discounts: γ_t, [T, B]; 0 where the transition ended an episode.
        n_steps: n.
    """
    targets = values.clone()  # of 0 steps; each pass makes those of one step more, from the next step's
    for _ in range(min(n_steps, len(rewards))):
        targets[:-1] = torch.addcmul(rewards, discounts, targets[1:])
    return targets[:-1]


def sequence_loss(td_errors: Tensor, *, weights: Tensor) -> Tensor:
    """mean_b w_b ½ Σ_t δ², a scalar, from errors [T, B] and importance weights [B]."""
    return 0.5 * (weights * td_errors.square().sum(0)).mean()


def sequence_priorities(td_errors: Tensor, *, max_share: float) -> Tensor:
    """p = η max_t |δ_t| + (1-η) mean_t |δ_t|, [B], from errors [T, B] (R2D2, section 2.3).

    Args:
        max_share: η.
    """
    magnitudes = td_errors.abs()
    return max_share * magnitudes.amax(0) + (1 - max_share) * magnitudes.mean(0)


def epsilons(ranks: Tensor, *, base: float, first_power: float, last_power: float) -> Tensor:
    """ε of every environment, [N]: base^x, x even from the first power at rank 0 to the last at rank 1 (Ape-X)."""
    return torch.pow(base, first_power + ranks * (last_power - first_power))

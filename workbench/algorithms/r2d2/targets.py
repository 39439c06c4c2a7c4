"""R2D2 as pure functions of tensors: value rescaling, n-step double-Q targets, sequence priorities.

Sources: R2D2 (Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement learning", section
2.3), value rescaling (Pohlen et al. 2018, arXiv 1805.11593). Tensors are time-major: [T, B]. As in rlax and in
`workbench.trajectory`, r_t and γ_t belong to the transition into x_t: a name ending in `_t` holds steps 1 … T, one
ending in `_tm1` steps 0 … T-1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from workbench.algorithms.q_learning import q_values_of


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


def double_q_values(online: Tensor, *, target: Tensor) -> Tensor:
    """Q_target(x, argmax_a Q_online(x, a)), [T, B], from the values of both, [T, B, A] (arXiv 1509.06461, eq. 4)."""
    return q_values_of(target, actions=online.argmax(-1))


def n_step_targets(values: Tensor, *, r_t: Tensor, discount_t: Tensor, n_steps: int) -> Tensor:
    """n-step returns with a bootstrap, y_{t-1}, [T, B], in units of return.

        y_{t-1} = Σ_{k<m} (Π_{i<k} γ_{t+i}) r_{t+k} + (Π_{i<m} γ_{t+i}) V(x_{t-1+m}),   m = min(n, T+1-t)

    Where an episode ended, γ is 0, and a truncated episode's bootstrap value is already in its reward. The last n-1
    targets have fewer steps, because the unroll ends at x_T.

    Args:
        values: V(x_0) … V(x_T), [T+1, B], in units of return.
        r_t: [T, B].
        discount_t: γ_t, [T, B]; 0 where the transition ended an episode.
        n_steps: n.
    """
    targets = values.clone()  # the 0-step targets; each pass looks one step further ahead
    for _ in range(min(n_steps, len(r_t))):
        targets[:-1] = torch.addcmul(r_t, discount_t, targets[1:])
    return targets[:-1]


def sequence_loss(td_errors: Tensor, *, weights: Tensor) -> Tensor:
    """mean_b w_b ½ Σ_t δ_t², a scalar, from errors [T, B] and importance weights [B]."""
    return 0.5 * (weights * td_errors.square().sum(0)).mean()


def sequence_priorities(td_errors: Tensor, *, max_share: float) -> Tensor:
    """p = η max_t |δ_t| + (1-η) mean_t |δ_t|, [B], from errors [T, B] and η = `max_share` (R2D2, section 2.3)."""
    magnitudes = td_errors.abs()
    return max_share * magnitudes.amax(0) + (1 - max_share) * magnitudes.mean(0)

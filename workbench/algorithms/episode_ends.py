"""How the ends of episodes enter the targets of every algorithm. Tensors are time-major: [T, B], of steps 1 … T."""

from __future__ import annotations

import torch
from torch import Tensor


def rewards_and_discounts(
    rewards: Tensor,
    *,
    ended: Tensor,
    truncated: Tensor,
    bootstrap_values: Tensor,
    discount: float,
    max_abs_reward: float,
    reward_scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Rewards r'_t and discounts γ_t, [T, B], with the ends of episodes in them.

        r'_t = clip(scale·r_t, ±max_abs_reward) + γ V(x_final) [truncated]
        γ_t  = γ [neither ended nor truncated]

    So the target of a truncated transition bootstraps from the true final observation, and no trace crosses it.

    Args:
        rewards: r_t, [T, B].
        ended: bool [T, B], no later reward counts (terminated, or a life lost); wins over `truncated`.
        truncated: bool [T, B], cut off by a time limit.
        bootstrap_values: V(x_final), [T, B], read only where truncated.
        discount: γ.
        max_abs_reward: 0 for no clipping.
        reward_scale: factor of the rewards before clipping.
    """
    if reward_scale != 1.0:
        rewards = rewards * reward_scale
    if max_abs_reward > 0:
        rewards = rewards.clamp(-max_abs_reward, max_abs_reward)
    bootstrapped = rewards + discount * bootstrap_values
    rewards = torch.where(truncated & ~ended, bootstrapped, rewards)
    return rewards, discount * (~(ended | truncated)).to(rewards.dtype)

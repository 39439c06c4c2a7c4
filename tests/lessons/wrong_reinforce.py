"""Answers to the exercises of lesson 10 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

import torch

from workbench.lessons.exercises.reinforce import returns


def _ignores_ends(rewards: Any, discounts: Any) -> Any:
    return returns(rewards, torch.full_like(discounts, 0.5))


def _loses_the_last_reward(rewards: Any, discounts: Any) -> Any:
    return returns(rewards * (discounts > 0), discounts)


def _whole_return(rewards: Any, discounts: Any) -> Any:
    return returns(rewards, discounts)[:1].expand_as(rewards)


def _in_reverse(rewards: Any, discounts: Any) -> Any:
    return returns(rewards, discounts).flip(0)


def _four_steps_of_two_unrolls(rewards: Any, discounts: Any) -> Any:
    found, later = torch.zeros(4, 2), torch.zeros(2)
    for t in (3, 2, 1, 0):
        found[t] = later = rewards[t] + discounts[t] * later
    return found


def _a_list(rewards: Any, discounts: Any) -> Any:
    return list(returns(rewards, discounts))


WRONG: dict[str, list[Any]] = {
    "discounted_returns": [_ignores_ends, _loses_the_last_reward, _whole_return, _in_reverse, _a_list,
                           _four_steps_of_two_unrolls],
    "importance_weights": [
        lambda now, acted, cut: (now - acted).exp().clamp(max=cut),
        lambda now, acted, cut: (now - acted).detach().exp(),
        lambda now, acted, cut: (acted - now).detach().exp().clamp(max=cut),
        lambda now, acted, cut: (now / acted).detach().clamp(max=cut),
        lambda now, acted, cut: (now - acted).detach().clamp(max=cut),
    ],
    "counts": [20, 0.1, 40, 200, 0.4],
    "baseline": ["mean", "both", "neither", "bias"],
}

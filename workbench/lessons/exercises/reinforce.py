"""Exercises of lesson 10: the returns of an unroll, importance weights, and what a baseline changes."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# The solutions stand in a lesson as a student would write them.

from __future__ import annotations

from typing import Any

import torch

from workbench.lessons.answers import choice, expect_close, expect_written, number
from workbench.lessons.exercise import Exercise, Wrong

DRAWN, STEPS, NOW = 20, 100, 0.02  # an action in a batch, and its probability after some updates


def returns(rewards, discounts):
    """G_t of each step of B unrolls, from tensors [T, B]; a discount of 0 ends an episode."""
    later = torch.zeros_like(rewards[0])
    found = []
    for reward, discount in zip(reversed(rewards), reversed(discounts), strict=True):
        later = reward + discount * later
        found.append(later)
    return torch.stack(found[::-1])


def _check_returns(answer: Any) -> None:
    ones, half = torch.ones(4, 2), torch.full((4, 2), 0.5)
    ends = half.clone()
    ends[1, 0], ends[3, 1] = 0.0, 0.0
    uneven = torch.tensor([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 8.0]])
    for rewards, discounts, words in (
        (ones, half, "with no end in the unroll"),
        (uneven, half, "with unequal rewards"),
        (uneven, ends, "where an episode ends after the second step of the first unroll"),
        (uneven, torch.zeros(4, 2), "where every step ends an episode"),
        (torch.arange(18.0).view(6, 3), torch.full((6, 3), 0.5), "with three unrolls of six steps"),
    ):
        given = expect_written(answer(rewards, discounts))
        expect_close(_numbers(given), returns(rewards, discounts).numpy(), words,
                     {"rewards": rewards, "discounts": discounts})


def weights(now, acted, cut):
    """min(cut, π/μ) of each action, from log π and log μ; a number to multiply with, so without a gradient."""
    return (now - acted).detach().exp().clamp(max=cut)


def _check_weights(answer: Any) -> None:
    for present, past, cut in (([0.5, 0.2], [0.5, 0.4], 2.0), ([0.9, 0.1], [0.1, 0.9], 2.0), ([0.9], [0.1], 100.0)):
        now, acted = torch.tensor(present).log().requires_grad_(), torch.tensor(past).log()
        given = expect_written(answer(now, acted, cut))
        expect_close(_numbers(given), weights(now, acted, cut).numpy(), "the weight of each action",
                     {"π": present, "μ": past, "cut": cut})
        if given.requires_grad:
            raise Wrong("The numbers are right, but a gradient flows through them: the weight says how much a step "
                        "counts, and only log π is to be made larger or smaller. `detach` it.")


def _numbers(answer: Any) -> Any:
    if not isinstance(answer, torch.Tensor):
        raise Wrong(f"It returns {type(answer).__name__}, where a tensor is needed.")
    return answer.detach().numpy()


discounted_returns = Exercise(
    _check_returns, returns,
    why="From the back: what comes later is discounted once more at each step, and forgotten where the discount is 0.",
)
importance_weights = Exercise(
    _check_weights, weights,
    why="exp(log π − log μ) is π/μ. Cut, since one huge weight would outvote the rest of the batch; detached, since it "
        "is a weight and no part of what is learnt.",
)
counts = number(
    STEPS * NOW, "the sum of its weights", {"steps with the action": DRAWN, "π/μ": NOW * STEPS / DRAWN},
    hints={DRAWN: "So often it is in the batch; that is what it counts without weights.",
           NOW * STEPS / DRAWN: "That is the weight of one of the steps. How many of them are there?"},
    why="20 steps with a weight of 0.02 / 0.2 = 0.1 each count like 2: as often as π chooses the action in 100 steps.",
)
baseline = choice(
    "variance", {
        "mean": "The mean over actions of ∇ log π is 0, so a number that does not depend on the action drops out.",
        "both": "One of them stays: the mean over actions of ∇ log π is 0, whatever it is multiplied with.",
        "neither": "Think of G = 20 or 21, and of 0 or 1: which of them makes larger steps to and fro?",
    },
    why="Σ_a π(a|x) ∇ log π(a|x) = ∇ Σ_a π(a|x) = ∇ 1 = 0, so V(x) times it is 0 on average. What is left is noise "
        "that all actions have in common.",
)

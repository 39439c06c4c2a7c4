"""Exercises of lesson 4: R2D2's target and priorities."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# The solutions stand in a lesson as a student would write them.

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from workbench.algorithms.r2d2 import targets as learner
from workbench.lessons.answers import compared, expect_written
from workbench.lessons.exercise import Exercise, Wrong

EPSILON = 1e-3
_POINTS = np.array([-10_000.0, -100.0, -3.0, -0.5, 0.0, 0.5, 3.0, 100.0, 10_000.0])
_RESCALED = ((_POINTS, 1e-3, "for ε = 0.001 and an array"), (_POINTS, 0.1, "for ε = 0.1 and an array"),
             (100.0, 1e-3, "for ε = 0.001 and a number alone"))


def h(x, epsilon=1e-3):
    """A return x, or an array of them, made small."""
    return np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + epsilon * x


def h_inverse(y, epsilon=1e-3):
    """The return x of which h makes y."""
    root = (np.sqrt(1 + 4 * epsilon * (np.abs(y) + 1 + epsilon)) - 1) / (2 * epsilon)
    return np.sign(y) * (root**2 - 1)


def targets(online, target, rewards, discounts, n, h, h_inverse):
    """Targets y_0 ... y_{T-1} of one unroll: n-step, double Q, rescaled."""
    steps, y = len(rewards), []
    for t in range(steps):
        last = min(t + n, steps)
        best = np.argmax(online[last])
        value = h_inverse(target[last, best])
        for k in reversed(range(t, last)):
            value = rewards[k] + discounts[k] * value
        y.append(h(value))
    return np.array(y)


def _case(*, n: int, end: int | None = None) -> dict[str, Any]:
    discounts = np.full(4, 0.9)
    if end is not None:
        discounts[end] = 0.0
    return {
        "online": np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0], [0.5, 0.6], [2.0, 4.0]]),
        "target": np.array([[0.0, 5.0], [6.0, 1.0], [2.0, 7.0], [9.0, 3.0], [8.0, 1.5]]),
        "rewards": np.array([1.0, -2.0, 3.0, 10.0]), "discounts": discounts, "n": n, "h": h, "h_inverse": h_inverse,
    }  # fmt: skip


def _another_size() -> dict[str, Any]:
    """An unroll of six steps, and a choice of three actions."""
    random = np.random.default_rng(0)
    online, target = random.permutation(42).reshape(2, 7, 3) / 4
    return {"online": online, "target": target, "rewards": random.integers(-4, 5, 6) / 2,
            "discounts": np.full(6, 0.9), "n": 3, "h": h, "h_inverse": h_inverse}


def _targets(online: Any, target: Any, rewards: Any, discounts: Any, n: int, **_: Any) -> Any:
    """The same by the functions that the learner uses."""
    online, target = (torch.as_tensor(array).unsqueeze(1) for array in (online, target))
    reward_t, discount_t = (torch.as_tensor(array).unsqueeze(1) for array in (rewards, discounts))
    values = learner.unrescale(learner.double_q_values(online, target=target), epsilon=EPSILON)
    returns = learner.n_step_targets(values, r_t=reward_t, discount_t=discount_t, n_steps=n)
    return learner.rescale(returns, epsilon=EPSILON).squeeze(1).numpy()


def priority(errors, eta=0.9):
    """Priority of a sequence from its TD errors."""
    sizes = np.abs(errors)
    return eta * sizes.max() + (1 - eta) * sizes.mean()


def _priority(errors: Any, eta: float) -> Any:
    """The same by the function that the learner uses."""
    return learner.sequence_priorities(torch.tensor(errors).unsqueeze(1), max_share=eta)[0]


COIN = float(h_inverse((h(0.0) + h(100.0)) / 2))


def _check_coin(answer: Any) -> None:
    said = float(expect_written(answer))
    if said >= 50:
        raise Wrong(f"{said:g} is the mean return of the coin, or more. The network learns the mean of h instead, and "
                    "h is steep near 0 and flat near 100.")
    if abs(said - COIN) > 0.5:
        raise Wrong(f"{said:g} is not it: take the mean of h(0) and h(100), as the network does, and ask h⁻¹ which "
                    "return that is.")


rescale = compared(h, *_RESCALED, names=("x",), tolerance=1e-6,
                   why="A root takes the size out, and εx keeps the slope from vanishing.")
unrescale = compared(h_inverse, *((h(x, epsilon), epsilon, words) for x, epsilon, words in _RESCALED), names=("y",),
                     tolerance=1e-4,
                     why="Solve y = √(x+1) − 1 + εx for √(x+1): a quadratic equation. The sign goes around it.")
target = compared(targets,
                  (_case(n=1), "with n = 1"),
                  (_case(n=2), "with n = 2, where the last target has only one step left"),
                  (_case(n=2, end=1), "with n = 2 and an episode that ends at the second step (γ is 0 there)"),
                  (_case(n=5), "with n = 5, more than there are steps"),
                  (_another_size(), "with n = 3, six steps and three actions"),
                  names=("online", "target", "rewards", "discounts", "n"), tolerance=1e-4, expected=_targets,
                  why="The online network chooses, the target network values; h⁻¹ before the sum, h after it.")
sequence_priority = compared(priority,
                             (np.array([0.1, -0.5, 0.2]), 0.9, "where the largest error is negative"),
                             (np.array([1.0, 0.0, 0.0, 0.0]), 0.0, "with η = 0"),
                             (np.array([0.3, -0.3, 0.1]), 0.5, "with η = 0.5"), expected=_priority,
                             why="Sizes first, then maximum and mean over the sequence.")
coin = Exercise(_check_coin, round(COIN, 1),
                why="h is concave above 0, so by Jensen's inequality h⁻¹ of the mean of h is below the mean: here "
                    "29.7 instead of 50. Below 0 h is convex, and a coin for 0 or −100 looks like −29.7: better "
                    "than it is.")

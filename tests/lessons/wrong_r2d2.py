"""Answers to the exercises of lesson 4 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.lessons.exercises.r2d2 import h, h_inverse, priority, targets


def _without_sign(x: Any, epsilon: float = 1e-3) -> Any:
    return np.sqrt(np.abs(x) + 1) - 1 + epsilon * x


def _without_epsilon(x: Any, epsilon: float = 1e-3) -> Any:
    return np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1)


def _epsilon_of_the_size(x: Any, epsilon: float = 1e-3) -> Any:
    return np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + epsilon * np.abs(x)


def _inverse_without_epsilon(y: Any, epsilon: float = 1e-3) -> Any:
    return np.sign(y) * ((np.abs(y) + 1) ** 2 - 1)


def _inverse_without_sign(y: Any, epsilon: float = 1e-3) -> Any:
    return np.abs(h_inverse(y, epsilon))


def _not_inverted(y: Any, epsilon: float = 1e-3) -> Any:
    return h(y, epsilon)


def _chosen_by_the_target_network(
    online: Any, target: Any, rewards: Any, discounts: Any, n: Any, h: Any, h_inverse: Any
) -> Any:
    return targets(target, target, rewards, discounts, n, h, h_inverse)


def _valued_by_the_online_network(
    online: Any, target: Any, rewards: Any, discounts: Any, n: Any, h: Any, h_inverse: Any
) -> Any:
    return targets(online, online, rewards, discounts, n, h, h_inverse)


def _without_rescaling(
    online: Any, target: Any, rewards: Any, discounts: Any, n: Any, h: Any, h_inverse: Any
) -> Any:
    return targets(online, target, rewards, discounts, n, lambda x: x, lambda y: y)


def _ignores_ends(online: Any, target: Any, rewards: Any, discounts: Any, n: Any, h: Any, h_inverse: Any) -> Any:
    return targets(online, target, rewards, np.full(len(rewards), 0.9), n, h, h_inverse)


def _an_end_cuts_the_last_value_alone(
    online: Any, target: Any, rewards: Any, discounts: Any, n: Any, h: Any, h_inverse: Any
) -> Any:
    y, gamma = [], discounts.max()
    for t in range(len(rewards)):
        last = min(t + n, len(rewards))
        value = np.prod(discounts[t:last]) * h_inverse(target[last, np.argmax(online[last])])
        y.append(h(sum(gamma**k * rewards[t + k] for k in range(last - t)) + value))
    return np.array(y)


def _four_steps(online: Any, target: Any, rewards: Any, discounts: Any, n: Any, h: Any, h_inverse: Any) -> Any:
    return targets(online[:5], target[:5], rewards[:4], discounts[:4], n, h, h_inverse)


def _two_actions(online: Any, target: Any, rewards: Any, discounts: Any, n: Any, h: Any, h_inverse: Any) -> Any:
    return targets(online[:, :2], target[:, :2], rewards, discounts, n, h, h_inverse)


def _one_by_one(x: Any, epsilon: float = 1e-3) -> Any:
    return np.array([h(each, epsilon) for each in x])


def _one_step(online: Any, target: Any, rewards: Any, discounts: Any, n: Any, h: Any, h_inverse: Any) -> Any:
    return targets(online, target, rewards, discounts, 1, h, h_inverse)


def _of_the_errors_signed(errors: Any, eta: float = 0.9) -> Any:
    return eta * errors.max() + (1 - eta) * errors.mean()


def _shares_swapped(errors: Any, eta: float = 0.9) -> Any:
    return priority(errors, 1 - eta)


def _summed(errors: Any, eta: float = 0.9) -> Any:
    return eta * np.abs(errors).max() + (1 - eta) * np.abs(errors).sum()


WRONG: dict[str, list[Any]] = {
    "rescale": [_without_sign, _without_epsilon, _epsilon_of_the_size, _one_by_one],
    "unrescale": [_inverse_without_epsilon, _inverse_without_sign, _not_inverted],
    "target": [_chosen_by_the_target_network, _valued_by_the_online_network, _without_rescaling, _ignores_ends,
               _one_step, _an_end_cuts_the_last_value_alone, _four_steps, _two_actions],
    "sequence_priority": [_of_the_errors_signed, _shares_swapped, _summed],
    "coin": [50, 100, 4.57, 10],
}

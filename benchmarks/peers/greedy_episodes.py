"""Greedy episodes of a policy of another library. No command line: the scripts in which one learns call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def greedy_returns(asked: dict[str, Any], act: Callable[[Any], Any]) -> list[float]:
    """Returns of as many episodes as are asked for, shared by as many environments as there are seeds.

    Args:
        act: gives the action for an observation.
    """
    import gymnasium

    found, seeds = [], asked["starts"]
    for number, seed in enumerate(seeds):
        environment = gymnasium.make(asked["environment"])
        for episode in range(asked["episodes"] // len(seeds) + (number < asked["episodes"] % len(seeds))):
            (observation, _), over, total = environment.reset(seed=None if episode else seed), False, 0.0
            while not over:
                observation, reward, terminated, truncated, _ = environment.step(act(observation))
                total, over = total + float(reward), terminated or truncated
            found.append(total)
    return found

"""Plays whole episodes with a checkpoint's policy, in a process of its own on the CPU; prints one line of JSON.

Every environment plays its own fixed share of the episodes: whoever counted the first to finish would favour short
ones. Same checkpoint, seed and number of episodes: same returns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from workbench import checkpoints
from workbench.environments.contract import VectorEnvironment
from workbench.learner.player import Player, answer, load_player, make_environment
from workbench.trajectory import ENDS

_LARGEST_GROUP = 8  # environments stepped together


def play_episodes(
    player: Player, environment: VectorEnvironment, *, episodes: int, seed: int, greedy: bool
) -> tuple[list[float], list[int]]:
    """Returns (not clipped) and lengths in steps of `episodes` episodes, by environment and then by time."""
    count = environment.num_envs
    shares = [len(part) for part in np.array_split(np.arange(episodes), count)]
    returns: list[list[float]] = [[] for _ in range(count)]
    lengths: list[list[int]] = [[] for _ in range(count)]
    total, length = np.zeros(count), np.zeros(count, int)
    step = environment.reset(seed=seed)
    while any(len(done) < share for done, share in zip(returns, shares, strict=True)):
        step = environment.step(player.act(step, greedy=greedy))
        total += step.reward
        length += 1
        for row in np.flatnonzero(step.flags & ENDS).tolist():
            if len(returns[row]) < shares[row]:
                returns[row].append(float(total[row]))
                lengths[row].append(int(length[row]))
            total[row], length[row] = 0.0, 0
    return sum(returns, []), sum(lengths, [])


def main(request: str) -> int:
    """Evaluate as `request` (JSON: checkpoint, episodes, seed, greedy) says, and print the result. The exit code."""
    return answer(request, _evaluated)


def _evaluated(checkpoint: str, episodes: int, seed: int, greedy: bool) -> dict[str, Any]:
    found = checkpoints.at(Path(checkpoint))
    num_envs = min(episodes, _LARGEST_GROUP)
    environment = make_environment(found, num_envs=num_envs, seed=seed)
    try:
        player = load_player(found, num_envs=num_envs, seed=seed)
        returns, lengths = play_episodes(player, environment, episodes=episodes, seed=seed, greedy=greedy)
    finally:
        environment.close()
    return {"returns": returns, "lengths": lengths, "environment": environment.spec.name}

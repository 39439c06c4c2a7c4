"""Matches between checkpoints of a game for several agents, and ratings made of them (lesson 14).

    match(first, second, games=40)         # returns of the first one's agents, by game
    win_rates([one, another, third])       # how often each beats each
    elo(win_rates(...))                    # one number for each, as far as one number can say it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from workbench.errors import OutOfBounds
from workbench.trajectory import Array

if TYPE_CHECKING:
    from workbench.checkpoints import Checkpoint

_SIDE_BY_SIDE = 8  # games
_SCALE = 400 / np.log(10)  # points of Elo for each unit of log-odds


def match(first: Checkpoint, second: Checkpoint, *, games: int = 40, seed: int = 0) -> Array:
    """Returns of the agents of `first` against `second`, one for each of its agents in each of `games` games.

    `first` plays the first half of each game's agents, and both sample their actions. Torch is loaded here.
    Raises OutOfBounds for a game of one agent, and what loading a checkpoint raises.
    """
    from workbench.playing.worker.evaluate import play_episodes
    from workbench.policies.player import load_player, make_environment

    agents = first.spec.agents
    if agents < 2:
        raise OutOfBounds(f"one agent plays {first.spec.name}, and a match needs two.")
    rows = min(games, _SIDE_BY_SIDE) * agents
    environment = make_environment(first, num_envs=rows, seed=seed)
    try:
        player = load_player(first, num_envs=rows, seed=seed)
        player.opponent = load_player(second, num_envs=rows, seed=seed + 1)
        player.opponent.opponent = None  # its own from training, whom nobody plays here
        player.theirs = np.arange(rows) % agents >= agents // 2
        episodes = games * (agents // 2)
        returns = play_episodes(player, environment, episodes=episodes, seed=seed, greedy=False).returns
    finally:
        environment.close()
    return np.asarray(returns)


def win_rates(checkpoints: Sequence[Checkpoint], *, games: int = 40) -> Array:
    """The share of games that each wins against each, [N, N]; ties count half, and nobody plays itself (0.5)."""
    rates = np.full((len(checkpoints), len(checkpoints)), 0.5)
    for i, one in enumerate(checkpoints):
        for j in range(i):
            returns = match(one, checkpoints[j], games=games)
            rates[i, j] = float((returns > 0).mean() + (returns == 0).mean() / 2)
            rates[j, i] = 1 - rates[i, j]
    return rates


def elo(rates: Array) -> Array:
    """Ratings [N], whose mean is 0, that fit the rates best in the likelihood of the Bradley-Terry model.

    Rates of 0 and 1 count as 0.01 and 0.99, since no finite rating explains them.
    """
    ratings, wanted = np.zeros(len(rates)), np.clip(rates, 0.01, 0.99)
    for _ in range(4000):
        predicted = 1 / (1 + np.exp(ratings[None] - ratings[:, None]))
        ratings += 0.5 * (wanted - predicted).mean(1)
    fitted: Array = _SCALE * (ratings - ratings.mean())
    return fitted

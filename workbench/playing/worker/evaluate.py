"""Plays whole episodes with a checkpoint's policy, in a process of its own on the CPU; prints one line of JSON.

Every environment plays its own fixed share of the episodes, since counting the first to finish would favour short
ones. The same checkpoint, seed and number of episodes give the same returns.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workbench import checkpoints, environments
from workbench.checkpoints import Checkpoint
from workbench.environments.atari.human_starts import AtariFromStarts, read_starts
from workbench.environments.atari.protocols import protocol_of
from workbench.environments.atari.vector import AtariOptions
from workbench.environments.contract import VectorEnvironment
from workbench.errors import EnvironmentFailed
from workbench.metrics.status import LONGEST_GAME
from workbench.playing.evaluating.evaluation import LONGEST_EPISODE
from workbench.policies.player import Player, answer, load_player, make_environment
from workbench.rundir import around, sealed
from workbench.trajectory import ENDS, Flags

_LARGEST_GROUP = 8  # environments stepped together, unless a game has more agents


class Episodes(NamedTuple):
    """The results of the episodes, by environment and then by time.

    Attributes:
        returns: sums of rewards, not clipped.
        lengths: steps.
        scores: sums of the environment's own score if it has one beside the reward; else ().
        games: numbers of the games that they were of, where several agents play one; else ().
    """

    returns: list[float]
    lengths: list[int]
    scores: list[float]
    games: list[int]


def play_episodes(
    player: Player, environment: VectorEnvironment, *, episodes: int, seed: int, greedy: bool,
    max_steps: int = LONGEST_EPISODE,
) -> Episodes:
    """Play `episodes` whole episodes. Each agent of a game has episodes of its own; an opponent's do not count.

    Raises EnvironmentFailed for an episode that goes on after `max_steps` steps, or whose agent has left it for as long
    as the longest game.
    """
    count = environment.num_envs
    rows = np.flatnonzero(~player.theirs)
    owed = np.zeros(count, int)
    owed[rows] = [len(part) for part in np.array_split(np.arange(episodes), len(rows))]
    finished: list[list[tuple[float, int, float]]] = [[] for _ in range(count)]
    total, length, score = np.zeros(count), np.zeros(count, int), np.zeros(count)
    away = np.zeros(count, int)  # steps since an agent left a game that others play on
    step = environment.reset(seed=seed)
    while owed.any():
        step = environment.step(player.act(step, greedy=greedy))
        total += step.reward
        absent = (step.flags & Flags.ABSENT) != 0
        length += ~absent
        away = (away + 1) * absent
        gone = away[owed > 0].max() > LONGEST_GAME
        if gone or length[owed > 0].max() > max_steps:
            after = f"{LONGEST_GAME:,} steps without the agent, which has left it" if gone else f"{max_steps:,} steps"
            raise EnvironmentFailed(
                f"an episode of {environment.spec.name} goes on after {after}, and an evaluation plays whole ones. "
                "Give more max_steps, or cut its episodes off (gymnasium.wrappers.TimeLimit); wb.rollout "
                "plays a part of one.")
        if step.score is not None:
            score += step.score
        for row in np.flatnonzero(step.flags & ENDS).tolist():
            if owed[row]:
                owed[row] -= 1
                finished[row].append((float(total[row]), int(length[row]), float(score[row])))
            total[row], length[row], score[row] = 0.0, 0, 0.0
    returns, lengths, scores = (list(column) for column in zip(*sum(finished, []), strict=True))
    agents = environment.spec.agents
    games = [(row // agents, number) for row in range(count) for number in range(len(finished[row]))]
    numbers = {game: number for number, game in enumerate(dict.fromkeys(games))}
    return Episodes(returns, lengths, scores if environment.spec.scored else [],
                    [numbers[game] for game in games] if agents > 1 else [])


def _evaluate(
    checkpoint: str, trust_code: bool, episodes: int, seed: int, greedy: bool, protocol: str | None, starts: str | None,
    max_steps: int = LONGEST_EPISODE, code: str | None = None,
) -> dict[str, Any]:
    source = checkpoints.at(Path(checkpoint), trust_code=trust_code, code=code)
    spec = source.spec
    num_envs = max(1, min(episodes, _LARGEST_GROUP) // spec.agents) * spec.agents
    if protocol is None:
        environment = make_environment(source, num_envs=num_envs, seed=seed)
    else:
        environment = _by_protocol(source, protocol, starts, episodes=episodes, num_envs=num_envs, seed=seed)
    try:
        player = load_player(source, num_envs=num_envs, seed=seed)
        played = play_episodes(player, environment, episodes=episodes, seed=seed, greedy=greedy,
                               max_steps=max_steps)
    finally:
        environment.close()
    return {**played._asdict(), "environment": environment.spec.name}


main = partial(answer, play=_evaluate)


def _by_protocol(
    checkpoint: Checkpoint, name: str, starts: str | None, *, episodes: int, num_envs: int, seed: int
) -> VectorEnvironment:
    """The checkpoint's game under Atari's protocol `name`, for `episodes` episodes in all."""
    config = checkpoint.config
    config = config.replaced(environment_options={**config.environment_options, **protocol_of(name).options})
    sealed.check_module(around(checkpoint.path).code, config.environment, trust_code=checkpoint.trust_code)
    game = environments.atari_game(config.environment)
    if starts is None or game is None:
        return environments.make_configured(config, num_envs=num_envs, seed=seed)
    recording = read_starts(Path(starts), game=game)
    shares = np.array_split(np.arange(episodes) % len(recording.starts), num_envs)  # as `play_episodes` divides them
    options = AtariOptions(**config.environment_options)
    dealt = [share.tolist() for share in shares]
    environment = AtariFromStarts(config.environment, recording, dealt=dealt, options=options)
    frame_stack = config.frame_stack or environment.spec.frame_stack
    environment.spec = dataclasses.replace(environment.spec, frame_stack=frame_stack)
    return environment

"""A game of several agents whose observations count, and who checks that a row lives one step after the other."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from workbench.testing import Count, CountingEnv
from workbench.trajectory import Flags

_games = itertools.count(1)


class CountingGame:
    """A PettingZoo parallel environment in which agent i plays `lengths[i]` steps; see `CountingEnv`.

    Args:
        ends: how each agent ends: "terminated", "truncated", or "alternate" by the number of the game.
        actions: action space of every agent.
        remember: a list that gets the seeds; `got`: one that gets the actions.
        number: of the game; None: one of its own. Give one where two must be the same.

    Observations are counts whose life is 10 times the game's number plus the agent's.
    """

    metadata = {"name": "counting_game"}
    render_mode = None

    def __init__(
        self, *, lengths: tuple[int, ...], ends: tuple[str, ...] | None = None, actions: Any = None,
        remember: list[int] | None = None, got: list[dict[str, Any]] | None = None, number: int | None = None,
    ) -> None:
        self.possible_agents = [f"a{agent}" for agent in range(len(lengths))]
        self.agents: list[str] = []
        self._lengths, self._ends = lengths, ends or ("terminated",) * len(lengths)
        self._actions = actions or Discrete(3)
        self._remember, self._got = remember, got
        self._life, self._game, self._step = 10 * (next(_games) if number is None else number), -1, 0

    def observation_space(self, agent: str) -> Any:
        return Box(-1, 2**24, (4,), np.float32)

    def action_space(self, agent: str) -> Any:
        return self._actions

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        if seed is not None:
            self._game = -1
            if self._remember is not None:
                self._remember.append(seed)
        self._game, self._step = self._game + 1, 0
        self.agents = self.possible_agents[:]
        return {agent: self._seen(agent, -1) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        assert set(actions) == set(self.agents), "an action of an agent that is out"
        if self._got is not None:
            self._got.append(actions)
        self._step += 1
        playing = self.agents
        over = {agent: self._step >= self._lengths[int(agent[1:])] for agent in playing}
        cut_off = {agent: over[agent] and self._cut_off(int(agent[1:])) for agent in playing}
        self.agents = [agent for agent in playing if not over[agent]]
        return (
            {agent: self._seen(agent, int(np.ravel(actions[agent])[0])) for agent in playing},
            {agent: self.reward(self._game, int(agent[1:]), self._step) for agent in playing},
            {agent: over[agent] and not cut_off[agent] for agent in playing}, cut_off, {agent: {} for agent in playing},
        )

    def close(self) -> None:
        pass

    def _cut_off(self, agent: int) -> bool:
        ends = self._ends[agent]
        return ends == "truncated" or (ends == "alternate" and self._game % 2 == 1)

    def _seen(self, agent: str, action: int) -> Any:
        return np.array(Count(self._life + int(agent[1:]), self._game, self._step, action), np.float32)

    @staticmethod
    def reward(game: int, agent: int, step: int) -> float:
        """Reward of the transition into that step; twice that of the agent before."""
        return CountingEnv.expected_reward(game, step) * 2**agent if step else 0.0


class Follower:
    """Follows the steps of one row and fails where one is not the next of its agent's life."""

    def __init__(self, *, agent: int, lengths: tuple[int, ...]) -> None:
        self._agent, self._length, self._last = agent, lengths[agent], max(lengths)
        self._before: Count | None = None
        self._action, self._absent = -1, 0
        self.games = 0

    def see(self, observation: Any, reward: float, flags: int, final: Any) -> None:
        if flags & Flags.ABSENT:
            assert flags == Flags.ABSENT and reward == 0 and not observation.any() and final is None
            self._absent += 1
            return
        count = CountingEnv.decode(observation)
        assert count.life % 10 == self._agent
        if self._before is None:
            assert (count.episode, count.step, flags, reward) == (0, 0, Flags.START, 0)
        elif count.step:
            assert count[1:] == (self._before.episode, self._before.step + 1, self._action)
            assert flags == 0 and reward == np.float32(CountingGame.reward(count.episode, self._agent, count.step))
        else:
            self._check_start(count, reward, flags, final)
        self._before = count

    def _check_start(self, count: Count, reward: float, flags: int, final: Any) -> None:
        assert self._before is not None
        assert count[1:] == (self._before.episode + 1, 0, -1) and self._before.step == self._length - 1
        assert reward == np.float32(CountingGame.reward(self._before.episode, self._agent, self._length))
        cut_off = self._before.episode % 2 == 1  # "alternate"
        assert flags == Flags.START | (Flags.TRUNCATED if cut_off else Flags.TERMINATED)
        assert (final is not None) == cut_off
        if cut_off:
            assert CountingEnv.decode(final)[1:] == (self._before.episode, self._length, self._action)
        assert self._absent == self._last - self._length
        self._absent, self.games = 0, self.games + 1

    def act(self, action: int) -> None:
        if not self._absent:
            self._action = action



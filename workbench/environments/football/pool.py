"""Football on envpool's engine: N games stepped by its native threads.

envpool resets a finished game in the step after the end and ignores that step's action. Here `renew` resets the games
that ended at once, by their indices, so that no step is lost.

It takes seeds only when it is made, so `begin` makes the games. envpool 1.2.5 keeps about 44 MB of each game that it
gave up: begin once in the life of a process, not once per episode (an actor replaces itself).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.environments.adapters.guarded_calls import abandon_pool
from workbench.environments.contract import Array
from workbench.environments.football.planes import packed
from workbench.environments.football.vector import Moment


class EnvpoolGames:
    """N games of one scenario, one player of the left team each. See `football_vector.Games`."""

    keeps_memory = True

    def __init__(self, scenario: str, *, num_games: int, threads: int) -> None:
        self._scenario, self._num_games, self._threads = scenario, num_games, threads
        self._pool: Any = None

    def begin(self, seeds: Array) -> Moment:
        """New games everywhere, of these seeds [N]."""
        import envpool

        self.close()
        self._pool = envpool.make_gymnasium(
            f"gfootball/{self._scenario}-v1", num_envs=self._num_games, num_threads=self._threads,
            env_seed=seeds.tolist())
        return self.renew(np.arange(self._num_games))

    def step(self, actions: Array) -> Moment:
        """What actions [N] lead to; nothing is reset."""
        planes, reward, terminated, truncated, info = self._pool.step(actions)
        return _moment(planes, reward, terminated, truncated, info)

    def renew(self, games: Array) -> Moment:
        """New games where `games` [K] says; of those alone."""
        planes, info = self._pool.reset(games.astype(np.int32))
        nothing = np.zeros(len(games), bool)
        return _moment(planes, np.zeros(len(games), np.float32), nothing, nothing, info)

    def close(self) -> None:
        """Leaves the pool."""
        if self._pool is not None:
            abandon_pool(self._pool)
        self._pool = None


def _moment(planes: Array, reward: Array, terminated: Array, truncated: Array, info: dict[str, Any]) -> Moment:
    return Moment(packed(planes), reward, terminated, truncated, info["engine_seed"], info["episode_number"])

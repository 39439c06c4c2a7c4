"""Football on envpool's engine: N games stepped by its native threads.

envpool resets a finished game in the step after the end and ignores that step's action. Here `renew` resets ended games
at once, by their indices, so that no step is lost.

Only its constructor takes seeds, so `begin` makes the games. envpool 1.2.5 leaks about 44 MB per abandoned game: begin
once in the life of a process, not once per episode (an actor replaces itself).
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from workbench.environments.adapters.guarded_calls import abandon_pool
from workbench.environments.contract import Array
from workbench.environments.football.engine import GameStep
from workbench.environments.football.planes import packed


class EnvpoolGames:
    """N games of one scenario, one player of the left team each. See `vector.Games`."""

    keeps_memory = True

    def __init__(self, scenario: str, *, num_games: int, threads: int) -> None:
        self._scenario, self._num_games, self._threads = scenario, num_games, threads
        self._pool: Any = None

    def begin(self, seeds: Array) -> GameStep:
        """Begins new games everywhere, from seeds [N]."""
        import envpool
        from envpool.gfootball import gfootball_envpool

        self.close()
        # envpool makes games in as many threads as there are cores. Each calls this, which no two may do at once unless
        # it has been done before: one in about 2,000 pairs of first games found no font, and ended the process.
        ctypes.CDLL(gfootball_envpool.__file__).TTF_Init()
        self._pool = envpool.make_gymnasium(
            f"gfootball/{self._scenario}-v1", num_envs=self._num_games, num_threads=self._threads,
            env_seed=seeds.tolist())
        return self.renew(np.arange(self._num_games))

    def step(self, actions: Array) -> GameStep:
        """Steps all games by actions [N]; resets none."""
        return _game_step(*self._pool.step(actions))

    def renew(self, games: Array) -> GameStep:
        """Begins new games at the indices `games` [K]. Returns the rows of those alone."""
        planes, info = self._pool.reset(games.astype(np.int32))
        nothing = np.zeros(len(games), bool)
        return _game_step(planes, np.zeros(len(games), np.float32), nothing, nothing, info)

    def close(self) -> None:
        """Abandons the pool."""
        if self._pool is not None:
            abandon_pool(self._pool)
        self._pool = None


def _game_step(planes: Array, reward: Array, terminated: Array, truncated: Array, info: dict[str, Any]) -> GameStep:
    return GameStep(packed(planes), reward, terminated, truncated, info["engine_seed"], info["episode_number"])

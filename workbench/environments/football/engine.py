"""Football on upstream's engine, gfootball 2.10.2: N games stepped one after another in this process.

It has what envpool's lacks: other observations, checkpoint rewards, several players and either team, and frames. Its
`env.seed` does nothing; a game is fixed by the seed, the number and the processing order that its configuration holds
when it is reset. They are drawn as envpool's engine draws them: the same seed gives the same games on both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench import imports
from workbench.environments.contract import Array
from workbench.environments.football.planes import PLANES, packed
from workbench.environments.football.vector import Moment
from workbench.errors import EnvironmentFailed
from workbench.trajectory import Part

_SEEDS = 2_000_000_001  # of the engine: gfootball's scenario builder draws from [0, 2e9]
_FIRST_NUMBER = 2  # envpool's games count from here: making one counts as a game
_KINDS = ("ball", "ball_direction", "ball_rotation", "ball_owned_team", "ball_owned_player", "left_team",
          "left_team_direction", "left_team_tired_factor", "left_team_yellow_card", "left_team_active",
          "left_team_roles", "right_team", "right_team_direction", "right_team_tired_factor",
          "right_team_yellow_card", "right_team_active", "right_team_roles", "score", "steps_left", "game_mode",
          "active", "designated", "sticky_actions")  # gfootball's raw observation, less `frame`


class Setup(NamedTuple):
    """What a game is, as plain data: a drawing process is told it as well.

    Attributes:
        left, right: controlled players of each team.
        checkpoints: whether they are rewarded.
        width: of frames, in pixels; their height is 9/16 of it.
    """

    scenario: str
    representation: str = "extracted"
    checkpoints: bool = False
    left: int = 1
    right: int = 0
    width: int = 320


class EngineGames:
    """N games. See `football_vector.Games`. Raises EnvironmentFailed where the engine cannot be loaded."""

    keeps_memory = False

    def __init__(self, setup: Setup, *, num_games: int) -> None:
        self._setup = setup
        self._games = [Game(setup) for _ in range(num_games)]

    @property
    def parts(self) -> tuple[Part, ...]:
        """Of an observation."""
        return parts_of(self._setup.representation, self._games[0].told())

    def begin(self, seeds: Array) -> Moment:
        """New games everywhere, of these seeds [N]."""
        for game, seed in zip(self._games, seeds.tolist(), strict=True):
            game.seed(seed)
        return self.renew(np.arange(len(self._games)))

    def step(self, actions: Array) -> Moment:
        """What actions [R] lead to; nothing is reset."""
        return _joined([game.step(own) for game, own in
                        zip(self._games, np.split(actions, len(self._games)), strict=True)])

    def renew(self, games: Array) -> Moment:
        """New games where `games` [K] says; of those alone."""
        return _joined([self._games[index].renew() for index in games.tolist()])

    def close(self) -> None:
        """Hands the engines back to gfootball, which uses them again."""
        while self._games:
            self._games.pop().close()


class Game:
    """One game of upstream's engine."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._env: Any
        self._bare, self._env = _loaded(setup)
        self._draws = np.random.RandomState(0)
        self._number = _FIRST_NUMBER - 1
        self._told: list[dict[str, Any]] = self._bare.observation()

    def seed(self, seed: int) -> None:
        """Games from here on are those of `seed`."""
        self._draws = np.random.RandomState(seed)  # envpool's: std::mt19937
        self._number = _FIRST_NUMBER - 1
        self._drawn_seed()  # envpool spends one when it makes the game

    def renew(self) -> Moment:
        """The next game."""
        return self.begin(self._drawn_seed(), self._number + 1)

    def begin(self, engine_seed: int, number: int) -> Moment:
        """The game of that seed and number; its parity says who kicks off, where a scenario asks."""
        self._number = number
        self._bare._config.update({
            "game_engine_random_seed": engine_seed, "reverse_team_processing": bool(engine_seed % 2),
            "episode_number": number - 1,
        })
        self._told = self._env.reset()
        return self._moment(np.zeros(self._players, np.float32), done=False, goals=0.0)

    def step(self, actions: Array) -> Moment:
        """What the actions of its players lead to."""
        self._told, reward, done, info = self._env.step(actions.tolist())
        return self._moment(np.asarray(reward, np.float32), done=done, goals=info["score_reward"])

    def told(self) -> list[dict[str, Any]]:
        """What its players are told, raw."""
        return self._told

    def _moment(self, reward: Array, *, done: bool, goals: float) -> Moment:
        first = self._told[0]
        decided = self._bare._env._env.config.end_episode_on_score and sum(first["score"]) > 0
        late = done and first["steps_left"] <= 0 and not decided
        sides = np.repeat(np.array([1, -1], np.float32), (self._setup.left, self._setup.right))
        return Moment(
            observed(self._setup.representation, self._told), reward, np.array([done and not late]), np.array([late]),
            np.array([self._bare._config["game_engine_random_seed"]]), np.array([self._number]),
            goals * sides if self._setup.checkpoints else None)

    @property
    def _players(self) -> int:
        return self._setup.left + self._setup.right

    def _drawn_seed(self) -> int:
        """The next of std::uniform_int_distribution(0, 2e9), as libstdc++ draws it (Lemire 2019, arXiv 1805.10941)."""
        while True:
            product = int.from_bytes(self._draws.bytes(4), "little") * _SEEDS
            if product % 2**32 >= 2**32 % _SEEDS:
                return product >> 32

    def draw(self) -> Array:
        """What it looks like now, uint8 [H, W, 3]; it is stepped without drawing. One game per process can."""
        frame: Array = self._bare.render(mode="rgb_array")
        self._bare.disable_render()
        return np.ascontiguousarray(frame[:, :, ::-1])  # it swaps red and blue: cyan shirts are yellow ones

    def close(self) -> None:
        """Hands its engine back."""
        self._env.close()


def parts_of(representation: str, told: list[dict[str, Any]]) -> tuple[Part, ...]:
    """The parts of an observation; those of "raw" depend on how many play, so on what a player is told."""
    if representation == "extracted":
        return (PLANES,)
    if representation == "simple115v2":
        return (Part("", (115,), "float32"),)
    return tuple(Part(kind, (_flat(told[0][kind]).size,), "float32") for kind in _KINDS)


def observed(representation: str, told: list[dict[str, Any]]) -> Array:
    """What players are told, as rows of bytes [players, bytes]."""
    from gfootball.env.observation_preprocessing import generate_smm
    from gfootball.env.wrappers import Simple115StateWrapper

    if representation == "extracted":
        return packed(generate_smm(told))
    if representation == "simple115v2":
        return _bytes(Simple115StateWrapper.convert_observation(told, True))
    return _bytes(np.stack([np.concatenate([_flat(one[kind]) for kind in _KINDS]) for one in told]))


def _flat(value: Any) -> Array:
    return np.asarray(value, np.float32).reshape(-1)


def _bytes(rows: Array) -> Array:
    return np.ascontiguousarray(rows, "<f4").view(np.uint8)


def _joined(moments: list[Moment]) -> Moment:
    columns: Any = zip(*moments, strict=True)
    joined: Any = (None if column[0] is None else np.concatenate(column) for column in columns)
    return Moment(*joined)


def _loaded(setup: Setup) -> tuple[Any, Any]:
    """gfootball's environment, bare and with its reward."""
    try:
        import gym_notices.notices

        gym_notices.notices.notices.clear()  # or gym 0.23 tells everybody on stderr that it is not maintained
        from gfootball.env import config, football_env, wrappers
    except ImportError as error:
        raise EnvironmentFailed(f"gfootball is installed and cannot be loaded: {error}. It needs gym==0.23.1, six and "
                                "the libraries of docs/environments.md: "
                                f"{imports.pip_install('football-engine', '--no-build-isolation')}") from error
    bare = football_env.FootballEnv(config.Config({
        "level": setup.scenario, "players": [f"agent:left_players={setup.left},right_players={setup.right}"],
        "render_resolution_x": setup.width, "render_resolution_y": setup.width * 9 // 16,
    }))
    return bare, wrappers.CheckpointRewardWrapper(bare) if setup.checkpoints else bare

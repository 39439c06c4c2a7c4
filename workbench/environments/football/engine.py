"""Football on upstream's engine, gfootball 2.10.2: N games stepped one after another in this process.

Beyond envpool's, it has other observations, checkpoint rewards, several players and either team, and frames. Its
`env.seed` does nothing: the seed, the number and the processing order in its configuration at a reset determine a game.
They are drawn as envpool's engine draws them, so the same seed gives the same games on both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench import imports
from workbench.environment_spec import Part
from workbench.environments.contract import Array
from workbench.environments.football.planes import PLANES, packed
from workbench.errors import EnvironmentFailed

_SEEDS = 2_000_000_001  # of the engine: gfootball's scenario builder draws from [0, 2e9]
_FIRST_NUMBER = 2  # envpool's games count from here: making one counts as a game
_RAW_KEYS = ("ball", "ball_direction", "ball_rotation", "ball_owned_team", "ball_owned_player", "left_team",
          "left_team_direction", "left_team_tired_factor", "left_team_yellow_card", "left_team_active",
          "left_team_roles", "right_team", "right_team_direction", "right_team_tired_factor",
          "right_team_yellow_card", "right_team_active", "right_team_roles", "score", "steps_left", "game_mode",
          "active", "designated", "sticky_actions")  # gfootball's raw observation, less `frame`


class Setup(NamedTuple):
    """The definition of a game as plain data, which a drawing process gets as well.

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


class GameStep(NamedTuple):
    """The result of a step, or of the beginning, of G games. R rows: G times the players of a game.

    Attributes:
        observation: [R, *frame].
        reward: float32 [R].
        terminated, truncated: bool [G].
        engine_seed, number: int [G]; an engine can replay a game from them.
        score: float32 [R], the goals in `reward`, if other rewards are added to them.
    """

    observation: Array
    reward: Array
    terminated: Array
    truncated: Array
    engine_seed: Array
    number: Array
    score: Array | None = None


class EngineGames:
    """N games. See `vector.Games`. Raises EnvironmentFailed if the engine cannot be loaded."""

    keeps_memory = False

    def __init__(self, setup: Setup, *, num_games: int) -> None:
        self._setup = setup
        self._games = [EngineGame(setup) for _ in range(num_games)]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of an observation."""
        return parts_of(self._setup.representation, self._games[0].raw)

    def begin(self, seeds: Array) -> GameStep:
        """Begins new games everywhere, from seeds [N]."""
        for game, seed in zip(self._games, seeds.tolist(), strict=True):
            game.seed(seed)
        return self.renew(np.arange(len(self._games)))

    def step(self, actions: Array) -> GameStep:
        """Steps all games by actions [R]; resets none."""
        return _joined([game.step(own) for game, own in
                        zip(self._games, np.split(actions, len(self._games)), strict=True)])

    def renew(self, games: Array) -> GameStep:
        """Begins new games at the indices `games` [K]. Returns the rows of those alone."""
        return _joined([self._games[index].renew() for index in games.tolist()])

    def close(self) -> None:
        """Returns the engines to gfootball, which reuses them."""
        while self._games:
            self._games.pop().close()


class EngineGame:
    """One game of upstream's engine.

    Attributes:
        raw: the raw observations of its players.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._env: Any
        self._bare, self._env = _load(setup)
        self._random = np.random.RandomState(0)
        self._number = _FIRST_NUMBER - 1
        self.raw: list[dict[str, Any]] = self._bare.observation()

    def seed(self, seed: int) -> None:
        """Seeds the following games."""
        self._random = np.random.RandomState(seed)  # envpool's: std::mt19937
        self._number = _FIRST_NUMBER - 1
        self._next_seed()  # envpool uses one when it makes the game

    def renew(self) -> GameStep:
        """Begins the next game."""
        return self.begin(self._next_seed(), self._number + 1)

    def begin(self, engine_seed: int, number: int) -> GameStep:
        """Begins the game of that seed and number, whose parity decides the kick-off in some scenarios."""
        self._number = number
        self._bare._config.update({
            "game_engine_random_seed": engine_seed, "reverse_team_processing": bool(engine_seed % 2),
            "episode_number": number - 1,
        })
        self.raw = self._env.reset()
        return self._result(np.zeros(self._setup.left + self._setup.right, np.float32), done=False, goals=0.0)

    def step(self, actions: Array) -> GameStep:
        """Steps by the actions of its players."""
        self.raw, reward, done, info = self._env.step(actions.tolist())
        return self._result(np.asarray(reward, np.float32), done=done, goals=info["score_reward"])

    def _result(self, reward: Array, *, done: bool, goals: float) -> GameStep:
        first = self.raw[0]
        decided = self._bare._env._env.config.end_episode_on_score and sum(first["score"]) > 0
        late = done and first["steps_left"] <= 0 and not decided
        sides = np.repeat(np.array([1, -1], np.float32), (self._setup.left, self._setup.right))
        return GameStep(
            encoded(self._setup.representation, self.raw), reward, np.array([done and not late]), np.array([late]),
            np.array([self._bare._config["game_engine_random_seed"]]), np.array([self._number]),
            goals * sides if self._setup.checkpoints else None)

    def _next_seed(self) -> int:
        """The next of std::uniform_int_distribution(0, 2e9), as libstdc++ draws it (Lemire 2019, arXiv 1805.10941)."""
        while True:
            product = int.from_bytes(self._random.bytes(4), "little") * _SEEDS
            if product % 2**32 >= 2**32 % _SEEDS:
                return product >> 32

    def draw(self) -> Array:
        """The current frame, uint8 [H, W, 3]. Only one game per process can draw; steps don't."""
        frame: Array = self._bare.render(mode="rgb_array")
        self._bare.disable_render()
        return np.ascontiguousarray(frame[:, :, ::-1])  # it swaps red and blue: cyan shirts are yellow ones

    def close(self) -> None:
        """Returns its engine to gfootball."""
        self._env.close()


def parts_of(representation: str, raw: list[dict[str, Any]]) -> tuple[Part, ...]:
    """The parts of an observation; the shapes of "raw" depend on the number of players, so on a raw observation."""
    if representation == "extracted":
        return (PLANES,)
    if representation == "simple115v2":
        return (Part("", (115,), "float32"),)
    return tuple(Part(key, (_flat(raw[0][key]).size,), "float32") for key in _RAW_KEYS)


def encoded(representation: str, raw: list[dict[str, Any]]) -> Array:
    """Raw observations of players as rows of bytes [players, bytes]."""
    from gfootball.env.observation_preprocessing import generate_smm
    from gfootball.env.wrappers import Simple115StateWrapper

    if representation == "extracted":
        return packed(generate_smm(raw))
    if representation == "simple115v2":
        return _bytes(Simple115StateWrapper.convert_observation(raw, True))
    return _bytes(np.stack([np.concatenate([_flat(player[key]) for key in _RAW_KEYS]) for player in raw]))


def _flat(value: Any) -> Array:
    return np.asarray(value, np.float32).reshape(-1)


def _bytes(rows: Array) -> Array:
    return np.ascontiguousarray(rows, "<f4").view(np.uint8)


def _joined(steps: list[GameStep]) -> GameStep:
    columns: Any = zip(*steps, strict=True)
    joined: Any = (None if column[0] is None else np.concatenate(column) for column in columns)
    return GameStep(*joined)


def _load(setup: Setup) -> tuple[Any, Any]:
    """gfootball's environment, bare and with its reward wrapper."""
    try:
        import gym_notices.notices

        gym_notices.notices.notices.clear()  # otherwise gym 0.23 prints that it is unmaintained
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

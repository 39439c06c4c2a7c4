"""Google Research Football (Kurach et al. 2020, arXiv 1907.11180): `football/academy_empty_goal_close`, ...

One step is one step of the engine, a tenth of a second of play. Two engines play the same games bit for bit: envpool's,
which is fast and installs as a wheel, and upstream's gfootball, which is compiled and has more options. An option that
only upstream's engine has selects it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench import imports
from workbench.config import setting, settings
from workbench.config.settings import check_known, validate
from workbench.environment_spec import EnvironmentSpec, Part
from workbench.environments.contract import Show, VectorEnvironment
from workbench.environments.football.engine import EngineGames, Setup
from workbench.environments.football.football_vector import ACTIONS, FootballVector, Games
from workbench.environments.football.planes import PLANES
from workbench.environments.football.pool import EnvpoolGames
from workbench.environments.football.screen import Screen
from workbench.errors import MissingPackage, OutOfBounds, UnknownName

PREFIX = "football/"
_INSTALL = {"envpool": ("football",), "gfootball": ("football-engine", "--no-build-isolation")}  # docs/environments.md

# Players of the left and the right team that can be controlled (gfootball 2.10.2, scenarios/*.py).
SCENARIOS = {
    "11_vs_11_competition": (11, 11),
    "11_vs_11_easy_stochastic": (11, 11),
    "11_vs_11_hard_stochastic": (11, 11),
    "11_vs_11_kaggle": (11, 11),
    "11_vs_11_stochastic": (11, 11),
    "1_vs_1_easy": (1, 1),
    "5_vs_5": (4, 4),
    "academy_3_vs_1_with_keeper": (4, 2),
    "academy_corner": (11, 11),
    "academy_counterattack_easy": (11, 11),
    "academy_counterattack_hard": (11, 11),
    "academy_empty_goal": (2, 1),
    "academy_empty_goal_close": (2, 1),
    "academy_pass_and_shoot_with_keeper": (3, 2),
    "academy_run_pass_and_shoot_with_keeper": (3, 2),
    "academy_run_to_score": (2, 6),
    "academy_run_to_score_with_keeper": (2, 6),
    "academy_single_goal_versus_lazy": (11, 11),
}


@dataclass(frozen=True)
class FootballOptions:
    """Options of a football environment. Raises OutOfBounds."""

    engine: str = setting(
        "auto", "the game's engine; auto: envpool's (a wheel, the fastest), or gfootball's if another option needs it",
        choices=("auto", "envpool", "gfootball"))
    rewards: str = setting("scoring", "goals alone, or also a tenth for each of ten checkpoints on the ball's way to "
                           "the goal; the score is reported apart", choices=("scoring", "scoring,checkpoints"),
                           source="Kurach et al. 2020, section 3.4")
    representation: str = setting(
        "extracted", "extracted: four planes of 72x96; simple115v2: 115 numbers; raw: everything, as vectors",
        choices=("extracted", "simple115v2", "raw"))
    left_players: int = setting(1, "controlled players of the left team, each a row of its own", low=0, high=11)
    right_players: int = setting(0, "controlled players of the right team, each a row of its own", low=0, high=11)
    render_width: int = setting(320, "of the frames of rollouts, a multiple of 16; their height is 9/16 of it",
                                unit="pixels", low=160, high=1920)

    def __post_init__(self) -> None:
        validate(self)
        if self.left_players + self.right_players == 0:
            raise OutOfBounds("left_players=0 and right_players=0: at least one player must be controlled.")
        if self.render_width % 16:
            raise OutOfBounds(f"render_width={self.render_width} is not a multiple of 16.")
        if self.engine == "envpool" and self.beyond_envpool:
            raise OutOfBounds(f"engine='envpool' does not have {self.beyond_envpool}; leave `engine` out, or give "
                              "engine='gfootball'.")

    @property
    def beyond_envpool(self) -> str:
        """The options that only upstream's engine has, in words; "" if there are none."""
        defaults = settings(FootballOptions)
        return ", ".join(f"{name}={getattr(self, name)!r}"
                         for name in ("rewards", "representation", "left_players", "right_players")
                         if getattr(self, name) != defaults[name].default)

    @property
    def engine_used(self) -> str:
        """envpool or gfootball, also if that one is not installed."""
        if self.engine != "auto":
            return self.engine
        return "gfootball" if self.beyond_envpool or (_has("gfootball") and not _has("envpool")) else "envpool"

    @property
    def agents(self) -> int:
        """Controlled players of a game."""
        return self.left_players + self.right_players


def names() -> tuple[str, ...]:
    """Every scenario."""
    return tuple(PREFIX + scenario for scenario in SCENARIOS)


def check(name: str, options: Mapping[str, Any]) -> FootballOptions:
    """The options. Raises UnknownName for the scenario or an option, OutOfBounds for a value, MissingPackage for its
    engine."""
    scenario = name.removeprefix(PREFIX)
    if scenario not in SCENARIOS:
        raise UnknownName.among("environment", name, (PREFIX + scenario for scenario in SCENARIOS))
    check_known(FootballOptions, options, "football option")
    parsed = FootballOptions(**options)
    for option, most in zip(("left_players", "right_players"), SCENARIOS[scenario], strict=True):
        if getattr(parsed, option) > most:
            raise OutOfBounds(f"{option}={getattr(parsed, option)}: {name} has {most} that can be controlled.")
    if parsed.engine_used == "gfootball":
        _require("gfootball", f"{name} with {parsed.beyond_envpool or 'engine=' + repr(parsed.engine)}")
    else:
        _require("envpool", name)
    return parsed


def make(
    name: str, *, num_envs: int, seed: int, threads: int, options: Mapping[str, Any], show: Show
) -> VectorEnvironment:
    """`num_envs` controlled players, each a row: games side by side, the left team's players before the right's.

    Args:
        threads: of envpool's engine; upstream's uses one.
        show: "frames" needs gfootball, whichever engine plays.

    Raises:
        UnknownName, OutOfBounds, MissingPackage, EnvironmentFailed.
    """
    parsed = check(name, options)
    if num_envs % parsed.agents:
        raise OutOfBounds(f"{name}: {num_envs} rows are no whole games of {parsed.agents} controlled players: "
                          "envs_per_actor must be a multiple of groups_per_actor x agents "
                          f"({parsed.agents}, as left_players and right_players say).")
    if show == "frames":
        _require("gfootball", f"{name}: frames of the game itself")
    setup = Setup(name.removeprefix(PREFIX), parsed.representation, "checkpoints" in parsed.rewards,
                  parsed.left_players, parsed.right_players, parsed.render_width)
    num_games = num_envs // parsed.agents
    games, parts = _games(setup, parsed.engine_used, num_games=num_games, threads=threads)
    spec = EnvironmentSpec(name, (sum(part.wire_bytes for part in parts),), "uint8", len(ACTIONS), parts=parts,
                           scored=setup.checkpoints, agents=parsed.agents)
    screens = [Screen(setup, name) for _ in range(num_games)] if show == "frames" else []
    return FootballVector(spec, games, num_envs=num_envs, seed=seed, screens=screens, show=show)


def _games(setup: Setup, engine: str, *, num_games: int, threads: int) -> tuple[Games, tuple[Part, ...]]:
    if engine == "envpool":
        return EnvpoolGames(setup.scenario, num_games=num_games, threads=threads), (PLANES,)
    games = EngineGames(setup, num_games=num_games)
    return games, games.parts


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _require(package: str, what: str) -> None:
    """Raises MissingPackage if `package`, which `what` needs, is not installed."""
    if not _has(package):
        command = imports.pip_install(*_INSTALL[package])
        raise MissingPackage(f"{what} needs {package}, which is not installed: {command}")

"""One game of ViZDoom: a scenario for one player, or a deathmatch against the engine's bots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from workbench.config import setting
from workbench.config.settings import validate
from workbench.environments.contract import Array
from workbench.environments.vizdoom import memory_launcher
from workbench.environments.vizdoom.scenarios import Scenario, presses
from workbench.trajectory import Flags

SCREEN = (120, 160)  # the smallest that the engine draws
MOST_BOTS = 15  # with the player they are 16, the engine's limit

# Reward per point by which a game variable rises and falls: Sample Factory's REWARD_SHAPING_DEATHMATCH_V0 without its
# rewards for weapons, and its limits of the change in a step.
_SHAPING = {"FRAGCOUNT": (1.0, 1.5), "DEATHCOUNT": (-0.75, 0.0), "HITCOUNT": (0.01, 0.0), "DAMAGECOUNT": (0.003, 0.0),
            "HEALTH": (0.005, 0.003), "ARMOR": (0.005, 0.001)}
_AT_MOST = {"HITCOUNT": 5.0, "DAMAGECOUNT": 200.0}
_OF_A_LIFE = ("HEALTH", "ARMOR")

# This engine is the match's server. Players respawn at once, far from the others, and protected; no automatic aim, no
# cheats, no crouching.
_MATCH = ("-host 1 -deathmatch +sv_forcerespawn 1 +sv_noautoaim 1 +sv_respawnprotect 1 +sv_spawnfarthest 1 "
          "+sv_nocrouch 1 +viz_respawn_delay 0 +viz_nocheat 1")


@dataclass(frozen=True)
class VizdoomOptions:
    """Options of a ViZDoom environment."""

    width: int = setting(96, "of the observation", unit="pixels", low=16, high=SCREEN[1], source="DMLab in SEED RL")
    height: int = setting(72, "of the observation", unit="pixels", low=12, high=SCREEN[0], source="DMLab in SEED RL")
    frame_skip: int = setting(4, "frames for which an action's buttons are pressed", unit="frames", low=1, high=64)
    max_frames_per_episode: int = setting(0, "time limit of an episode; 0: the scenario's own", unit="frames", low=0,
                                          high=10**9)
    skill: int = setting(0, "how hard the game is, 1 to 5; 0: as the scenario says", low=0, high=5)

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True)
class MatchOptions(VizdoomOptions):
    """Options of a deathmatch."""

    bots: int = setting(7, "players of the engine's own", low=0, high=MOST_BOTS, source="Sample Factory")
    shaping: bool = setting(True, "reward hits, health and armor too; the score is the frags either way",
                            source="Sample Factory")


class VizdoomStep(NamedTuple):
    """The result of a step of one game.

    Attributes:
        score: frags; 0 without a match.
        final: the last screen of an episode that ended, uint8 [3, 120, 160].
    """

    reward: float
    score: float
    flags: Flags
    final: Array | None


def game_of(scenario: Scenario, options: VizdoomOptions) -> VizdoomGame:
    """A game of `scenario`."""
    return Match(scenario, options) if isinstance(options, MatchOptions) else VizdoomGame(scenario, options)


class VizdoomGame:
    """A scenario for one player.

    Attributes:
        presses: its actions.
        screen: uint8 [3, 120, 160]; black before the first episode.
    """

    def __init__(self, scenario: Scenario, options: VizdoomOptions) -> None:
        import vizdoom

        game = vizdoom.DoomGame()
        game.load_config(f"{vizdoom.scenarios_path}/{scenario.file}.cfg")
        game.set_mode(vizdoom.Mode.PLAYER)
        game.set_window_visible(False)
        game.set_sound_enabled(False)
        game.set_screen_format(vizdoom.ScreenFormat.CRCGCB)
        game.set_screen_resolution(vizdoom.ScreenResolution.RES_160X120)
        if options.skill:
            game.set_doom_skill(options.skill)
        self._limit = options.max_frames_per_episode or scenario.frames or game.get_episode_timeout()  # 0: none
        game.set_episode_timeout(0)
        self._game = game
        self._skip = options.frame_skip
        self._seeds = np.random.default_rng()
        self._frames = 0  # of the episode
        self.screen: Array = np.zeros((3, *SCREEN), np.uint8)
        self._prepare(options)
        self.presses = presses(game.get_available_buttons())
        self._open()

    def _prepare(self, options: VizdoomOptions) -> None:
        """Settings of a kind of game, before its engine starts."""

    def _open(self) -> None:
        self._game.set_seed(0)
        memory_launcher.start(self._game)

    def begin(self, seed: int | None = None) -> None:
        """Starts the next episode; with a seed, the first one of its stream."""
        if seed is not None:
            self._seeds = np.random.default_rng(seed)
        self._restart(first=seed is not None)
        self._frames = 0
        self.screen = self._game.get_state().screen_buffer

    def _restart(self, *, first: bool) -> None:
        self._game.set_seed(self._next_seed())
        self._game.new_episode()

    def _next_seed(self) -> int:
        return int(self._seeds.integers(2**31))

    def step(self, action: int) -> VizdoomStep:
        """Takes one step, and starts the next episode if this one ends."""
        frames = min(self._skip, self._limit - self._frames) if self._limit else self._skip
        reward, score = self._reward_and_score(self._game.make_action(self.presses.buttons[action], frames))
        self._frames += frames
        if self._game.is_episode_finished():
            flags = Flags.TERMINATED | Flags.START
        else:
            self.screen = self._game.get_state().screen_buffer
            if self._frames != self._limit:
                return VizdoomStep(reward, score, Flags(0), None)
            flags = Flags.TRUNCATED | Flags.START
        final = self.screen
        self.begin()
        return VizdoomStep(reward, score, flags, final)

    def _reward_and_score(self, reward: float) -> tuple[float, float]:
        """Reward and score of a step, from the engine's own reward."""
        return reward, 0.0

    def close(self) -> None:
        """Ends the engine."""
        self._game.close()


class Match(VizdoomGame):
    """A deathmatch against bots. Its score is its frags: bots killed, minus one for each suicide.

    The choice and the places of the bots depend on the engine's history, not only on the seed: so a seed restarts the
    engine (half a second).
    """

    def _prepare(self, options: VizdoomOptions) -> None:
        import vizdoom

        assert isinstance(options, MatchOptions)
        self._bots, self._shaping = options.bots, options.shaping
        self._game.add_available_button(vizdoom.Button.SPEED)
        self._game.add_game_args(_MATCH)
        self._counters = {name: getattr(vizdoom.GameVariable, name) for name in _SHAPING}

    def _open(self) -> None:
        """Nothing: the engine starts with the first seed."""

    def _restart(self, *, first: bool) -> None:
        if first:
            self._game.close()
            self._game.set_seed(self._next_seed())
            memory_launcher.start(self._game)
        else:
            self._game.send_game_command("removebots")
            super()._restart(first=False)
        for _ in range(self._bots):
            self._game.send_game_command("addbot")
        self._counts = self._read()
        self._dead = False

    def _read(self) -> dict[str, float]:
        return {name: self._game.get_game_variable(variable) for name, variable in self._counters.items()}

    def _reward_and_score(self, reward: float) -> tuple[float, float]:
        before, self._counts = self._counts, self._read()
        was_dead, self._dead = self._dead, self._game.is_player_dead()
        change = {name: min(self._counts[name] - before[name], _AT_MOST.get(name, np.inf)) for name in before}
        score = change["FRAGCOUNT"]
        if not self._shaping:
            return score, score
        if was_dead or self._dead or change["DEATHCOUNT"]:  # a new life's health is no reward
            change.update(dict.fromkeys(_OF_A_LIFE, 0.0))
        return sum(change[name] * _SHAPING[name][change[name] < 0] for name in change), score

"""Human starts on Atari: episodes that begin after a part of a person's recorded play.

The start points of Nair et al. 2015 were never published, so the user provides them in a JSON file:

    {"game": "pong", "frames_per_action": 1, "starts": [[0, 1, 1, 2, ...], [0, 0, 3, ...]]}

game                its name in ale-py.
frames_per_action   how long each action is held: 1 for a recording of frames, 4 for one of steps.
starts              for each start point the actions since the reset, by ALE's numbers (0 NOOP, 1 FIRE, ... 17).

After a reset (no no-ops, no FIRE, no sticky actions: all is deterministic) the actions are played, and the episode
begins at the screen that follows: their frames and rewards do not count. ale-py's native vector environment cannot step
a single game, so this one steps the bare emulator; its screens equal those of `AtariVector` up to a rounding of 1 grey
level.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from workbench.environment_spec import EnvironmentSpec
from workbench.environments.atari.vector import (
    FRAME_STACK,
    FRAMES_PER_STEP,
    RAW_FRAMES_PER_SECOND,
    SCREEN,
    AtariOptions,
)
from workbench.environments.contract import Array, Ending, WithEndings, checked_actions, first_step
from workbench.environments.observations import area_matrix
from workbench.errors import InvalidInput
from workbench.rundir.files import content
from workbench.trajectory import CUT_OFF_FLAGS, ENDED_FLAGS, StepBatch

ALL_ACTIONS = 18  # of the joystick
_LARGEST = 2**28  # bytes
_FORM = ('A file of starts is JSON: {"game": "pong", "frames_per_action": 1, "starts": [[0, 1, ...], ...]}, the '
         "actions by ALE's numbers from the reset on; see docs/environments.md.")


@dataclass(frozen=True)
class Starts:
    """The content of a file of starts; see the module."""

    game: str
    frames_per_action: int
    starts: tuple[tuple[int, ...], ...]


def read_starts(path: Path, *, game: str) -> Starts:
    """The starts of `game` in a file. Raises InvalidInput that says what is wrong with it."""
    try:
        document = json.loads(content(path.expanduser(), largest=_LARGEST))
    except OSError as error:
        raise InvalidInput(f"cannot read the starts in {path}: {error.strerror}. {_FORM}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is no JSON: {error}. {_FORM}") from None
    if not isinstance(document, dict) or set(document) != {"game", "frames_per_action", "starts"}:
        keys = sorted(document) if isinstance(document, dict) else type(document).__name__
        raise InvalidInput(f"{path} has {keys} where game, frames_per_action and starts are wanted. {_FORM}")
    if document["game"] != game:
        raise InvalidInput(f"{path} holds starts of {document['game']!r}, and the policy plays {game!r}.")
    frames, starts = document["frames_per_action"], document["starts"]
    if frames not in (1, FRAMES_PER_STEP):
        raise InvalidInput(f"{path}: frames_per_action={frames!r} must be 1 or {FRAMES_PER_STEP}.")
    if not isinstance(starts, list) or not starts:
        raise InvalidInput(f"{path} has no starts. {_FORM}")
    for number, actions in enumerate(starts):
        if not isinstance(actions, list) or not all(
                type(action) is int and 0 <= action < ALL_ACTIONS for action in actions):
            raise InvalidInput(f"{path}: start {number} must be a list of whole numbers from 0 to {ALL_ACTIONS - 1}.")
    return Starts(game, frames, tuple(map(tuple, starts)))


class AtariFromStarts(WithEndings):
    """N games whose episodes begin at recorded starts. Deterministic. See `contract.VectorEnvironment`.

    Args:
        starts: the start points.
        dealt: for each game the numbers of the starts of its episodes, in turn, over and over.
        options: only the action set and the time limit are read; the limit counts from the episode's first step.

    Raises InvalidInput if the game is over after a start.
    """

    fps = RAW_FRAMES_PER_SECOND / FRAMES_PER_STEP

    def __init__(self, name: str, starts: Starts, *, dealt: Sequence[Sequence[int]], options: AtariOptions) -> None:
        self.num_envs = len(dealt)
        self._games = [_Emulator(starts.game, full_action_space=options.full_action_space) for _ in dealt]
        self.spec = EnvironmentSpec(
            name, (1, *SCREEN), "uint8", len(self._games[0].actions), FRAME_STACK, FRAMES_PER_STEP)
        self._starts = starts
        self._dealt = [tuple(numbers) for numbers in dealt]
        self._next: list[Iterator[int]] = []
        self._limit_steps = options.max_frames_per_episode // FRAMES_PER_STEP
        self._steps = np.zeros(self.num_envs, np.int64)  # of the episode
        super().__init__(keeps_endings=True)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions, in the order of their numbers: NOOP, FIRE, ..."""
        return tuple(action.name for action in self._games[0].actions)

    def reset(self, *, seed: int | None = None) -> StepBatch:
        """Returns the first step of each game's first start; `seed` is ignored."""
        self._next = [cycle(numbers) for numbers in self._dealt]
        self._steps[:], self._endings = 0, {}
        return first_step(np.stack([self._begin(index) for index in range(self.num_envs)]))

    def step(self, actions: Array) -> StepBatch:
        """Returns the step after `actions`: FRAMES_PER_STEP frames, fewer if the game ended."""
        actions = checked_actions(actions, self.spec, self.num_envs)
        steps = [game.step(action) for game, action in zip(self._games, actions.tolist(), strict=True)]
        screens, rewards, over = (np.array(column) for column in zip(*steps, strict=True))
        self._steps += 1
        late = (self._steps >= self._limit_steps) & ~over
        flags = np.where(over, ENDED_FLAGS, np.where(late, CUT_OFF_FLAGS, 0))
        batch = StepBatch(screens, rewards.astype(np.float32), flags.astype(np.uint8))
        if late.any():
            batch.final_index = np.flatnonzero(late).astype(np.int32)
            batch.final_observation = screens[late]
        ended = np.flatnonzero(over | late).tolist()
        self._endings = {index: Ending(screens[index].copy(), self.render(index)) for index in ended}
        for index in ended:
            batch.observation[index] = self._begin(index)
            self._steps[index] = 0
        return batch

    def render(self, index: int) -> Array | None:
        """The colour screen of game `index`, uint8 [210, 160, 3] (a few games are taller)."""
        frame: Array = self._games[index].ale.getScreenRGB()
        return frame

    def close(self) -> None:
        """Releases the emulators."""
        self._games = []

    def _begin(self, index: int) -> Array:
        """Restarts game `index` at its next start. Returns its first observation."""
        number = next(self._next[index])
        screen = self._games[index].restart(self._starts.starts[number], frames=self._starts.frames_per_action)
        if screen is None:
            raise InvalidInput(f"start {number} of {self._starts.game} cannot be played from: the game is over before "
                               "its last action. Record a shorter one.")
        return screen


class _Emulator:
    """One game on the bare emulator."""

    def __init__(self, game: str, *, full_action_space: bool) -> None:
        import ale_py
        from ale_py import roms

        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale: Any = ale_py.ALEInterface()
        self.ale.setInt("random_seed", 0)
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(roms.get_rom_path(game))
        self._legal = self.ale.getLegalActionSet()
        self.actions = self._legal if full_action_space else self.ale.getMinimalActionSet()
        height, width = self.ale.getScreenDims()
        self._rows, self._columns = area_matrix(height, SCREEN[0]), area_matrix(width, SCREEN[1]).T

    def restart(self, actions: Sequence[int], *, frames: int) -> Array | None:
        """The observation [1, 84, 84] after a reset and `actions`, each for `frames`; None if the game is over then."""
        self.ale.reset_game()
        before = self.ale.getScreenGrayscale()
        screen = before
        for action in actions:
            for _ in range(frames):
                before = screen
                self.ale.act(self._legal[action])
                screen = self.ale.getScreenGrayscale()
        return None if self.ale.game_over() else self._observation(before, screen)

    def step(self, action: int) -> tuple[Array, float, bool]:
        """Returns the observation [1, 84, 84], the reward, and whether the game is over."""
        reward, screens = 0.0, [self.ale.getScreenGrayscale()]
        for _ in range(FRAMES_PER_STEP):
            reward += self.ale.act(self.actions[action])
            screens.append(self.ale.getScreenGrayscale())
            if self.ale.game_over():
                break
        return self._observation(*screens[-2:]), reward, self.ale.game_over()

    def _observation(self, before: Array, last: Array) -> Array:
        """The pixel-wise maximum of two raw screens, shrunk by area, as AtariVector's."""
        shrunk: Array = self._rows @ np.maximum(before, last).astype(np.float32) @ self._columns
        return np.rint(shrunk).astype(np.uint8)[None]

"""Football behind the vector contract, on either engine.

A row is a controlled player; the players of a game lie side by side. The engines step and renew games; this module
renews an ended game in the same step, and keeps and draws endings on request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from workbench.environment_spec import EnvironmentSpec
from workbench.environments.adapters.guarded_calls import called
from workbench.environments.contract import Array, Ending, Show, WithEndings, checked_actions, first_step, seeds_of
from workbench.environments.football.engine import GameStep
from workbench.environments.football.planes import PLANES, picture
from workbench.environments.football.screen import Screen
from workbench.trajectory import CUT_OFF_FLAGS, ENDED_FLAGS, StepBatch

STEPS_PER_SECOND = 10.0  # of play: ten steps of physics, 10 ms each
ACTIONS = (
    "idle", "left", "top left", "top", "top right", "right", "bottom right", "bottom", "bottom left", "long pass",
    "high pass", "short pass", "shot", "sprint", "release direction", "release sprint", "sliding", "dribble",
    "release dribble",
)  # gfootball's action_set_dict["default"]


class Games(Protocol):
    """N games on one of the engines.

    Attributes:
        keeps_memory: whether every `begin` but the first leaks memory until the process ends.
    """

    keeps_memory: bool

    def begin(self, seeds: Array) -> GameStep:
        """Begins new games everywhere, from seeds [N]."""

    def step(self, actions: Array) -> GameStep:
        """Steps all games by actions [R]; resets none."""

    def renew(self, games: Array) -> GameStep:
        """Begins new games at the indices `games` [K]. Returns the rows of those alone."""

    def close(self) -> None:
        """Ends them."""


class FootballVector(WithEndings):
    """N controlled players. See `contract.VectorEnvironment`.

    Args:
        spec: with the number of players of a game in `agents`.
        screens: one for each game, which draws it; (): a player's observation is drawn as a plan of the pitch.
        show: "endings": `ending` returns how games ended; "frames": with frames of `screens`.

    Attributes:
        keeps_memory_at_reset: see `actor.main`.
    """

    fps = STEPS_PER_SECOND
    action_names = ACTIONS

    def __init__(
        self, spec: EnvironmentSpec, games: Games, *, num_envs: int, seed: int, screens: Sequence[Screen],
        show: Show,
    ) -> None:
        self.spec = spec
        self.num_envs = num_envs
        self.keeps_memory_at_reset = games.keeps_memory
        self._games = games
        self._screens = screens
        self._seed = seed
        super().__init__(keeps_endings=show is not None)
        self._observation: Array | None = None  # the last one

    def reset(self, *, seed: int | None = None) -> StepBatch:
        """Returns the first step of new games everywhere."""
        seeds = seeds_of(self._seed if seed is None else seed, self.num_envs // self.spec.agents)
        first: GameStep = called(self.spec.name, None, "reset", self._games.begin, seeds)
        self._endings, self._observation = {}, first.observation
        self._begin_drawing(range(len(seeds)), first)
        return first_step(first.observation, scored=self.spec.scored)

    def step(self, actions: Array) -> StepBatch:
        """Returns the step after `actions`, one step of the engine; ended games begin anew."""
        actions = checked_actions(actions, self.spec, self.num_envs)
        step: GameStep = called(self.spec.name, None, "step", self._games.step, actions)
        batch = StepBatch(step.observation, step.reward, np.zeros(self.num_envs, np.uint8), score=step.score)
        over = step.terminated | step.truncated
        for screen, own in zip(self._screens, np.split(actions, len(over)), strict=False):
            screen.step(own)
        self._endings, self._observation = {}, batch.observation
        if over.any():
            self._renew(batch, over, cut_off=step.truncated & ~step.terminated)
        return batch

    def _renew(self, batch: StepBatch, over: Array, cut_off: Array) -> None:
        """Begins the games in the mask `over` anew, in place; adds the final observations of those in `cut_off`."""
        ended, late = (np.repeat(mask, self.spec.agents) for mask in (over, cut_off))
        if self.keeps_endings:
            self._endings = {row: Ending(batch.observation[row].copy(), self.render(row))
                             for row in np.flatnonzero(ended).tolist()}
        if late.any():
            batch.final_index = np.flatnonzero(late).astype(np.int32)
            batch.final_observation = batch.observation[late]
        first: GameStep = called(self.spec.name, None, "reset", self._games.renew, np.flatnonzero(over))
        batch.observation[ended] = first.observation
        self._begin_drawing(np.flatnonzero(over).tolist(), first)
        batch.flags[ended] = ENDED_FLAGS
        batch.flags[late] = CUT_OFF_FLAGS

    def _begin_drawing(self, games: Sequence[int], first: GameStep) -> None:
        """Begins the games of `first` on the screens of `games`."""
        if self._screens:
            for game, seed, number in zip(games, first.engine_seed.tolist(), first.number.tolist(), strict=True):
                self._screens[game].begin(seed, number)

    def render(self, index: int) -> Array | None:
        """The picture of row `index`, uint8 [H, W, 3]: with `show` "frames", its game's own frame.

        Otherwise a plan of the pitch, from that player's observation; None if that is not planes.
        """
        if self._observation is None:
            return None
        if self._screens:
            game, agents = index // self.spec.agents, self.spec.agents
            return self._screens[game].frame(self._observation[game * agents : (game + 1) * agents])
        return picture(self._observation[index]) if self.spec.parts == (PLANES,) else None

    def close(self) -> None:
        """Ends the games; may be called more than once."""
        self._games.close()
        for screen in self._screens:
            screen.close()

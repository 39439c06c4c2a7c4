"""Football behind the vector contract, on either engine.

A row is a controlled player; the players of a game lie side by side. The engines step and renew games when told; here
a game that ended is renewed in the same step, and endings are kept and drawn for those who look.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from workbench.environments.adapters.guarded_calls import called
from workbench.environments.contract import Array, Ending, Show, checked_actions, seeds_of
from workbench.environments.football.planes import PLANES, picture
from workbench.trajectory import EnvironmentSpec, Flags, StepBatch

STEPS_PER_SECOND = 10.0  # of play: ten steps of physics, 10 ms each
ACTIONS = (
    "idle", "left", "top left", "top", "top right", "right", "bottom right", "bottom", "bottom left", "long pass",
    "high pass", "short pass", "shot", "sprint", "release direction", "release sprint", "sliding", "dribble",
    "release dribble",
)  # gfootball's action_set_dict["default"]


class Moment(NamedTuple):
    """What some games came to. R rows, G games, R = G times the players of a game.

    Attributes:
        observation: [R, *frame].
        reward: float32 [R].
        terminated, truncated: bool [G].
        engine_seed, number: int [G], by which an engine can play the same game again.
        score: float32 [R], the goals in `reward`, where that has more.
    """

    observation: Array
    reward: Array
    terminated: Array
    truncated: Array
    engine_seed: Array
    number: Array
    score: Array | None = None


class Games(Protocol):
    """N games on one of the engines.

    Attributes:
        keeps_memory: whether every `begin` but the first leaves memory behind for as long as the process lives.
    """

    keeps_memory: bool

    def begin(self, seeds: Array) -> Moment:
        """New games everywhere, of these seeds [N]."""
        ...

    def step(self, actions: Array) -> Moment:
        """What actions [R] lead to; nothing is reset."""
        ...

    def renew(self, games: Array) -> Moment:
        """New games where `games` [K] says; of those alone."""
        ...

    def close(self) -> None:
        """Ends them."""
        ...


class Screen(Protocol):
    """Draws one game that is played elsewhere."""

    def begin(self, engine_seed: int, number: int) -> None:
        """A new game."""
        ...

    def step(self, actions: Array) -> None:
        """The actions of the game's players."""
        ...

    def frame(self, observation: Array) -> Array:
        """What it looks like now, uint8 [H, W, 3], where its players are told `observation` [players, *frame]."""
        ...

    def close(self) -> None:
        """Ends it."""
        ...


class FootballVector:
    """N controlled players. See `contract.VectorEnvironment`.

    Args:
        spec: with the number of players of a game in `agents`.
        screens: one for each game, to draw it; (): what a player is told is drawn as a plan of the pitch.
        show: "endings": how games end is kept for `ending`; "frames": the screens' frames as well.

    Attributes:
        keeps_memory_at_reset: see `actor.main`.
    """

    fps = STEPS_PER_SECOND
    action_names = ACTIONS

    def __init__(
        self, spec: EnvironmentSpec, games: Games, *, num_envs: int, seed: int, screens: Sequence[Screen] = (),
        show: Show = None,
    ) -> None:
        self.spec = spec
        self.num_envs = num_envs
        self.keeps_memory_at_reset = games.keeps_memory
        self._games = games
        self._screens = screens
        self._seed = seed
        self._keeps_endings = show is not None
        self._shown: Array | None = None  # the last observations
        self._endings: dict[int, Ending] = {}  # of the last step, by row

    def reset(self, *, seed: int | None = None) -> StepBatch:
        """The first step of new games everywhere."""
        seeds = seeds_of(self._seed if seed is None else seed, self.num_envs // self.spec.agents)
        moment: Moment = called(self.spec.name, None, "reset", self._games.begin, seeds)
        self._endings, self._shown = {}, moment.observation
        self._begin_drawing(range(len(seeds)), moment)
        nothing = np.zeros(self.num_envs, np.float32)
        return StepBatch(moment.observation, nothing, np.full(self.num_envs, Flags.START, np.uint8),
                         score=nothing.copy() if self.spec.scored else None)

    def step(self, actions: Array) -> StepBatch:
        """The step that follows `actions`, one step of the engine; games that ended begin anew."""
        actions = checked_actions(actions, self.spec, self.num_envs)
        moment: Moment = called(self.spec.name, None, "step", self._games.step, actions)
        batch = StepBatch(moment.observation, moment.reward, np.zeros(self.num_envs, np.uint8), score=moment.score)
        over = moment.terminated | moment.truncated
        for screen, own in zip(self._screens, np.split(actions, len(over)), strict=False):
            screen.step(own)
        self._endings, self._shown = {}, batch.observation
        if over.any():
            self._renew(batch, over, cut_off=moment.truncated & ~moment.terminated)
        return batch

    def _renew(self, batch: StepBatch, over: Array, cut_off: Array) -> None:
        """Begins the games in the mask `over` anew, in place; the last observations of those cut off become final."""
        ended, late = (np.repeat(mask, self.spec.agents) for mask in (over, cut_off))
        if self._keeps_endings:
            self._endings = {row: Ending(batch.observation[row].copy(), self.render(row))
                             for row in np.flatnonzero(ended).tolist()}
        if late.any():
            batch.final_index = np.flatnonzero(late).astype(np.int32)
            batch.final_observation = batch.observation[late]
        moment: Moment = called(self.spec.name, None, "reset", self._games.renew, np.flatnonzero(over))
        batch.observation[ended] = moment.observation
        self._begin_drawing(np.flatnonzero(over).tolist(), moment)
        batch.flags[ended] = Flags.TERMINATED | Flags.START
        batch.flags[late] = Flags.TRUNCATED | Flags.START

    def _begin_drawing(self, games: Sequence[int], moment: Moment) -> None:
        """Tells the screens of `games` which games `moment` began."""
        if self._screens:
            for game, seed, number in zip(games, moment.engine_seed.tolist(), moment.number.tolist(), strict=True):
                self._screens[game].begin(seed, number)

    def render(self, index: int) -> Array | None:
        """What row `index` shows, uint8 [H, W, 3]: its game's own frame where `show` is "frames".

        Else a plan of the pitch with what that player is told; None where that is not planes.
        """
        if self._shown is None:
            return None
        if self._screens:
            game, agents = index // self.spec.agents, self.spec.agents
            return self._screens[game].frame(self._shown[game * agents : (game + 1) * agents])
        return picture(self._shown[index]) if self.spec.parts == (PLANES,) else None

    def ending(self, index: int) -> Ending | None:
        """Where `show` is set: how the game of row `index` ended that the last step ended, else None."""
        return self._endings.get(index)

    def close(self) -> None:
        """Ends the games; may be called more than once."""
        self._games.close()
        for screen in self._screens:
            screen.close()

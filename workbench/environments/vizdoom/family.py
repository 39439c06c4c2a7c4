"""ViZDoom's scenarios (first-person, by the vizdoom wheel) as a vector: one engine process per game.

A step presses an action's buttons for `frame_skip` frames. The engine draws 160x120 in colour; the observation is that,
area-averaged to [3, 72, 96]. Rewards are the scenario's (living reward, death penalty, its script's), not clipped.

- A scenario's time limit is counted here, since the engine draws no screen after its own limit: so a TRUNCATED episode
  has its true final observation. Death and a reached goal are TERMINATED; their `ending` is the screen before.
- Every episode has its own seed, drawn from the game's stream, and the engine runs in step with the caller: the same
  seed and actions give the same episodes, with bots too.
- A wait for an engine lets other threads run, so `threads` threads step the N games at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from workbench.config.settings import check_known
from workbench.environment_spec import EnvironmentSpec
from workbench.environments.adapters.guarded_calls import called, close_all, raised
from workbench.environments.contract import Array, Ending, Show, WithEndings, checked_actions, first_step, seeds_of
from workbench.environments.vizdoom.area_average import shrinking
from workbench.environments.vizdoom.doom_game import SCREEN, MatchOptions, VizdoomGame, VizdoomOptions, game_of
from workbench.environments.vizdoom.scenarios import SCENARIOS, Scenario
from workbench.errors import UnknownName
from workbench.trajectory import Flags, StepBatch

FRAMES_PER_SECOND = 35


def names() -> tuple[str, ...]:
    """Every scenario."""
    return tuple(SCENARIOS)


def check(name: str, options: Mapping[str, Any]) -> tuple[Scenario, VizdoomOptions]:
    """The scenario and its options. Raises UnknownName for the name or an option, OutOfBounds for an option's value."""
    if name not in SCENARIOS:
        raise UnknownName.among("environment", name, SCENARIOS)
    scenario = SCENARIOS[name]
    kind = VizdoomOptions if scenario.bots is None else MatchOptions
    check_known(kind, options, "ViZDoom option")
    return scenario, kind(**options)


def make(
    name: str, *, num_envs: int, seed: int, threads: int, options: Mapping[str, Any], show: Show = None
) -> VizdoomVector:
    """`num_envs` games of the scenario `name`. Raises as `check`, and EnvironmentFailed."""
    scenario, parsed = check(name, options)
    return VizdoomVector(name, scenario, num_envs=num_envs, seed=seed, threads=threads, options=parsed, show=show)


class VizdoomVector(WithEndings):
    """N games of one scenario, stepped by `threads` threads. See `contract.VectorEnvironment`.

    Raises EnvironmentFailed if an engine fails.
    """

    def __init__(
        self, name: str, scenario: Scenario, *, num_envs: int, seed: int, threads: int, options: VizdoomOptions,
        show: Show,
    ) -> None:
        self.num_envs = num_envs
        self.fps = FRAMES_PER_SECOND / options.frame_skip
        self._name = name
        self._seed = seed
        super().__init__(keeps_endings=show is not None)
        self._shrink = shrinking(*SCREEN, options.height, options.width)
        workers = min(threads, num_envs)
        self._pool = ThreadPoolExecutor(workers, "vizdoom") if workers > 1 else None
        self._shares = [range(first, num_envs, workers) for first in range(workers)]
        self._games: list[VizdoomGame] = []
        try:
            for index in range(num_envs):
                self._games.append(called(name, index, "constructor", game_of, scenario, options))
        except BaseException:
            self.close()
            raise
        self._presses = self._games[0].presses
        self.spec = EnvironmentSpec(name, (3, options.height, options.width), "uint8", len(self._presses.names),
                                    frames_per_step=options.frame_skip, scored=scenario.bots is not None)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The buttons of the actions: "nothing", "forward", "forward + turn left", ..."""
        return self._presses.names

    def reset(self, *, seed: int | None = None) -> StepBatch:
        """Returns the first step of a new episode everywhere."""
        seeds = seeds_of(self._seed if seed is None else seed, self.num_envs).tolist()
        observation = StepBatch.zeros(self.spec, self.num_envs).observation
        self._endings = {}

        def begin(index: int) -> None:
            self._games[index].begin(seeds[index])
            observation[index] = self._shrink(self._games[index].screen)

        with ThreadPoolExecutor(min(self.num_envs, os.cpu_count() or 1)) as pool:  # a new episode waits for its engine
            list(pool.map(lambda index: called(self._name, index, "reset", begin, index), range(self.num_envs)))
        return first_step(observation, scored=self.spec.scored)

    def step(self, actions: Array) -> StepBatch:
        """Returns the step after `actions`."""
        action_list = checked_actions(actions, self.spec, self.num_envs).tolist()
        batch = StepBatch.zeros(self.spec, self.num_envs)
        finals: dict[int, Array] = {}  # last screens of the episodes that ended

        def play(indices: Iterable[int]) -> None:
            for index in indices:
                game = self._games[index]
                try:
                    batch.reward[index], score, batch.flags[index], final = game.step(action_list[index])
                    if batch.score is not None:
                        batch.score[index] = score
                    batch.observation[index] = self._shrink(game.screen)
                except Exception as error:
                    raise raised(self._name, index, "step", error) from error
                if final is not None:
                    finals[index] = final

        if self._pool is None:
            play(range(self.num_envs))
        else:
            list(self._pool.map(play, self._shares))
        cut_off = [index for index in sorted(finals) if batch.flags[index] & Flags.TRUNCATED]
        if cut_off:
            batch.final_index = np.array(cut_off, np.int32)
            batch.final_observation = np.stack([self._shrink(finals[index]) for index in cut_off])
        if self.keeps_endings:
            self._endings = {index: Ending(self._shrink(final), _picture(final)) for index, final in finals.items()}
        return batch

    def render(self, index: int) -> Array | None:
        """The screen of game `index`, uint8 [120, 160, 3]."""
        return _picture(self._games[index].screen)

    def close(self) -> None:
        """Ends the engines."""
        close_all(self._games)
        if self._pool is not None:
            self._pool.shutdown()


def _picture(screen: Array) -> Array:
    return np.ascontiguousarray(screen.transpose(1, 2, 0))

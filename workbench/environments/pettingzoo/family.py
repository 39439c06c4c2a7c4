"""PettingZoo's parallel environments: each agent of a game is a row of its own, the rows of a game side by side.

A game's rows stand in the order of its `possible_agents`, who must all be there after a reset and have the same spaces
(nothing is padded). A game begins anew in the step in which the last of its agents is out.

The row of an agent that is out while others play on is ABSENT: it holds zeros, and its action is ignored. Its end
(TERMINATED, or TRUNCATED with its final observation) and the reward of its last step are held back and come with the
START of the next game, so that an agent's steps in the game follow each other.

Action masks are those of a Dict observation; those of `infos` alone are refused.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from workbench.config.settings import check_keywords
from workbench.environment_spec import ACTION_MASK
from workbench.environments.adapters.action_spaces import actions_of, each_of
from workbench.environments.adapters.guarded_calls import broken, called, close_all, drawn, real, short
from workbench.environments.adapters.rendering import frames_per_second, named_actions
from workbench.environments.adapters.spaces import layout_of, spec_of
from workbench.environments.contract import Array, Ending, Show, WithEndings, checked_actions, seeds_of
from workbench.errors import EnvironmentFailed, MissingPackage, OutOfBounds, ShapeMismatch, UnknownName
from workbench.trajectory import CUT_OFF_FLAGS, ENDED_FLAGS, Flags, StepBatch

PREFIX = "pettingzoo/"
_FAMILIES = ("atari", "butterfly", "classic", "sisl")


# --- the family: names and how they are made --------------------------------------------------------------------------


def names() -> tuple[str, ...]:
    """Every parallel game of the installed PettingZoo, such as "pettingzoo/butterfly/cooperative_pong_v6".

    Most need a further package, which `check` requires. Games whose agents take turns are left out.
    """
    spec = importlib.util.find_spec("pettingzoo")
    if spec is None or not spec.submodule_search_locations:
        return ()
    root = Path(spec.submodule_search_locations[0])
    modules = (path for family in _FAMILIES for path in (root / family).glob("*_v*.py"))
    return tuple(sorted(f"{PREFIX}{path.parent.name}/{path.stem}" for path in modules
                        if "parallel_env" in path.read_text()))


def check(name: str, options: Mapping[str, Any]) -> None:
    """Raises UnknownName for the name or an option, MissingPackage if the game needs a package."""
    module = _module(name)
    check_keywords(getattr(module, "raw_env", module.parallel_env), options, f"option of {name}")


def make(
    name: str, *, num_envs: int, seed: int, threads: int, options: Mapping[str, Any], show: Show
) -> ParallelVector:
    """The rows of num_envs / agents games of `name`. Raises as `check`, and as `ParallelVector`."""
    check(name, options)
    rendering = {"render_mode": "rgb_array"} if show == "frames" else {}
    module = _module(name)
    return ParallelVector(name, lambda: module.parallel_env(**{**rendering, **options}), num_envs=num_envs, seed=seed,
                          keeps_endings=show is not None)


def _module(name: str) -> Any:
    if name not in names():
        raise UnknownName.among("environment", name, names())
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    module_name = name.removeprefix(PREFIX).replace("/", ".")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # recommends a registry that does not exist
            return importlib.import_module(f"pettingzoo.{module_name}")
    except ImportError as error:  # some games raise a plain one, with their own text
        family = module_name.partition(".")[0]
        raise MissingPackage(f'environment {name!r} needs a package that is not installed ({error}): '
                             f"pip install 'pettingzoo[{family}]'") from None


# --- the vector -------------------------------------------------------------------------------------------------------


class ParallelVector(WithEndings):
    """num_envs / k games of k agents each, made by `build`. See the module, and `contract.VectorEnvironment`.

    Args:
        keeps_endings: whether `ending` returns how episodes ended, for people to see.

    Raises EnvironmentFailed if one fails, OutOfBounds if num_envs is no multiple of the agents of a game, ShapeMismatch
    if its spaces are not supported or differ between agents.
    """

    def __init__(
        self, name: str, build: Callable[[], Any], *, num_envs: int, seed: int, keeps_endings: bool = False
    ) -> None:
        self.num_envs = num_envs
        super().__init__(keeps_endings=keeps_endings)
        self._name, self._seed = name, seed
        self._games: list[Any] = []
        try:
            self._games.append(called(name, 0, "constructor", build))
            self._agents = self._possible_agents()
            if num_envs % len(self._agents):
                raise OutOfBounds(
                    f"{len(self._agents)} agents play each game of {name}, so num_envs={num_envs} is no number of "
                    f"whole games: give a multiple of {len(self._agents)}, such as num_envs={2 * len(self._agents)}; "
                    f"of a run, envs_per_actor must be one of groups_per_actor x {len(self._agents)}.")
            self._layout = layout_of(self._common_space("observation_space"), name)
            actions, self.to_native = actions_of(self._common_space("action_space"), name)
            for game in range(1, num_envs // len(self._agents)):
                self._games.append(called(name, game, "constructor", build))
        except BaseException:
            self.close()
            raise
        self.spec = spec_of(name, self._layout, actions, agents=len(self._agents))
        self.fps = frames_per_second(self._games[0])
        self._observation: Array | None = None  # the last one
        # The held-back ends of agents that are out, by row: reward, flags, final observation and ending.
        self._out = np.zeros(num_envs, bool)
        self._reward, self._flags = np.zeros(num_envs, np.float32), np.zeros(num_envs, np.uint8)
        self._finals: dict[int, Array] = {}
        self._held_endings: dict[int, Ending] = {}

    @property
    def action_names(self) -> tuple[str, ...]:
        """From the game's `action_names` or `get_action_meanings()`, or the numbers."""
        return named_actions(self._games[0], self.spec.actions)

    def reset(self, *, seed: int | None = None) -> StepBatch:
        """Returns the first step of a new game everywhere."""
        batch = StepBatch.zeros(self.spec, self.num_envs)
        self._endings, self._held_endings, self._finals = {}, {}, {}
        self._reward[:], self._flags[:] = 0, Flags.START
        seeds = seeds_of(self._seed if seed is None else seed, len(self._games))
        for game, game_seed in enumerate(seeds.tolist()):
            self._begin(game, batch, game_seed)
        return self._checked(batch, "reset")

    def step(self, actions: Array) -> StepBatch:
        """Returns the step after `actions`; those of agents that are out are ignored."""
        native_actions = each_of(self.to_native(checked_actions(actions, self.spec, self.num_envs)), self.num_envs)
        batch = StepBatch.zeros(self.spec, self.num_envs)
        self._endings = {}
        for game in range(len(self._games)):
            self._step_game(game, native_actions, batch)
            if self._out[self._rows(game)].all():
                self._begin(game, batch, None)
        return self._checked(batch, "step")

    def render(self, index: int) -> Array | None:
        """The frame of row `index`'s game if its render_mode is "rgb_array"; otherwise that row's image observation."""
        return None if self._observation is None else self._frame(index, self._observation[index])

    def close(self) -> None:
        """Closes every game; an error in one leaves none of the others open."""
        close_all(self._games)

    # --- properties of a game -----------------------------------------------------------------------------------------

    def _possible_agents(self) -> tuple[str, ...]:
        agents = tuple(getattr(self._games[0], "possible_agents", ()))
        if not agents or len(set(agents)) < len(agents):
            raise broken(self._name, 0, "constructor", "possible_agents must name each agent once before a game "
                                                       f"begins, and is {short(agents)}")
        return agents

    def _common_space(self, kind: str) -> Any:
        """The space of all agents. Raises ShapeMismatch if they differ."""
        space_of = getattr(self._games[0], kind)
        first, *others = ((agent, called(self._name, 0, kind, space_of, agent)) for agent in self._agents)
        for agent, space in others:
            if space != first[1]:
                raise ShapeMismatch(f"{self._name}: the agents {first[0]!r} and {agent!r} differ in their {kind}, "
                                    f"{first[1]} and {space}. Make them equal, for instance by supersuit's "
                                    "pad_observations_v0 and pad_action_space_v0.")
        return first[1]

    # --- a game's steps -----------------------------------------------------------------------------------------------

    def _rows(self, game: int) -> slice:
        return slice(game * len(self._agents), (game + 1) * len(self._agents))

    def _begin(self, game: int, batch: StepBatch, seed: int | None) -> None:
        """Begins the game anew, with its agents' held-back ends. Without a seed its random stream goes on."""
        seeding = {} if seed is None else {"seed": seed}
        result = called(self._name, game, "reset", self._games[game].reset, **seeding)
        if not isinstance(result, tuple) or len(result) != 2:
            raise broken(self._name, game, "reset", f"it must return (observations, infos), not {short(result)}")
        rows, (observations, infos) = self._rows(game), result
        told = infos.values() if isinstance(infos, Mapping) else ()
        if self.spec.action_mask is None and any(ACTION_MASK in (info or ()) for info in told):
            raise ShapeMismatch(f"{self._name} has action masks in its infos, where no policy sees them. Wrap it so "
                                f"that its observations are a Dict with one called {ACTION_MASK!r}.")
        for row, agent in enumerate(self._agents, rows.start):
            self._place(row, "reset", agent, self._of(observations, "observation", agent, "reset", game), batch)
            if row in self._held_endings:
                self._endings[row] = self._held_endings.pop(row)
        self._check_agents(game, "reset", self._agents)
        self._out[rows] = False
        batch.reward[rows], batch.flags[rows] = self._reward[rows], self._flags[rows]

    def _step_game(self, game: int, native_actions: Array, batch: StepBatch) -> None:
        rows = self._rows(game)
        playing = {agent: row for row, agent in enumerate(self._agents, rows.start) if not self._out[row]}
        result = called(self._name, game, "step", self._games[game].step,
                        {agent: native_actions[row] for agent, row in playing.items()})
        if not isinstance(result, tuple) or len(result) != 5:
            raise broken(self._name, game, "step", "it must return (observations, rewards, terminations, truncations, "
                                                   f"infos), not {short(result)}")
        batch.flags[rows] = Flags.ABSENT
        observations, rewards, terminations, truncations, _ = result
        for agent, row in playing.items():
            self._place(row, "step", agent, self._of(observations, "observation", agent, "step", game), batch)
            reward = real(self._of(rewards, "reward", agent, "step", game), "reward",
                          partial(self._broken, game, "step", agent))
            terminated = bool(self._of(terminations, "termination", agent, "step", game))
            truncated = bool(self._of(truncations, "truncation", agent, "step", game))
            if terminated or truncated:
                self._hold_back(row, reward, terminated, batch)
            else:
                batch.reward[row], batch.flags[row] = reward, 0
        self._check_agents(game, "step", [agent for agent, row in playing.items() if not self._out[row]])

    def _hold_back(self, row: int, reward: float, terminated: bool, batch: StepBatch) -> None:
        """Keeps the end of the agent of `row` until its game begins anew; until then it is out."""
        last = batch.observation[row].copy()
        self._out[row] = True
        self._reward[row], self._flags[row] = reward, ENDED_FLAGS if terminated else CUT_OFF_FLAGS
        if not terminated:
            self._finals[row] = last
        if self.keeps_endings:
            self._held_endings[row] = Ending(last, self._frame(row, last))
        batch.observation[row] = 0

    def _checked(self, batch: StepBatch, where: str) -> StepBatch:
        """Adds the final observations of rows that begin anew. Returns the batch if all its numbers are finite."""
        self._check_finite(batch.observation, np.arange(self.num_envs), where)
        rows = [row for row in sorted(self._finals) if not self._out[row]]
        if rows:
            batch.final_index = np.array(rows, np.int32)
            batch.final_observation = np.stack([self._finals.pop(row) for row in rows])
            self._check_finite(batch.final_observation, batch.final_index, where)
        self._observation = batch.observation
        return batch

    def _place(self, row: int, where: str, agent: str, observation: Any, batch: StepBatch) -> None:
        try:
            self._layout.place(observation, batch.observation[row])
        except (TypeError, ValueError) as error:
            raise self._broken(row // len(self._agents), where, agent, str(error)) from None

    def _of(self, values: Any, what: str, agent: str, where: str, game: int) -> Any:
        try:
            return values[agent]
        except (KeyError, TypeError, IndexError):
            raise self._broken(game, where, agent, f"there is no {what} of it in {short(values)}") from None

    def _check_agents(self, game: int, where: str, playing: tuple[str, ...] | list[str]) -> None:
        """The game's own `agents` must be those that play on."""
        agents = self._games[game].agents
        for agent in agents:
            if agent not in playing:
                why = "was terminated or truncated" if agent in self._agents else "is not in possible_agents"
                raise self._broken(game, where, agent, f"it is in `agents`, and {why}")
        for agent in playing:
            if agent not in agents:
                raise self._broken(game, where, agent,
                                   "it is not in `agents`, and was neither terminated nor truncated (all of "
                                   "possible_agents must be there after a reset)")

    def _check_finite(self, observation: Array, rows: Array, where: str) -> None:
        if (wrong := self._layout.not_finite(observation)) is not None:
            index, sentence = wrong
            game, agent = divmod(int(rows[index]), len(self._agents))
            raise self._broken(game, where, self._agents[agent], f"its {sentence}")

    def _broken(self, game: int, where: str, agent: str, rule: str) -> EnvironmentFailed:
        return broken(self._name, game, where, f"agent {agent!r}: {rule}")

    def _frame(self, row: int, observation: Array) -> Array | None:
        game = row // len(self._agents)
        return drawn(self._name, game, self._games[game], observation, self.spec)

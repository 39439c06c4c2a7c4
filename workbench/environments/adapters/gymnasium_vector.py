"""Gymnasium environments stepped one after another in this process, behind the vector contract.

Gymnasium's SyncVectorEnv is not used: it copies NaN unchecked, and its errors do not name the environment. Here every
exception and every wrong result becomes an EnvironmentFailed that names the environment, its index and the rule, and
ends with the traceback. Both take the same time.
"""

from __future__ import annotations

import copy
import itertools
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from workbench.environments.adapters import minigrid
from workbench.environments.adapters.action_spaces import actions_of, each_of
from workbench.environments.adapters.guarded_calls import LARGEST, broken, called, close_all, drawn, raised, real, short
from workbench.environments.adapters.rendering import frames_per_second, named_actions
from workbench.environments.adapters.spaces import Layout, layout_of, spec_of
from workbench.environments.contract import Array, Ending, WithEndings, checked_actions, first_step, seeds_of
from workbench.errors import EnvironmentFailed
from workbench.trajectory import CUT_OFF_FLAGS, ENDED_FLAGS, StepBatch


class GymnasiumVector(WithEndings):
    """N Gymnasium environments made by `build`. See `contract.VectorEnvironment`.

    Args:
        keeps_endings: whether `ending` returns how episodes ended, for people to see.
        first_index: index of the first environment in messages, if other processes step others.
        layout: of observations; None: as the environment and its space have it.

    An environment whose `metadata` has a "score" is scored: by the member of `info` that is called so, such as
    "is_success", at the end of each episode.

    Attributes:
        left_out: members of the observation that are words, which networks do not get, such as MiniGrid's mission.

    Raises EnvironmentFailed if one fails, ShapeMismatch if its spaces are not supported.
    """

    def __init__(
        self, name: str, build: Callable[[], Any], *, num_envs: int, seed: int, keeps_endings: bool = False,
        first_index: int = 0, layout: Layout | None = None,
    ) -> None:
        self.num_envs, self._first_index = num_envs, first_index
        super().__init__(keeps_endings=keeps_endings)
        self._seed = seed
        self._name = name
        self._envs: list[Any] = []
        try:
            for index in range(num_envs):
                self._envs.append(self._built(build, index))
            first = self._envs[0]
            self._layout = layout or minigrid.layout_of(first, name) or layout_of(first.observation_space, name)
            actions, self.to_native = actions_of(first.action_space, name)
        except BaseException:
            self.close()
            raise
        self._score: Any = (getattr(first, "metadata", None) or {}).get("score")  # the name of a member of `info`
        self.spec = replace(spec_of(name, self._layout, actions), scored=self._score is not None)
        self.left_out = self._layout.left_out
        self._observation: Array | None = None  # the last one
        # Whether environments write into the same memory, so that each one's is copied; None: unknown before a step.
        self._sharing: bool | None = None
        self.fps = frames_per_second(first)
        without_display(first)

    @property
    def action_names(self) -> tuple[str, ...]:
        """From the environment's `action_names` or `get_action_meanings()`, from a table, or numbers."""
        return minigrid.action_names(self._envs[0]) or named_actions(self._envs[0], self.spec.actions)

    def reset(self, *, seed: int | None = None) -> StepBatch:
        """Returns the first step of a new episode everywhere."""
        return self.reset_each(seeds_of(self._seed if seed is None else seed, self.num_envs))

    def reset_each(self, seeds: Array) -> StepBatch:
        """As `reset`, with a seed for each environment."""
        self._endings = {}
        observations = [copy.deepcopy(self._reset_one(index, seed)) for index, seed in enumerate(seeds.tolist())]
        return first_step(self._placed(observations, lambda index: "reset"), scored=self.spec.scored)

    def step(self, actions: Array) -> StepBatch:
        """Returns the step after `actions`."""
        native_actions = self.to_native(checked_actions(actions, self.spec, self.num_envs))
        observations: list[Any] = []
        originals: list[Any] = []  # as returned, to find out whether environments share memory
        rewards: list[float] = []
        flags = np.zeros(self.num_envs, np.uint8)
        score = np.zeros(self.num_envs, np.float32) if self.spec.scored else None
        finals: dict[int, Array] = {}
        self._endings = {}
        for index, action in enumerate(each_of(native_actions, self.num_envs)):
            observation, reward, terminated, truncated, info = self._step_one(index, action)
            if terminated or truncated:
                flags[index] = ENDED_FLAGS if terminated else CUT_OFF_FLAGS
                if score is not None:
                    score[index] = self._scored(index, info)
                final = self._final(index, observation)
                if not terminated:
                    finals[index] = final
                observation = self._reset_one(index, None)
            rewards.append(reward)
            observations.append(observation if self._sharing is False else copy.deepcopy(observation))
            if self._sharing is None:
                originals.append(observation)
        if self._sharing is None:
            with suppress(LookupError, TypeError):  # a wrong observation, which raises below
                self._sharing = any(_overlap(_leaves(originals, member.path)) for member in self._layout.members)
        rows = self._placed(observations, lambda index: "reset" if flags[index] else "step")
        batch = StepBatch(rows, np.array(rewards, np.float32), flags, score=score)
        if finals:
            batch.final_index = np.fromiter(finals, np.int32)
            batch.final_observation = np.stack(list(finals.values()))
            self._check_finite(batch.final_observation, lambda row: (int(batch.final_index[row]), "step"))
        return batch

    def render(self, index: int) -> Array | None:
        """The frame of environment `index` if its render_mode is "rgb_array"; otherwise its image observation.

        None if observations are vectors. Raises MissingPackage if a package that draws is missing.
        """
        return None if self._observation is None else self._frame(index, self._observation[index])

    def _frame(self, index: int, observation: Array) -> Array | None:
        return drawn(self._name, self._first_index + index, self._envs[index], observation, self.spec)

    def close(self) -> None:
        """Closes every environment; an error in one leaves none of the others open."""
        close_all(self._envs)

    def _empty(self, rows: int) -> Array:
        return np.empty((rows, *self._layout.shape), self._layout.dtype)

    def _built(self, build: Callable[[], Any], index: int) -> Any:
        env = called(self._name, self._first_index + index, "constructor", build)
        for method in ("reset", "step", "observation_space", "action_space"):
            if not hasattr(env, method):
                raise self._broken(index, "constructor", f"{env!r} has no {method!r}: it is not a gymnasium.Env")
        return env

    def _step_one(self, index: int, action: Any) -> tuple[Any, float, bool, bool, Any]:
        """Steps environment `index`. Returns its own observation, reward, terminated, truncated, info."""
        try:
            result = self._envs[index].step(action)
        except (Exception, SystemExit) as error:
            raise raised(self._name, self._first_index + index, "step", error) from error
        try:
            observation, reward, terminated, truncated, info = result
        except (TypeError, ValueError):
            raise self._broken(index, "step", f"it must return (observation, reward, terminated, truncated, info), "
                                              f"not {short(result)}") from None
        if not (isinstance(reward, float) and -LARGEST < reward < LARGEST):  # np.float64 is one, and NaN none of these
            reward = real(reward, "reward", partial(self._broken, index, "step"))
        if type(terminated) is not bool or type(truncated) is not bool:
            terminated = self._flag(index, "terminated", terminated)
            truncated = self._flag(index, "truncated", truncated)
        return observation, reward, terminated, truncated, info

    def _scored(self, index: int, info: Any) -> float:
        """The score of the episode that ends with this info."""
        if not isinstance(info, Mapping) or self._score not in info:
            has = f"it has {', '.join(map(repr, info)) or 'nothing'}" if isinstance(info, Mapping) else "it is no dict"
            raise self._broken(index, "step", f"metadata['score'] names {self._score!r}, and the info at an episode's "
                                              f"end lacks it: {has}")
        return real(info[self._score], "score", partial(self._broken, index, "step"))

    def _final(self, index: int, observation: Any) -> Array:
        """The row of an episode's last observation; records its Ending if endings are kept."""
        row: Array = self._empty(1)[0]
        self._place(index, "step", observation, row)
        if self.keeps_endings:
            self._endings[index] = Ending(row, self._frame(index, row))
        return row

    def _reset_one(self, index: int, seed: int | None) -> Any:
        """The first observation of environment `index`, as returned; without a seed its random stream goes on."""
        env = self._envs[index]
        try:
            result = env.reset() if seed is None else env.reset(seed=seed)
        except (Exception, SystemExit) as error:
            raise raised(self._name, self._first_index + index, "reset", error) from error
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._broken(index, "reset", f"it must return (observation, info), not {short(result)}")
        return result[0]

    def _placed(self, observations: list[Any], where: Callable[[int], str]) -> Array:
        """The observations of all environments as rows; `where(index)`: the method that returned one.

        All at once costs little more than one. If that fails, writing them one by one finds the wrong one.
        """
        rows, layout = self._empty(self.num_envs), self._layout
        try:
            for member in layout.members:
                stacked = np.array(_leaves(observations, member.path))
                if layout.is_plain and stacked.dtype == rows.dtype and stacked.shape == rows.shape:
                    rows = stacked
                else:
                    member.place(stacked, member.view(rows) if layout.parts else rows, (self.num_envs,))
        except (TypeError, ValueError, LookupError):
            for index, observation in enumerate(observations):
                self._place(index, where(index), observation, rows[index])
        self._check_finite(rows, lambda row: (row, where(row)))
        self._observation = rows
        return rows

    def _place(self, index: int, where: str, observation: Any, row: Array) -> None:
        try:
            self._layout.place(observation, row)
        except (TypeError, ValueError) as error:
            raise self._broken(index, where, str(error)) from None

    def _flag(self, index: int, name: str, value: Any) -> bool:
        if not isinstance(value, (bool, np.bool_)):
            raise self._broken(index, "step", f"{name} must be True or False, not {short(value)}")
        return bool(value)

    def _check_finite(self, rows: Array, source: Callable[[int], tuple[int, str]]) -> None:
        """Raises EnvironmentFailed for a value that is not finite; `source(row)` is an index, and "reset" or "step"."""
        if (wrong := self._layout.not_finite(rows)) is not None:
            row, sentence = wrong
            raise self._broken(*source(row), sentence)

    def _broken(self, index: int, where: str, rule: str) -> EnvironmentFailed:
        return broken(self._name, self._first_index + index, where, rule)


def _leaves(observations: list[Any], path: tuple[Any, ...]) -> list[Any]:
    """The value at `path` in each observation."""
    for key in path:
        observations = [observation[key] for observation in observations]
    return observations


def _overlap(leaves: list[Any]) -> bool:
    """Whether two arrays, or the arrays that they are views of, have memory in common."""
    bounds = sorted(byte_bounds(_whole(leaf)) for leaf in leaves if isinstance(leaf, np.ndarray))
    return any(end > start for (_, end), (start, _) in itertools.pairwise(bounds))


def _whole(array: Array) -> Array:
    """The array that it is a view of, of which it may show another part at the next step."""
    return _whole(array.base) if isinstance(array.base, np.ndarray) else array


def without_display(env: Any) -> None:
    """Lets MuJoCo draw without a display: sets MUJOCO_GL to EGL, unless the user has set it.

    Gymnasium's MuJoCo environments would open a window with GLFW, which fails without a display. They read the variable
    at their first frame, so it is set only for an environment that draws.
    """
    bare = type(getattr(env, "unwrapped", env))
    if sys.platform == "linux" and not os.environ.get("DISPLAY") and getattr(env, "render_mode", None) == "rgb_array":
        if any("mujoco" in cls.__module__ for cls in bare.__mro__):
            os.environ.setdefault("MUJOCO_GL", "egl")

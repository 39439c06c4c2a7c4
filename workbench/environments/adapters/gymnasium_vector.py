"""Gymnasium environments stepped one after another in this process, behind the vector contract.

Gymnasium's SyncVectorEnv is not used: it copies a NaN without looking, and its errors do not say which environment
they came from. Here whatever an environment raises or returns wrongly becomes an EnvironmentFailed that names the
environment, its index and the rule, and ends with the traceback. Both take the same time.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from workbench.environments.adapters import minigrid
from workbench.environments.adapters.guarded_calls import LARGEST, broken, called, close_all, frame_of, raised, short
from workbench.environments.adapters.rendering import frames_per_second, named_actions
from workbench.environments.adapters.spaces import Layout, actions_of, layout_of, spec_of
from workbench.environments.contract import Array, Ending, checked_actions, seeds_of
from workbench.environments.observations import picture_of
from workbench.errors import EnvironmentFailed
from workbench.trajectory import Flags, StepBatch

_ENDED = np.uint8(Flags.TERMINATED | Flags.START)
_CUT_OFF = np.uint8(Flags.TRUNCATED | Flags.START)


class GymnasiumVector:
    """N Gymnasium environments made by `build`. See `contract.VectorEnvironment`.

    Args:
        keeps_endings: for somebody to look at: how episodes end is kept for `ending`.
        first_index: what messages call the first one, where others are stepped in other processes.

    Attributes:
        left_out: members of the observation that are words, which no network gets to see, such as MiniGrid's mission.

    Raises EnvironmentFailed if one fails, ShapeMismatch if its spaces are not supported.
    """

    def __init__(
        self, name: str, build: Callable[[], Any], *, num_envs: int, seed: int, keeps_endings: bool = False,
        first_index: int = 0,
    ) -> None:
        self.num_envs, self._first_index = num_envs, first_index
        self.keeps_endings = keeps_endings
        self._endings: dict[int, Ending] = {}  # of the last step, by index
        self._seed = seed
        self._name = name
        self._envs: list[Any] = []
        try:
            for index in range(num_envs):
                self._envs.append(self._built(build, index))
            first = self._envs[0]
            self._layout: Layout = minigrid.layout_of(first, name) or layout_of(first.observation_space, name)
            actions, self._given = actions_of(first.action_space, name)
        except BaseException:
            self.close()
            raise
        self.spec = spec_of(name, self._layout, actions)
        self.left_out = self._layout.left_out
        self._shown: Array | None = None  # the last observations
        self._sharing: bool | None = None  # whether environments write into one array; None: not known before a step
        self.fps = frames_per_second(first)
        without_display(first)

    @property
    def action_names(self) -> tuple[str, ...]:
        """From the environment's `action_names` or `get_action_meanings()`, from a table, or the numbers."""
        return minigrid.action_names(self._envs[0]) or named_actions(self._envs[0], self.spec.num_actions)

    def reset(self, *, seed: int | None = None) -> StepBatch:
        """The first step of a new episode everywhere."""
        return self.reset_each(seeds_of(self._seed if seed is None else seed, self.num_envs))

    def reset_each(self, seeds: Array) -> StepBatch:
        """As `reset`, by one seed for each."""
        batch = StepBatch(self._empty(self.num_envs), np.zeros(self.num_envs, np.float32),
                          np.full(self.num_envs, Flags.START, np.uint8))
        shown = [self._kept(self._reset_one(index, one_seed)) for index, one_seed in enumerate(seeds.tolist())]
        self._place_all(shown, batch)
        return batch

    def step(self, actions: Array) -> StepBatch:
        """The step that follows `actions`."""
        given = self._given(checked_actions(actions, self.spec, self.num_envs))
        batch = StepBatch(
            self._empty(self.num_envs), np.zeros(self.num_envs, np.float32), np.zeros(self.num_envs, np.uint8))
        shown: list[Any] = []
        own: list[Any] = []
        finals: dict[int, Array] = {}
        self._endings = {}
        for index, action in enumerate(given):
            observation, batch.reward[index], terminated, truncated = self._step_one(index, action)
            if terminated or truncated:
                batch.flags[index] = _ENDED if terminated else _CUT_OFF
                final = self._last(index, observation)
                if not terminated:
                    finals[index] = final
                observation = self._reset_one(index, None)
            shown.append(self._kept(observation))
            if self._sharing is None:
                own.append(observation)
        if self._sharing is None:
            with suppress(LookupError, TypeError):  # of a wrong observation, which is told below
                self._sharing = any(_repeats(_leaves(own, member.path)) for member in self._layout.members)
        if finals:
            batch.final_index = np.fromiter(finals, np.int32)
            batch.final_observation = np.stack(list(finals.values()))
            self._check_finite(batch.final_observation, lambda row: (int(batch.final_index[row]), "step"))
        self._place_all(shown, batch)
        return batch

    def render(self, index: int) -> Array | None:
        """The frame that environment `index` draws, made with render_mode="rgb_array"; else its image observation.

        None where observations are vectors. Raises MissingPackage where the environment cannot draw without one.
        """
        return None if self._shown is None else self._frame(index, self._shown[index])

    def ending(self, index: int) -> Ending | None:
        """Where endings are kept: how the episode of environment `index` ended that the last step ended, else None."""
        return self._endings.get(index)

    def _frame(self, index: int, observation: Array) -> Array | None:
        env = self._envs[index]
        draws = getattr(env, "render_mode", None) == "rgb_array"
        drawn = called(self._name, self._first_index + index, "render", env.render) if draws else None
        return picture_of(observation, self.spec) if drawn is None else frame_of(
            self._name, self._first_index + index, drawn)

    def close(self) -> None:
        """Closes every environment; an error in one of them does not keep the others open."""
        close_all(self._envs)

    def _empty(self, rows: int) -> Array:
        return np.empty((rows, *self._layout.shape), self._layout.dtype)

    def _built(self, build: Callable[[], Any], index: int) -> Any:
        env = called(self._name, self._first_index + index, "constructor", build)
        for method in ("reset", "step", "observation_space", "action_space"):
            if not hasattr(env, method):
                raise self._broken(index, "constructor", f"it made {env!r}, which has no {method!r}: not a "
                                                         "gymnasium.Env")
        return env

    def _step_one(self, index: int, action: Any) -> tuple[Any, float, bool, bool]:
        """Steps environment `index`: its own observation, reward, terminated, truncated."""
        try:
            result = self._envs[index].step(action)
        except Exception as error:
            raise raised(self._name, self._first_index + index, "step", error) from error
        try:
            observation, reward, terminated, truncated, _ = result
        except (TypeError, ValueError):
            raise self._broken(index, "step", f"it must return (observation, reward, terminated, truncated, info), "
                                              f"not {short(result)}") from None
        if not isinstance(reward, float):  # np.float64 is one
            reward = self._reward(index, reward)
        if not -LARGEST < reward < LARGEST:  # also refuses NaN
            raise self._broken(index, "step", f"reward {reward} is not a finite float32")
        if type(terminated) is not bool or type(truncated) is not bool:
            terminated = self._flag(index, "terminated", terminated)
            truncated = self._flag(index, "truncated", truncated)
        return observation, reward, terminated, truncated

    def _last(self, index: int, observation: Any) -> Array:
        """The row of the last observation of an episode; where endings are kept, what there was to see beside it."""
        row: Array = self._empty(1)[0]
        self._place(index, "step", observation, row)
        if self.keeps_endings:
            self._endings[index] = Ending(row, self._frame(index, row))
        return row

    def _reset_one(self, index: int, seed: int | None) -> Any:
        """The own first observation of environment `index`; without a seed it goes on as seeded."""
        env = self._envs[index]
        try:
            result = env.reset() if seed is None else env.reset(seed=seed)
        except Exception as error:
            raise raised(self._name, self._first_index + index, "reset", error) from error
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._broken(index, "reset", f"it must return (observation, info), not {short(result)}")
        return result[0]

    def _kept(self, observation: Any) -> Any:
        """The observation, or a copy where another environment may write into it before all are placed."""
        return observation if self._sharing is False else copy.deepcopy(observation)

    def _place_all(self, shown: list[Any], batch: StepBatch) -> None:
        """Writes what all environments show into the rows of `batch`.

        All at once, which costs little more than one. Where that fails, one after another tells which is wrong.
        """
        rows, layout = batch.observation, self._layout
        try:
            for member in layout.members:
                own = member.view(rows) if layout.parts else rows
                member.place(np.array(_leaves(shown, member.path)), own, (self.num_envs,))
        except (TypeError, ValueError, LookupError):
            for index, observation in enumerate(shown):
                self._place(index, _where(batch, index), observation, rows[index])
        self._check_finite(rows, lambda row: (row, _where(batch, row)))
        self._shown = rows

    def _place(self, index: int, where: str, observation: Any, row: Array) -> None:
        try:
            self._layout.place(observation, row)
        except (TypeError, ValueError) as error:
            raise self._broken(index, where, str(error)) from None

    def _reward(self, index: int, reward: Any) -> float:
        if isinstance(reward, np.ndarray) and reward.ndim == 0:
            reward = reward.item()
        if not isinstance(reward, (int, float, np.number, np.bool_)):
            raise self._broken(index, "step", f"reward {short(reward)} is not a number")
        return float(reward)

    def _flag(self, index: int, name: str, value: Any) -> bool:
        if not isinstance(value, (bool, np.bool_)):
            raise self._broken(index, "step", f"{name} must be True or False, not {short(value)}")
        return bool(value)

    def _check_finite(self, rows: Array, whose: Callable[[int], tuple[int, str]]) -> None:
        """Raises EnvironmentFailed for a value that is not finite; `whose` tells the index of a row and where from."""
        wrong = self._layout.not_finite(rows)
        if wrong is not None:
            raise self._broken(*whose(wrong[0]), f"observation has the value {wrong[1]}, which is not finite")

    def _broken(self, index: int, where: str, rule: str) -> EnvironmentFailed:
        return broken(self._name, self._first_index + index, where, rule)


def _where(batch: StepBatch, index: int) -> str:
    """What returned the observation of environment `index`."""
    return "reset" if batch.flags[index] & Flags.START else "step"


def _leaves(shown: list[Any], path: tuple[Any, ...]) -> list[Any]:
    """What lies at `path` in each observation."""
    for key in path:
        shown = [one[key] for one in shown]
    return shown


def _repeats(leaves: list[Any]) -> bool:
    """Whether one array stands there more than once."""
    arrays = [id(one) for one in leaves if isinstance(one, np.ndarray)]
    return len(set(arrays)) < len(arrays)


def without_display(env: Any) -> None:
    """Lets MuJoCo draw where there is no screen: by EGL, unless the user chose otherwise with MUJOCO_GL.

    Gymnasium's MuJoCo environments would open a window with GLFW, which fails without a display. They read the variable
    when they draw first, so it is set only for one that is made to draw.
    """
    bare = type(getattr(env, "unwrapped", env))
    if sys.platform == "linux" and not os.environ.get("DISPLAY") and getattr(env, "render_mode", None) == "rgb_array":
        if any("mujoco" in cls.__module__ for cls in bare.__mro__):
            os.environ.setdefault("MUJOCO_GL", "egl")

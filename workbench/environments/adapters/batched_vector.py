"""Vector environments of Gymnasium's own kind (`make_vec`, envpool, a user's own) behind the contract.

Their `metadata["autoreset_mode"]` says how they reset themselves:

SAME_STEP   as the contract; the true final observation is in info["final_obs"].
DISABLED    this adapter resets ended environments at once, by reset(options={"reset_mask": mask}).
NEXT_STEP   the step after the end ignores its action and returns the first observation of the next episode, while the
            others go on. So the row is ABSENT in the step that ends its episode: no policy acts there, and the step
            belongs to no episode. The end's reward, flag (TERMINATED or TRUNCATED) and final observation are held back
            and come with START in the next step. No other row waits for the reset.

Seeds: Gymnasium's reset takes them. envpool's environments take theirs in the constructor, so every `reset` but the
first makes them anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.environments.adapters.action_spaces import actions_of
from workbench.environments.adapters.guarded_calls import LARGEST, abandon_pool, broken, called, frame_of, short
from workbench.environments.adapters.gymnasium_vector import without_display
from workbench.environments.adapters.rendering import frames_per_second, named_actions
from workbench.environments.adapters.spaces import layout_of, spec_of
from workbench.environments.contract import Array, Ending, WithEndings, checked_actions, first_step, seeds_of
from workbench.environments.observations import picture_of
from workbench.errors import EnvironmentFailed, InvalidInput
from workbench.trajectory import Flags, StepBatch


class NativeVector(WithEndings):
    """The vector environment `first`. See `contract.VectorEnvironment`.

    Args:
        first: the result of `build(seed)`.
        build: makes a vector from a seed; called again only for envpool.
        keeps_endings: whether `ending` returns how episodes ended, for people to see.

    Attributes:
        left_out: members of the observation that are words, which networks do not get.

    Raises EnvironmentFailed if it fails or breaks Gymnasium's rules, ShapeMismatch if its spaces are not supported, and
    InvalidInput for an unsupported envpool.
    """

    def __init__(
        self, name: str, first: Any, *, build: Callable[[int], Any], seed: int, keeps_endings: bool
    ) -> None:
        self._name, self._env, self._build, self._seed = name, first, build, seed
        super().__init__(keeps_endings=keeps_endings)
        self._pool = is_pool(first)
        self._pool_seed: int | None = seed if self._pool else None  # of a pool that was not reset yet
        self.num_envs = int(first.num_envs)
        try:
            if self._pool and (first.is_async or first.config.get("max_num_players", 1) > 1):
                raise InvalidInput(f"{name} is an envpool with a batch_size or with several players, which is not "
                                   "supported: leave out batch_size.")
            self._mode = self._autoreset_mode()
            self._layout = layout_of(first.single_observation_space, name)
            actions, self.to_native = actions_of(first.single_action_space, name)
        except BaseException:
            self.close()
            raise
        self.spec = spec_of(name, self._layout, actions)
        self.left_out = self._layout.left_out
        self.fps = frames_per_second(first)
        self.action_names = named_actions(_first_environment(first), self.spec.actions)
        self._observation: Array | None = None  # the last one
        self._is_synchronous = isinstance(first.unwrapped, _own_vectors()[0])  # so hands over environments' own arrays
        without_display(_first_environment(first))
        self._clear_held()

    def _clear_held(self) -> None:
        """Drops the steps that are held back (NEXT_STEP)."""
        self._finals: list[tuple[int, Any, Array]] = []  # of a SyncVectorEnv in SAME_STEP: index, as it is, as it was
        self._awaits_reset: Array = np.zeros(self.num_envs, bool)
        self._held_step = StepBatch(np.zeros(0), np.zeros(0), np.zeros(0))  # the last step, where a row awaits a reset
        self._held_endings: dict[int, Ending] = {}

    def reset(self, *, seed: int | None = None) -> StepBatch:
        """Returns the first step of a new episode everywhere."""
        seed = self._seed if seed is None else seed
        if self._pool:
            if self._pool_seed != seed:
                abandon_pool(self._env)
                self._env = called(self._name, None, "constructor", self._build, seed)
            self._pool_seed = None
            keywords: dict[str, Any] = {}
        else:
            seeds = seeds_of(seed, self.num_envs).tolist()
            # other vectors than Gymnasium's own promise to take one number
            keywords = {"seed": seeds if isinstance(self._env.unwrapped, _own_vectors()) else seeds[0]}
        result = self._called("reset", self._env.reset, **keywords)
        observation = self._placed(self._pair(result)[0], "reset")
        self._observation, self._endings = observation, {}
        self._clear_held()
        return first_step(observation)

    def step(self, actions: Array) -> StepBatch:
        """Returns the step after `actions`; those of rows that were ABSENT are ignored."""
        native_actions = self.to_native(checked_actions(actions, self.spec, self.num_envs))
        result = self._called("step", self._env.step, native_actions)
        try:
            observations, rewards, terminated, truncated, info = result
        except (TypeError, ValueError):
            raise self._broken("step", "it must return (observations, rewards, terminations, truncations, infos), not "
                                       f"{short(result)}") from None
        self._check_kept_finals()
        observation = self._placed(observations, "step")
        reward = self._numbers(rewards)
        terminated, truncated = self._flags(terminated, "terminations"), self._flags(truncated, "truncations")
        flags = np.where(terminated, np.uint8(Flags.TERMINATED), truncated * np.uint8(Flags.TRUNCATED))
        if self._mode == "NextStep":
            return self._hold_back(observation, reward, flags)
        ended = flags > 0
        flags |= ended * np.uint8(Flags.START)
        batch = StepBatch(observation, reward, flags)
        self._endings = {}
        if ended.any():
            final = self._before_reset(batch, ended, info)
            batch.final_index = np.flatnonzero(flags & Flags.TRUNCATED).astype(np.int32)
            if len(batch.final_index):
                batch.final_observation = final[batch.final_index]
        self._observation = batch.observation
        return batch

    def _before_reset(self, batch: StepBatch, ended: Array, info: Any) -> Array:
        """Returns [N, *frame] with the true final observations where `ended`; `batch` gets the first ones there."""
        if self._mode == "Disabled":
            final = batch.observation
            if self.keeps_endings:
                self._endings = self._endings_of(final, ended, draws=True)
            batch.observation = self._reset_masked(final, ended)
            return final
        final = batch.observation.copy()
        final_obs = info.get("final_obs") if isinstance(info, dict) else None
        if final_obs is None:
            raise self._broken("step", 'in SAME_STEP mode info["final_obs"] must hold the last observations of the '
                                       "episodes that ended")
        for index in np.flatnonzero(ended).tolist():
            try:
                own = final_obs[index]
            except (LookupError, TypeError):
                raise self._broken("step", f'info["final_obs"] must have an observation for each environment that '
                                           f"ended, and has none at {index}: {short(final_obs)}") from None
            self._place(own, final[index], "step")
            if self._is_synchronous and np.array_equal(final[index], batch.observation[index]):  # to be looked at again
                self._finals.append((index, own, final[index]))
        self._check_finite(final, "step")
        if self.keeps_endings:
            self._endings = self._endings_of(final, ended, draws=False)  # it already draws the next episode
        return final

    def _check_kept_finals(self) -> None:
        """Raises EnvironmentFailed if an environment has written into its last final observation since."""
        for index, final, copied in self._finals:
            now = self._empty(1)[0]
            self._place(final, now, "step")
            if not np.array_equal(now, copied):
                raise broken(self._name, index, "step", "it writes into the array that it has returned, and in "
                             'SAME_STEP mode info["final_obs"] then holds the first observation of the next episode. '
                             "Return a copy, or make the vector with autoreset_mode=AutoresetMode.DISABLED")
        self._finals = []

    def _reset_masked(self, before: Array, ended: Array) -> Array:
        """Observations [N, *frame] after a reset where `ended`."""
        result = self._called("reset", self._env.reset, options={"reset_mask": ended.copy()})
        observation = self._placed(self._pair(result)[0], "reset")
        if not np.array_equal(observation[~ended], before[~ended]):
            raise self._broken("reset", 'options={"reset_mask": mask} must reset those in the mask and leave the '
                                        "others as they are, since its autoreset mode is DISABLED")
        return observation

    def _hold_back(self, observation: Array, reward: Array, flags: Array) -> StepBatch:
        """NEXT_STEP: rows that end now are ABSENT; rows that ended in the last step get its end and START."""
        starts, ends = self._awaits_reset, flags > 0
        if (starts & ends).any():
            raise self._broken("step", "an episode ended in the step that begins it: its autoreset mode is NEXT_STEP")
        batch = StepBatch(observation, np.where(ends, np.float32(0), reward), ends * np.uint8(Flags.ABSENT))
        self._endings = self._held_endings
        if starts.any():
            held = self._held_step
            batch.reward[starts] = held.reward[starts]
            batch.flags[starts] = held.flags[starts] | Flags.START
            batch.final_index = np.flatnonzero(starts & (held.flags == Flags.TRUNCATED)).astype(np.int32)
            if len(batch.final_index):
                batch.final_observation = held.observation[batch.final_index]
        self._awaits_reset, self._observation, self._held_endings = ends, observation, {}
        if ends.any():
            self._held_step = StepBatch(observation.copy(), reward, flags)
            if self.keeps_endings:
                self._held_endings = self._endings_of(observation, ends, draws=True)
        return batch

    def render(self, index: int) -> Array | None:
        """The frame of environment `index` if its render_mode is "rgb_array"; otherwise its image observation."""
        return None if self._observation is None else self._frame(index, self._observation[index], draws=True)

    def close(self) -> None:
        """Closes the vector environment."""
        env, self._env = self._env, None
        if env is not None and self._pool:
            abandon_pool(env)
        elif env is not None:
            with contextlib.suppress(Exception):
                env.close()

    def _endings_of(self, final: Array, ended: Array, *, draws: bool) -> dict[int, Ending]:
        return {index: Ending(final[index].copy(), self._frame(index, final[index], draws=draws))
                for index in np.flatnonzero(ended).tolist()}

    def _frame(self, index: int, observation: Array, *, draws: bool) -> Array | None:
        frame = None
        if draws and getattr(self._env, "render_mode", None) == "rgb_array":
            if self._pool:
                frame = called(self._name, index, "render", self._env.render, env_ids=index)[0]
            else:
                frames = called(self._name, index, "render", self._env.render)
                frame = None if frames is None else frames[index]
        return picture_of(observation, self.spec) if frame is None else frame_of(self._name, index, frame)

    def _autoreset_mode(self) -> str:
        """"SameStep", "NextStep" or "Disabled"."""
        declared = (getattr(self._env, "metadata", None) or {}).get("autoreset_mode")
        mode = getattr(declared, "value", declared)
        if mode not in ("SameStep", "NextStep", "Disabled"):
            raise self._broken("constructor", f"metadata['autoreset_mode'] must be a gymnasium.vector.AutoresetMode, "
                                              f"not {short(declared)}")
        return str(mode)

    def _pair(self, result: Any) -> Any:
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._broken("reset", f"it must return (observations, infos), not {short(result)}")
        return result

    def _empty(self, rows: int) -> Array:
        return np.empty((rows, *self._layout.shape), self._layout.dtype)

    def _placed(self, observations: Any, where: str) -> Array:
        rows = self._empty(self.num_envs)
        self._place(observations, rows, where, (self.num_envs,))
        self._check_finite(rows, where)
        return rows

    def _place(self, observations: Any, rows: Array, where: str, lead: tuple[int, ...] = ()) -> None:
        try:
            self._layout.place(observations, rows, lead)
        except (TypeError, ValueError) as error:
            raise self._broken(where, str(error)) from None

    def _check_finite(self, rows: Array, where: str) -> None:
        if (wrong := self._layout.not_finite(rows)) is not None:
            row, sentence = wrong
            raise broken(self._name, row, where, sentence)

    def _numbers(self, rewards: Any) -> Array:
        values = np.asarray(rewards)
        if values.shape != (self.num_envs,) or values.dtype.kind not in "fiub":
            raise self._broken("step", f"rewards must be numbers of shape [{self.num_envs}], not {values.dtype} "
                                       f"{list(values.shape)}")
        out_of_range = ~(np.abs(values.astype(np.float64)) < LARGEST)  # also NaN
        if out_of_range.any():
            index = int(np.flatnonzero(out_of_range)[0])
            raise broken(self._name, index, "step", f"reward {values[index]} is not a finite float32")
        return values.astype(np.float32)

    def _flags(self, values: Any, what: str) -> Array:
        flags = np.asarray(values)
        if flags.shape != (self.num_envs,) or flags.dtype != np.bool_:
            raise self._broken("step", f"{what} must be bool of shape [{self.num_envs}], not {flags.dtype} "
                                       f"{list(flags.shape)}")
        return flags

    def _called(self, where: str, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """As `called`; an error from Gymnasium's processes, which has no traceback, says where to find it."""
        try:
            return called(self._name, None, where, function, *arguments, **keywords)
        except EnvironmentFailed as error:
            if not isinstance(getattr(self._env, "unwrapped", None), _own_vectors()[1]):
                raise
            raise EnvironmentFailed(
                f"{error}\n\nIt arose in another process, which prints the line on standard error (an actor's log). "
                "vectorization_mode=\"sync\", or a SyncVectorEnv, shows it here."
            ) from error

    def _broken(self, where: str, rule: str) -> EnvironmentFailed:
        return broken(self._name, None, where, rule)


def is_pool(env: Any) -> bool:
    """Whether `env` is envpool's."""
    return any(cls.__module__.startswith("envpool.") for cls in type(env).__mro__)


def _own_vectors() -> tuple[type, type]:
    """Gymnasium's own: in this process, and in processes."""
    from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

    return SyncVectorEnv, AsyncVectorEnv


def _first_environment(env: Any) -> Any:
    """The vector's first environment; the vector itself if that is out of reach (other processes, native code)."""
    environments = getattr(getattr(env, "unwrapped", env), "envs", None)
    return environments[0] if environments else env

"""Vector environments of Gymnasium's own kind (`make_vec`, envpool, a user's own) behind the contract.

How they reset themselves is their `metadata["autoreset_mode"]`:

SAME_STEP   as here; the true final observation is in info["final_obs"].
DISABLED    those that ended are reset at once, by reset(options={"reset_mask": mask}).
NEXT_STEP   the step after the end ignores its action and returns the first observation of the next episode, while the
            others go on. So the row is ABSENT in the step that ends its episode: no policy acts there, and no life has
            that step. What the end had (reward, TERMINATED or TRUNCATED, final observation) is held back and comes with
            START in the next step. The step that only resets is never seen, and no other row waits for it.

Seeds: Gymnasium's reset takes them. envpool's environments get theirs when they are made, so they are made anew for
every `reset` but the first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.environments.adapters import envpools
from workbench.environments.adapters.guarded_calls import LARGEST, broken, called, frame_of, short
from workbench.environments.adapters.gymnasium_vector import without_display
from workbench.environments.adapters.rendering import frames_per_second, named_actions
from workbench.environments.adapters.spaces import actions_of, layout_of, spec_of
from workbench.environments.contract import Array, Ending, checked_actions, seeds_of
from workbench.environments.observations import picture_of
from workbench.errors import EnvironmentFailed, InvalidInput
from workbench.trajectory import Flags, StepBatch


class NativeVector:
    """The vector environment `first`. See `contract.VectorEnvironment`.

    Args:
        first: what `build(seed)` made.
        build: makes one from a seed; called again for envpool alone.
        keeps_endings: for somebody to look at: how episodes end is kept for `ending`.

    Attributes:
        left_out: members of the observation that are words, which no network gets to see.

    Raises EnvironmentFailed if it fails or breaks Gymnasium's rules, ShapeMismatch if its spaces are not supported, and
    InvalidInput for an envpool that cannot be used.
    """

    def __init__(
        self, name: str, first: Any, *, build: Callable[[int], Any], seed: int, keeps_endings: bool = False
    ) -> None:
        self._name, self._env, self._build, self._seed = name, first, build, seed
        self.keeps_endings = keeps_endings
        self._pool = is_pool(first)
        self._made_by: int | None = seed if self._pool else None  # the seed of a pool that was not reset yet
        self.num_envs = int(first.num_envs)
        try:
            if self._pool and (first.is_async or first.config.get("max_num_players", 1) > 1):
                raise InvalidInput(f"{name} is an envpool with a batch_size or with several players, which is not "
                                   "supported: leave out batch_size.")
            self._mode = self._autoreset_mode()
            self._layout = layout_of(first.single_observation_space, name)
            actions, self._given = actions_of(first.single_action_space, name)
        except BaseException:
            self.close()
            raise
        self.spec = spec_of(name, self._layout, actions)
        self.left_out = self._layout.left_out
        self.fps = frames_per_second(first)
        self._named = named_actions(_one_of(first), self.spec.num_actions)
        self._shown: Array | None = None  # the last observations
        self._endings: dict[int, Ending] = {}  # of the last step, by index
        without_display(_one_of(first))
        self._forget()  # what waits for its reset

    def _forget(self) -> None:
        """Makes no row wait for its reset; of those that do, what is held back."""
        self._waiting: Array = np.zeros(self.num_envs, bool)
        self._held = StepBatch(np.zeros(0), np.zeros(0), np.zeros(0))  # of the last step, where a row waits
        self._held_endings: dict[int, Ending] = {}

    @property
    def action_names(self) -> tuple[str, ...]:
        """From the first environment, where it can be reached; else the numbers."""
        return self._named

    def reset(self, *, seed: int | None = None) -> StepBatch:
        """The first step of a new episode everywhere."""
        seed = self._seed if seed is None else seed
        if self._pool:
            if self._made_by != seed:
                envpools.leave(self._env)
                self._env = called(self._name, None, "constructor", self._build, seed)
            self._made_by = None
            given: Any = None
        else:
            seeds = seeds_of(seed, self.num_envs).tolist()
            given = seeds if _takes_many_seeds(self._env) else seeds[0]
        keywords = {} if given is None else {"seed": given}
        result = self._called("reset", self._env.reset, **keywords)
        observation = self._placed(self._pair(result)[0], "reset")
        self._shown, self._endings = observation, {}
        self._forget()
        return StepBatch(
            observation, np.zeros(self.num_envs, np.float32), np.full(self.num_envs, Flags.START, np.uint8))

    def step(self, actions: Array) -> StepBatch:
        """The step that follows `actions`; those of rows that were ABSENT are ignored."""
        given = self._given(checked_actions(actions, self.spec, self.num_envs))
        result = self._called("step", self._env.step, given)
        try:
            observations, rewards, terminated, truncated, info = result
        except (TypeError, ValueError):
            raise self._broken("step", "it must return (observations, rewards, terminations, truncations, infos), not "
                                       f"{short(result)}") from None
        observation = self._placed(observations, "step")
        reward = self._numbers(rewards)
        terminated, truncated = self._flags(terminated, "terminations"), self._flags(truncated, "truncations")
        flags = np.where(terminated, np.uint8(Flags.TERMINATED), truncated * np.uint8(Flags.TRUNCATED))
        if self._mode == "NextStep":
            return self._held_back(observation, reward, flags)
        ended = flags > 0
        flags |= ended * np.uint8(Flags.START)
        batch = StepBatch(observation, reward, flags)
        self._endings = {}
        if ended.any():
            final = self._before_reset(batch, ended, info)
            batch.final_index = np.flatnonzero(flags & Flags.TRUNCATED).astype(np.int32)
            if len(batch.final_index):
                batch.final_observation = final[batch.final_index]
        self._shown = batch.observation
        return batch

    def _before_reset(self, batch: StepBatch, ended: Array, info: Any) -> Array:
        """The observations [N, *frame] with the true final ones where `ended`; `batch` gets the first ones there."""
        if self._mode == "Disabled":
            final = batch.observation
            if self.keeps_endings:
                self._endings = self._endings_of(final, ended, draws=True)
            batch.observation = self._reset_masked(final, ended)
            return final
        final = batch.observation.copy()
        told = info.get("final_obs") if isinstance(info, dict) else None
        if told is None:
            raise self._broken("step", 'in SAME_STEP mode info["final_obs"] must hold the last observations of the '
                                       "episodes that ended")
        for index in np.flatnonzero(ended).tolist():
            self._place(told[index], final[index], "step")
        self._check_finite(final, "step")
        if self.keeps_endings:
            self._endings = self._endings_of(final, ended, draws=False)  # it shows the next episode already
        return final

    def _reset_masked(self, before: Array, ended: Array) -> Array:
        """Observations [N, *frame] after a reset of those that `ended`."""
        result = self._called("reset", self._env.reset, options={"reset_mask": ended.copy()})
        observation = self._placed(self._pair(result)[0], "reset")
        if not np.array_equal(observation[~ended], before[~ended]):
            raise self._broken("reset", 'options={"reset_mask": mask} must reset those in the mask and leave the '
                                        "others as they are, since its autoreset mode is DISABLED")
        return observation

    def _held_back(self, observation: Array, reward: Array, flags: Array) -> StepBatch:
        """NEXT_STEP: what ended now is ABSENT until the next step, which brings what was held back."""
        comes, waits = self._waiting, flags > 0
        if (comes & waits).any():
            raise self._broken("step", "an episode ended in the step that begins it: its autoreset mode is NEXT_STEP")
        batch = StepBatch(observation, np.where(waits, np.float32(0), reward), waits * np.uint8(Flags.ABSENT))
        self._endings = self._held_endings
        if comes.any():
            batch.reward[comes] = self._held.reward[comes]
            batch.flags[comes] = self._held.flags[comes] | Flags.START
            batch.final_index = np.flatnonzero(comes & (self._held.flags == Flags.TRUNCATED)).astype(np.int32)
            if len(batch.final_index):
                batch.final_observation = self._held.observation[batch.final_index]
        self._waiting, self._shown, self._held_endings = waits, observation, {}
        if waits.any():
            self._held = StepBatch(observation.copy(), reward, flags)
            if self.keeps_endings:
                self._held_endings = self._endings_of(observation, waits, draws=True)
        return batch

    def render(self, index: int) -> Array | None:
        """The frame that environment `index` draws, made with render_mode="rgb_array"; else its image observation."""
        return None if self._shown is None else self._frame(index, self._shown[index], draws=True)

    def ending(self, index: int) -> Ending | None:
        """Where endings are kept: how the episode of environment `index` ended that the last step ended, else None.

        In SAME_STEP mode its frame is the observation, if that is an image: what is drawn is of the next episode.
        """
        return self._endings.get(index)

    def close(self) -> None:
        """Closes the vector environment."""
        env, self._env = self._env, None
        if env is not None and self._pool:
            envpools.leave(env)
        elif env is not None:
            with contextlib.suppress(Exception):
                env.close()

    def _endings_of(self, final: Array, ended: Array, *, draws: bool) -> dict[int, Ending]:
        return {index: Ending(final[index].copy(), self._frame(index, final[index], draws=draws))
                for index in np.flatnonzero(ended).tolist()}

    def _frame(self, index: int, observation: Array, *, draws: bool) -> Array | None:
        drawn = None
        if draws and getattr(self._env, "render_mode", None) == "rgb_array":
            if self._pool:
                drawn = called(self._name, index, "render", self._env.render, env_ids=index)[0]
            else:
                frames = called(self._name, index, "render", self._env.render)
                drawn = None if frames is None else frames[index]
        return picture_of(observation, self.spec) if drawn is None else frame_of(self._name, index, drawn)

    def _autoreset_mode(self) -> str:
        """"SameStep", "NextStep" or "Disabled"."""
        told = (getattr(self._env, "metadata", None) or {}).get("autoreset_mode")
        mode = getattr(told, "value", told)
        if mode not in ("SameStep", "NextStep", "Disabled"):
            raise self._broken("constructor", f"metadata['autoreset_mode'] must be a gymnasium.vector.AutoresetMode, "
                                              f"not {short(told)}")
        return str(mode)

    def _pair(self, result: Any) -> Any:
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._broken("reset", f"it must return (observations, infos), not {short(result)}")
        return result

    def _placed(self, observations: Any, where: str) -> Array:
        rows = np.empty((self.num_envs, *self._layout.shape), self._layout.dtype)
        self._place(observations, rows, where, (self.num_envs,))
        self._check_finite(rows, where)
        return rows

    def _place(self, observations: Any, rows: Array, where: str, lead: tuple[int, ...] = ()) -> None:
        try:
            self._layout.place(observations, rows, lead)
        except (TypeError, ValueError) as error:
            raise self._broken(where, str(error)) from None

    def _check_finite(self, rows: Array, where: str) -> None:
        wrong = self._layout.not_finite(rows)
        if wrong is not None:
            raise broken(self._name, wrong[0], where, f"observation has the value {wrong[1]}, which is not finite")

    def _numbers(self, rewards: Any) -> Array:
        values = np.asarray(rewards)
        if values.shape != (self.num_envs,) or values.dtype.kind not in "fiub":
            raise self._broken("step", f"rewards must be numbers of shape [{self.num_envs}], not {values.dtype} "
                                       f"{list(values.shape)}")
        wrong = ~(np.abs(values.astype(np.float64)) < LARGEST)
        if wrong.any():
            index = int(np.flatnonzero(wrong)[0])
            raise broken(self._name, index, "step", f"reward {values[index]} is not a finite float32")
        return values.astype(np.float32)

    def _flags(self, values: Any, what: str) -> Array:
        flags = np.asarray(values)
        if flags.shape != (self.num_envs,) or flags.dtype != np.bool_:
            raise self._broken("step", f"{what} must be bool of shape [{self.num_envs}], not {flags.dtype} "
                                       f"{list(flags.shape)}")
        return flags

    def _called(self, where: str, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """As `called`; of Gymnasium's processes the error is told where its line is, which they keep to themselves."""
        try:
            return called(self._name, None, where, function, *arguments, **keywords)
        except EnvironmentFailed as error:
            from gymnasium.vector import AsyncVectorEnv

            if not isinstance(getattr(self._env, "unwrapped", None), AsyncVectorEnv):
                raise
            raise EnvironmentFailed(
                f"{error}\n\nIt arose in another process, which tells the line on standard error (an actor's log). "
                "vectorization_mode=\"sync\", or a SyncVectorEnv, shows it here."
            ) from error

    def _broken(self, where: str, rule: str) -> EnvironmentFailed:
        return broken(self._name, None, where, rule)


def is_pool(made: Any) -> bool:
    """Whether it is envpool's."""
    return any(cls.__module__.startswith("envpool.") for cls in type(made).__mro__)


def _takes_many_seeds(env: Any) -> bool:
    """Whether its `reset` takes a seed for each: Gymnasium's own do; what others promise is one number."""
    from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

    return isinstance(env.unwrapped, (AsyncVectorEnv, SyncVectorEnv))


def _one_of(env: Any) -> Any:
    """One of its environments, to ask for its names; the vector itself where they cannot be reached."""
    environments = getattr(getattr(env, "unwrapped", env), "envs", None)
    return environments[0] if environments else env

"""The contract's test, for any environment: says in words which rule of `contract` is broken.

    check_environment("CartPole-v1")
    check_environment(MyEnv)                                              # a gymnasium.Env class or a factory
    check_environment(lambda num_envs, seed: MyVector(num_envs, seed))    # a vector environment of one's own
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.environments.contract import VectorEnvironment
from workbench.environments.registry import make
from workbench.errors import EnvironmentFailed, ShapeMismatch
from workbench.trajectory import ENDS, Flags, StepBatch

_NUM_ENVS = 3


@dataclass
class Checked:
    """What the check saw happen; a rule about something that did not happen is not tested.

    Attributes:
        steps: of all environments together.
        episodes: that ended.
        truncated: episodes that were cut off.
        lives_lost: without an end.
    """

    steps: int = 0
    episodes: int = 0
    truncated: int = 0
    lives_lost: int = 0


@dataclass
class _Watch:
    """The rules about single batches, and what has to be remembered between them."""

    env: VectorEnvironment
    seen: Checked = field(default_factory=Checked)
    stale_finals: int = 0  # final observations equal to the reset observation beside them
    varied: bool = False

    def first(self, batch: StepBatch) -> None:
        """Rules about what `reset` returns."""
        self.shapes(batch, "reset")
        _rule(not batch.reward.any(), "reward after reset", f"must be 0 everywhere, is {batch.reward.tolist()}")
        _rule((batch.flags == Flags.START).all(), "START after reset",
              f"flags must be START ({int(Flags.START)}) everywhere, are {batch.flags.tolist()}")
        _rule(len(batch.final_index) == 0, "final observation", "reset must return none")

    def next(self, batch: StepBatch, before: StepBatch) -> None:
        """Rules about what `step` returns."""
        self.shapes(batch, "step")
        flags = batch.flags
        ended, start, lost = (flags & ENDS) > 0, (flags & Flags.START) > 0, (flags & Flags.LIFE_LOST) > 0
        _rule((flags < 16).all(), "flags", f"must be a combination of {[flag.name for flag in Flags]}")
        _rule((ended <= start).all(), "reset after the end",
              "TERMINATED or TRUNCATED without START: the observation beside the end of an episode must be the first "
              "of the next episode, and be flagged START")
        _rule((start <= ended).all(), "START", "START without TERMINATED or TRUNCATED in a step")
        _rule(not (lost & start).any(), "LIFE_LOST", "a lost life must not be flagged START: the game goes on")
        self._finals(batch)
        self.varied |= not np.array_equal(batch.observation, before.observation)
        self.seen.steps += len(flags)
        self.seen.episodes += int(ended.sum())
        self.seen.lives_lost += int(lost.sum())

    def shapes(self, batch: StepBatch, where: str) -> None:
        """Rules about shapes, dtypes and numbers."""
        spec, n = self.env.spec, self.env.num_envs
        self._array(batch.observation, (n, *spec.observation_shape), spec.observation_dtype, f"observation of {where}")
        self._array(batch.reward, (n,), "float32", f"reward of {where}")
        self._array(batch.flags, (n,), "uint8", f"flags of {where}")

    def _array(self, array: Any, shape: tuple[int, ...], dtype: str, what: str) -> None:
        _rule(isinstance(array, np.ndarray), what, f"must be an array, is {type(array).__name__}")
        _rule(array.shape == shape, what, f"must have shape {shape}, has {array.shape}")
        _rule(array.dtype == dtype, what, f"must have dtype {dtype}, has {array.dtype}")
        _rule(dtype == "uint8" or np.isfinite(array).all(), what, "must be finite, has NaN or infinite values")

    def _finals(self, batch: StepBatch) -> None:
        cut_off = (batch.flags & ENDS) == Flags.TRUNCATED
        expected = np.flatnonzero(cut_off).tolist()
        _rule(list(batch.final_index) == expected, "final observation",
              f"final_index must hold the truncated environments {expected}, is {list(batch.final_index)}")
        if not expected:
            return
        final, spec = batch.final_observation, self.env.spec
        self._array(final, (len(expected), *spec.observation_shape), spec.observation_dtype, "final observation")
        assert final is not None
        self.seen.truncated += len(expected)
        self.stale_finals += sum(np.array_equal(final[k], batch.observation[i]) for k, i in enumerate(expected))
        _rule(self.stale_finals < max(2, self.seen.truncated) or not self.varied, "final observation",
              "it must be the last observation of the episode that was cut off; it always equals the first of the next")


def check_environment(
    make_env: str | Callable[..., Any], *, steps: int = 300, options: Mapping[str, Any] | None = None, seed: int = 0
) -> Checked:
    """What happened in `steps` steps of random actions of 3 environments, if no rule was broken.

    Args:
        make_env: a name, a gymnasium.Env class or a zero-argument factory of one, or a callable with the arguments
            `num_envs` and `seed` that returns a vector environment.
        options: as in `make`; not for a vector environment of one's own.

    Raises:
        EnvironmentFailed: a rule is broken, or the environment raised; the message says which rule.
        What `make` raises.
    """
    build = _vector_maker(make_env, dict(options or {}))
    with contextlib.closing(build(seed)) as env:
        seen, trajectory = _rollout(env, steps, seed)
        _check_same(trajectory, _rollout(env, steps, seed)[1], "same seed, same trajectory",
                    "reset(seed=...) with the same seed must repeat the trajectory")
        _check_refusals(env)
    with contextlib.closing(build(seed)) as env:
        _check_same(trajectory, _rollout(env, steps, seed)[1], "same seed, same trajectory",
                    "a second instance with the same seed and actions must repeat the trajectory")
        _check_same(trajectory, _rollout(env, steps, seed, others=1)[1], "independence",
                    "what environment 0 does must not depend on the actions of the others", only=0)
        env.close()  # closing twice is allowed: `closing` does it again
    if _is_single(make_env):
        _check_spaces(make_env, dict(options or {}), steps, seed)
    return seen


def _vector_maker(make_env: str | Callable[..., Any], options: dict[str, Any]) -> Callable[[int], VectorEnvironment]:
    if isinstance(make_env, str):
        return lambda seed: make(make_env, num_envs=_NUM_ENVS, seed=seed, options=options)
    if _is_single(make_env):
        label = getattr(make_env, "__name__", "environment")
        return lambda seed: make(label, num_envs=_NUM_ENVS, seed=seed, options=options, factory=make_env)
    return lambda seed: make_env(num_envs=_NUM_ENVS, seed=seed)


def _is_single(make_env: str | Callable[..., Any]) -> bool:
    """Whether `make_env` makes one Gymnasium environment."""
    return not isinstance(make_env, str) and "num_envs" not in inspect.signature(make_env).parameters


def _check_spaces(factory: Any, options: dict[str, Any], steps: int, seed: int) -> None:
    """Observations must lie in the declared space, which the vector adapter does not check in full at every step."""
    env = factory(**options)
    with contextlib.closing(env):
        rng = np.random.default_rng(seed)
        observation, _ = env.reset(seed=seed)
        for _ in range(steps):
            space = env.observation_space
            _rule(space.contains(observation), "observation space",
                  f"an observation ({_described(observation)}) is not in {space}")
            action = env.action_space.start + rng.integers(env.action_space.n)
            observation, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                observation, _ = env.reset()


def _described(observation: Any) -> str:
    if not isinstance(observation, np.ndarray) or observation.size == 0:
        return f"a {type(observation).__name__}"
    return f"{observation.dtype} {observation.shape}, values in [{observation.min()}, {observation.max()}]"


def _rollout(
    env: VectorEnvironment, steps: int, seed: int, *, others: int = 0
) -> tuple[Checked, list[StepBatch]]:
    """Random actions, checked batch by batch. `others` != 0: all but environment 0 act differently."""
    watch = _Watch(env)
    rng = np.random.default_rng(seed)
    batch = env.reset(seed=seed)
    watch.first(batch)
    trajectory = [_copied(batch)]
    for _ in range(steps):
        actions = rng.integers(env.spec.num_actions, size=env.num_envs)
        actions[1:] = (actions[1:] + others) % env.spec.num_actions
        before, batch = batch, env.step(actions)
        _rule(_same(before, trajectory[-1]), "arrays belong to the caller", "a later step changed what an earlier one "
              "had returned")
        watch.next(batch, before)
        trajectory.append(_copied(batch))
    return watch.seen, trajectory


def _check_refusals(env: VectorEnvironment) -> None:
    """Actions of a wrong range or shape must be refused."""
    for wrong in (np.full(env.num_envs, env.spec.num_actions), np.zeros(env.num_envs + 1, np.int64)):
        try:
            env.step(wrong)
        except ShapeMismatch:
            continue
        _rule(False, "wrong actions", f"step({wrong.tolist()}) must raise ShapeMismatch: there are "
                                      f"{env.num_envs} environments with {env.spec.num_actions} actions")


def _check_same(one: list[StepBatch], two: list[StepBatch], rule: str, text: str, *, only: int | None = None) -> None:
    rows: Any = slice(None) if only is None else slice(only, only + 1)
    for number, (a, b) in enumerate(zip(one, two, strict=True)):
        for name in ("observation", "reward", "flags"):
            same = np.array_equal(getattr(a, name)[rows], getattr(b, name)[rows])
            _rule(same, rule, f"{text}; the {name} differs at step {number}")


def _same(one: StepBatch, two: StepBatch) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in ("observation", "reward", "flags"))


def _copied(batch: StepBatch) -> StepBatch:
    return StepBatch(batch.observation.copy(), batch.reward.copy(), batch.flags.copy())


def _rule(kept: Any, rule: str, text: str) -> None:
    if not kept:
        raise EnvironmentFailed(f"the environment breaks the rule {rule!r}: {text}.")

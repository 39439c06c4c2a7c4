"""The contract as a test for any environment: its errors name the rule of `contract` that is broken.

    check_environment("CartPole-v1")
    check_environment(MyEnv)                                              # a gymnasium.Env class or a factory
    check_environment(lambda num_envs, seed: MyVector(num_envs, seed))    # your own vector environment

`ending` of your own vector environment is tested if its factory takes `show`, which says when to keep endings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.config.settings import takes
from workbench.environment_spec import EnvironmentSpec
from workbench.environments.adapters.action_spaces import actions_of, each_of
from workbench.environments.adapters.guarded_calls import called
from workbench.environments.adapters.gymnasium_vector import without_display
from workbench.environments.adapters.spaces import layout_of, spec_of
from workbench.environments.adapters.wrapping import Wrapped, Wrapper, checked_wrappers
from workbench.environments.batch_rules import (
    BatchRules,
    Checked,
    check,
    check_frame,
    check_same,
    copied,
    described,
    same,
)
from workbench.environments.contract import Array, Show, VectorEnvironment, random_actions
from workbench.environments.registration import factory_call, make
from workbench.errors import InvalidInput, MissingPackage, ShapeMismatch, checked_arguments
from workbench.trajectory import StepBatch

_FRAMES = 5  # drawn in a rollout


@checked_arguments(make_env="Give a name, a class or a function that makes an environment.")
def check_environment(
    make_env: str | Callable[..., Any], *, steps: int = 300, options: Mapping[str, Any] | None = None, seed: int = 0,
    num_envs: int = 3, wrappers: Sequence[Wrapper] = (),
) -> Checked:
    """Takes `steps` random steps in `num_envs` environments. Returns counts of the events if no rule is broken.

    Args:
        make_env: a name, a gymnasium.Env class or a zero-argument factory of one, or a callable with the arguments
            `num_envs` and `seed` (and `show`) that returns a vector environment: see `adapters.adapt.vector_of`.
        options: as in `make`.
        num_envs: at least 2, and a multiple of the agents of a game.
        wrappers: as in `wb.launch`.

    Raises:
        EnvironmentFailed: a rule is broken, or the environment raised; the message says which rule.
        What `make` raises.
    """
    if not callable(make_env) and not isinstance(make_env, str):
        raise InvalidInput(f"make_env={make_env!r:.100} must be a name, a class or a function that makes an "
                           "environment, not one that exists already.")
    label = make_env if isinstance(make_env, str) else getattr(make_env, "__name__", "environment")
    factory = Wrapped(None if isinstance(make_env, str) else make_env, checked_wrappers(wrappers))

    def build(threads: int = 1, show: Show = None) -> VectorEnvironment:
        return make(label, num_envs=num_envs, seed=seed, threads=threads, options=options, factory=factory, show=show)

    with contextlib.closing(build()) as env:
        _check_spec(env, num_envs)
        counts, trajectory = _rollout(env, steps, seed)
        check_same(trajectory, _rollout(env, steps, seed)[1], "same seed, same trajectory",
                    f"reset(seed=...) with the same seed must repeat the trajectory ({_seeding(factory)})")
        _check_refusals(env)
    with contextlib.closing(build()) as env:
        check_same(trajectory, _rollout(env, steps, seed)[1], "same seed, same trajectory",
                    "a second instance with the same seed and actions must repeat the trajectory")
        check_same(trajectory, _rollout(env, steps, seed, others=True)[1], "independence",
                    "what environment 0 does must not depend on the actions of the others", rows=env.spec.agents)
        env.close()  # closing twice is allowed: `closing` does it again
    with contextlib.closing(build(threads=2)) as env:
        check_same(trajectory, _rollout(env, steps, seed)[1], "threads",
                    "with 2 threads the trajectory must be the same as with 1")
    takes_show = callable(make_env) and takes(make_env, "show")
    counts.frames = _check_rendering(build, trajectory, seed, keeps_endings=takes_show)
    _check_single(label, factory, dict(options or {}), steps, seed)
    counts.left_out = getattr(env, "left_out", ())
    return counts


def _check_rendering(
    build: Callable[..., VectorEnvironment], trajectory: list[StepBatch], seed: int, *, keeps_endings: bool
) -> int:
    """Rendering must return frames and must not change the trajectory. Returns the number of frames.

    If the package that draws is missing, only endings are tested. `keeps_endings`: whether an environment without an
    attribute of that name must keep endings.
    """
    def rollout(show: Show) -> tuple[Checked, list[StepBatch]]:
        with contextlib.closing(build(show=show)) as env:
            return _rollout(env, len(trajectory) - 1, seed, drawing=True,
                            keeps_endings=getattr(env, "keeps_endings", keeps_endings))

    try:
        counts, rendered = rollout("frames")
    except MissingPackage:
        counts, rendered = rollout("endings")
    check_same(trajectory, rendered, "render", "render, and the option `show`, must not change the trajectory")
    return counts.frames


def _check_spec(env: VectorEnvironment, num_envs: int) -> None:
    """The environment's description of itself must be consistent."""
    spec = env.spec
    check(env.num_envs == num_envs, "num_envs", f"must be {num_envs}, as requested, and is {env.num_envs}")
    check(env.num_envs % spec.agents == 0, "agents", f"{env.num_envs} rows are no whole games of {spec.agents} agents")
    if spec.parts:
        size = sum(part.wire_bytes for part in spec.parts)
        check((spec.observation_shape, spec.observation_dtype) == ((size,), "uint8"), "parts",
              f"the parts take {size} bytes: observations must be uint8 ({size},), and are {spec.observation_dtype} "
              f"{spec.observation_shape}")
        names = [part.name for part in spec.parts]
        check(len(set(names)) == len(names), "parts", f"two of them have the same name: {names}")
    check(spec.num_actions == spec.actions.encoded_size, "actions",
          f"num_actions must be {spec.actions.encoded_size}, the encoded size of {spec.actions}, and is "
          f"{spec.num_actions}")
    check(len(env.action_names) == spec.num_actions, "action names",
          f"there must be {spec.num_actions}, there are {len(env.action_names)}")
    check(env.fps > 0, "fps", f"must be above 0, is {env.fps}")


def _check_single(label: str, factory: Wrapped, options: dict[str, Any], steps: int, seed: int) -> None:
    """Checks that the vector adapter does not make, on a single Gymnasium environment.

    Observations must lie in the declared space, and an environment that can draw must draw.
    """
    import gymnasium

    for draws in (False, True):
        call = factory_call(label, options, factory=factory, draws=draws)
        if call is None or takes(call, "num_envs"):
            return
        with contextlib.suppress(MissingPackage) if draws else contextlib.nullcontext():
            env = called(label, 0, "constructor", call)
            if not isinstance(env, gymnasium.Env):
                return
            with contextlib.closing(env):
                if draws:
                    _check_draws(env, label)
                else:
                    _check_spaces(env, label, steps, seed)


def _check_draws(env: Any, label: str) -> None:
    """`render` must return a frame if the environment was made with a render mode that it declares."""
    if env.render_mode != "rgb_array" or "rgb_array" not in (env.metadata or {}).get("render_modes", ()):
        return
    without_display(env)
    env.reset(seed=0)
    check(called(label, 0, "render", env.render) is not None, "render",
          "render() gave None, though metadata['render_modes'] has 'rgb_array' and the environment was made with it")


def _check_spaces(env: Any, label: str, steps: int, seed: int) -> None:
    """Observations must lie in the declared space."""
    layout, (actions, to_native) = layout_of(env.observation_space, label), actions_of(env.action_space, label)
    spec, random = spec_of(label, layout, actions), np.random.default_rng(seed)
    row = np.zeros((1, *layout.shape), layout.dtype)
    observation, _ = env.reset(seed=seed)
    for _ in range(steps):
        _check_inside(env.observation_space, observation, "")
        layout.place(observation, row[0])
        (action,) = each_of(to_native(random_actions(spec, 1, random, row)), 1)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()


def _check_inside(space: Any, observation: Any, name: str) -> None:
    """`observation` must be in `space`; the error names the member that is not."""
    if space.contains(observation):
        return
    inner = getattr(space, "spaces", None)
    for key, member in inner.items() if isinstance(inner, Mapping) else enumerate(inner or ()):
        with contextlib.suppress(KeyError, IndexError, TypeError):
            _check_inside(member, observation[key], f"{name}/{key}" if name else str(key))
    what = f"an observation{f' {name!r}' if name else ''} ({described(observation)})"
    if inner is None and _would_be_inside(space, observation):
        check(False, "observation space", f"{what} would be in {space} were it {space.dtype}: return "
              f"observation.astype({str(space.dtype)!r}). A run converts it")
    check(False, "observation space", f"{what} is not in {space}. Mend the observation or its space. A run takes such "
          "numbers as they are, as float32, and says nothing; normalize_observations=True scales them")


def _would_be_inside(space: Any, observation: Any) -> bool:
    """Whether the same numbers are in `space` in its own dtype."""
    if space.dtype is None or not isinstance(observation, np.ndarray) or observation.dtype.kind not in "biuf":
        return False
    cast = observation.astype(space.dtype)
    return np.allclose(cast, observation) and bool(space.contains(cast))


def _rollout(
    env: VectorEnvironment, steps: int, seed: int, *, others: bool = False, drawing: bool = False,
    keeps_endings: bool = False,
) -> tuple[Checked, list[StepBatch]]:
    """Random actions, checked batch by batch. `others`: all games but the first act differently."""
    rules = BatchRules(env, keeps_endings)
    rng, other = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    batch = env.reset(seed=seed)
    rules.first(batch)
    trajectory = [copied(batch)]
    for number in range(steps):
        actions = random_actions(env.spec, env.num_envs, rng, batch.observation)
        if others:
            theirs = random_actions(env.spec, env.num_envs, other, batch.observation)
            actions[env.spec.agents :] = theirs[env.spec.agents :]
        if drawing and number % max(1, steps // _FRAMES) == 0:
            rules.counts.frames += _renders(env)
        before, batch = batch, env.step(actions)
        check(same(before, trajectory[-1]), "arrays belong to the caller", "a later step changed what an earlier one "
              "had returned")
        rules.next(batch, before)
        trajectory.append(copied(batch))
    return rules.counts, trajectory


def _renders(env: VectorEnvironment) -> bool:
    """Whether the first environment renders; checks its frame."""
    frame = env.render(0)
    if frame is not None:
        check_frame(frame, "render(0)")
    return frame is not None


def _check_refusals(env: VectorEnvironment) -> None:
    """Actions of a wrong range, shape or dtype must be refused."""
    for actions, why in _wrong_actions(env.spec, env.num_envs):
        try:
            env.step(actions)
        except ShapeMismatch:
            continue
        check(False, "wrong actions", f"step({actions.tolist()}) must raise ShapeMismatch: {why}")


def _wrong_actions(spec: EnvironmentSpec, num_envs: int) -> list[tuple[Array, str]]:
    """Wrong actions, and why they are wrong."""
    valid = random_actions(spec, num_envs, np.random.default_rng(0))
    too_many = (np.concatenate([valid, valid[:1]]), f"there are {num_envs} environments")
    if spec.actions.kind == "tanh_normal":
        return [too_many, (np.full_like(valid, 1.5), "they are numbers in [-1, 1]"),
                (np.full_like(valid, np.nan), "they are numbers in [-1, 1]"), (valid[:, :-1], "one number is missing")]
    if spec.actions.parts:
        sizes = np.array(spec.actions.sizes, np.float32)
        beyond = np.broadcast_to(np.where(sizes == 0, 1.5, sizes), valid.shape).astype(np.float32)
        between = valid + np.where(sizes == 0, 0, 0.5).astype(np.float32)
        return [too_many, (beyond, "no choice and no number is that large"), (valid[:, :-1], "one column is missing"),
                (np.full_like(valid, np.nan), "they are no numbers"),
                *([(between, "choices are whole numbers")] if sizes.any() else [])]
    sizes = np.broadcast_to(np.array(spec.actions.sizes).reshape(spec.actions.shape), valid.shape)
    return [too_many, (sizes.copy(), f"there are {spec.actions.sizes} choices, counted from 0"),
            (np.full_like(valid, -1), "choices are counted from 0"), (valid + 0.5, "they are integers")]


def _seeding(made: Wrapped) -> str:
    """What to do about a trajectory that a seed does not repeat."""
    if made.learning:
        return (f"{' and '.join(made.learning)} keeps running means from episode to episode: check without it, and let "
                "a run have normalize_observations=True or normalize_rewards=True instead")
    return "super().reset(seed=seed) seeds self.np_random, from which to draw all that is random"

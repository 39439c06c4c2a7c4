"""The contract as a test for any environment: its errors name the rule of `contract` that is broken.

    check_environment("CartPole-v1")
    check_environment(MyEnv)                                              # a gymnasium.Env class or a factory
    check_environment(lambda num_envs, seed: MyVector(num_envs, seed))    # your own vector environment

`ending` of your own vector environment is tested if its factory takes `show`, which says when to keep endings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from workbench.config.settings import takes
from workbench.environment_spec import EnvironmentSpec
from workbench.environments.adapters.guarded_calls import called
from workbench.environments.adapters.gymnasium_vector import without_display
from workbench.environments.adapters.wrapping import Wrapped, Wrapper, checked_wrappers
from workbench.environments.contract import Array, Show, VectorEnvironment, random_actions
from workbench.environments.observations import decode
from workbench.environments.registry import factory_call, make
from workbench.errors import EnvironmentFailed, InvalidInput, MissingPackage, ShapeMismatch, checked_arguments
from workbench.trajectory import ENDS, Flags, StepBatch

_KNOWN = sum(Flags)
_LARGEST_FRAME = 4096  # pixels along an axis
_FRAMES = 5  # drawn in a rollout


@dataclass(repr=False)
class Checked:
    """Counts of the events in a check; a rule about an event that did not happen is not tested, as `notes` say.

    Attributes:
        steps: of all environments together, without those of absent agents.
        episodes: ended episodes.
        truncated: episodes that were cut off.
        lives_lost: lost lives that did not end an episode.
        absent: rows of agents that were out while their game went on.
        frames: drawn frames; 0 if nothing draws (vector observations, or a missing package).
        left_out: members of the observation that are words, which networks do not get.
    """

    steps: int = 0
    episodes: int = 0
    truncated: int = 0
    lives_lost: int = 0
    absent: int = 0
    frames: int = 0
    left_out: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the counts mean for a run, in words."""
        endless = (f"no episode ended in {self.steps:,} steps, so nothing about ends was tested: more steps= may see "
                   "one; a run whose episodes never end has no returns (gymnasium.wrappers.TimeLimit cuts them off)")
        words = f"networks do not get {', '.join(self.left_out)}, which are words"
        return (*([endless] if not self.episodes else []), *([words] if self.left_out else []))

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={getattr(self, name)}" for name in self.__dataclass_fields__ if name != "left_out")
        return "\n".join([f"Checked({counts})", *(f"Note: {note}." for note in self.notes)])


@dataclass
class _BatchRules:
    """The rules about single batches, with the state that they need between batches."""

    env: VectorEnvironment
    keeps_endings: bool
    counts: Checked = field(default_factory=Checked)
    stale_finals: int = 0  # final observations equal to the reset observation beside them
    varied: bool = False

    def first(self, batch: StepBatch) -> None:
        """Rules about what `reset` returns."""
        self.shapes(batch, "reset")
        _rule(not batch.reward.any(), "reward after reset", f"must be 0 everywhere, is {batch.reward.tolist()}")
        _rule(batch.score is None or not batch.score.any(), "score after reset", "must be 0 everywhere")
        _rule((batch.flags == Flags.START).all(), "START after reset",
              f"flags must be START ({int(Flags.START)}) everywhere, are {batch.flags.tolist()}")
        _rule(len(batch.final_index) == 0, "final observation", "reset must return none")

    def next(self, batch: StepBatch, before: StepBatch) -> None:
        """Rules about what `step` returns."""
        self.shapes(batch, "step")
        flags = batch.flags
        ended, start, lost = (flags & ENDS) > 0, (flags & Flags.START) > 0, (flags & Flags.LIFE_LOST) > 0
        _rule((flags & ~np.uint8(_KNOWN) == 0).all(), "flags",
              f"must be a combination of {[flag.name for flag in Flags]}")
        _rule((ended <= start).all(), "reset after the end",
              "TERMINATED or TRUNCATED without START: the observation beside the end of an episode must be the first "
              "of the next episode, and be flagged START")
        _rule((start <= ended).all(), "START", "START without TERMINATED or TRUNCATED in a step")
        _rule(not (lost & start).any(), "LIFE_LOST", "a lost life must not be flagged START: the game goes on")
        self._absent(batch, before)
        self._games(start)
        self._finals(batch)
        if self.keeps_endings:
            self._endings(batch, ended)
        self.varied |= not np.array_equal(batch.observation, before.observation)
        self.counts.steps += int(((flags & Flags.ABSENT) == 0).sum())
        self.counts.episodes += int(ended.sum())
        self.counts.lives_lost += int(lost.sum())

    def shapes(self, batch: StepBatch, where: str) -> None:
        """Rules about shapes, dtypes and numbers."""
        spec, n = self.env.spec, self.env.num_envs
        self._observation(batch.observation, n, f"observation of {where}")
        _rule((batch.score is not None) == spec.scored, f"score of {where}",
              "steps must carry a score where the spec says `scored`, and nowhere else")
        for name, (shape, dtype) in StepBatch.specs(spec).items():
            self._array(getattr(batch, name), (n, *shape), dtype, f"{name} of {where}")

    def _observation(self, observation: Any, rows: int, what: str) -> None:
        spec = self.env.spec
        self._array(observation, (rows, *spec.observation_shape), spec.observation_dtype, what)
        parts = decode(observation, spec.parts)
        for name, values in (parts if isinstance(parts, dict) else {"": parts}).items():
            _rule(values.dtype == np.uint8 or np.isfinite(values).all(), what,
                  f"its part {name!r} must be finite, has NaN or infinite values")

    def _array(self, array: Any, shape: tuple[int, ...], dtype: str, what: str) -> None:
        _rule(isinstance(array, np.ndarray), what, f"must be an array, is {type(array).__name__}")
        _rule(array.shape == shape, what, f"must have shape {shape}, has {array.shape}")
        _rule(array.dtype == dtype, what, f"must have dtype {dtype}, has {array.dtype}")
        _rule(dtype == "uint8" or np.isfinite(array).all(), what, "must be finite, has NaN or infinite values")

    def _absent(self, batch: StepBatch, before: StepBatch) -> None:
        out, was_out = (batch.flags & Flags.ABSENT) > 0, (before.flags & Flags.ABSENT) > 0
        _rule((batch.flags[out] == Flags.ABSENT).all(), "ABSENT",
              "it must be set alone: how the agent ended comes with the START of its next game")
        _rule(not batch.reward[out].any(), "ABSENT",
              "an agent that is out gets no reward: that of its last step comes with the START of its next game")
        back = was_out & ~out
        _rule((batch.flags[back] & Flags.START > 0).all(), "ABSENT",
              "an agent that was out comes back with START, at the beginning of its next game")
        self.counts.absent += int(out.sum())

    def _games(self, start: Array) -> None:
        games = start.reshape(-1, self.env.spec.agents)
        _rule((games.all(1) == games.any(1)).all(), "agents",
              f"the {self.env.spec.agents} rows of one game, side by side, must START together")

    def _finals(self, batch: StepBatch) -> None:
        cut_off = (batch.flags & ENDS) == Flags.TRUNCATED
        expected = np.flatnonzero(cut_off).tolist()
        _rule(list(batch.final_index) == expected, "final observation",
              f"final_index must hold the truncated environments {expected}, is {list(batch.final_index)}")
        if not expected:
            return
        final = batch.final_observation
        self._observation(final, len(expected), "final observation")
        assert final is not None
        self.counts.truncated += len(expected)
        self.stale_finals += sum(np.array_equal(final[k], batch.observation[i]) for k, i in enumerate(expected))
        _rule(self.stale_finals < max(2, self.counts.truncated) or not self.varied, "final observation",
              "it must be the last observation of the episode that was cut off; it always equals the first of the next")

    def _endings(self, batch: StepBatch, ended: Array) -> None:
        """Rules about `ending` of environments that keep endings."""
        finals = dict(zip(list(batch.final_index), [] if batch.final_observation is None else batch.final_observation,
                          strict=True))
        for index, over in enumerate(ended.tolist()):
            ending = self.env.ending(index)
            _rule((ending is not None) == over, "ending",
                  f"ending({index}) must be an Ending if the last step ended the episode, and None if it goes on")
            if ending is None:
                continue
            if index in finals:
                _rule(np.array_equal(ending.observation, finals[index]), "ending",
                      f"ending({index}).observation must be the final observation")
            if ending.frame is not None:
                _check_frame(ending.frame, f"ending({index}).frame")


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
        _check_same(trajectory, _rollout(env, steps, seed)[1], "same seed, same trajectory",
                    f"reset(seed=...) with the same seed must repeat the trajectory ({_seeding(factory)})")
        _check_refusals(env)
    with contextlib.closing(build()) as env:
        _check_same(trajectory, _rollout(env, steps, seed)[1], "same seed, same trajectory",
                    "a second instance with the same seed and actions must repeat the trajectory")
        _check_same(trajectory, _rollout(env, steps, seed, others=True)[1], "independence",
                    "what environment 0 does must not depend on the actions of the others", rows=env.spec.agents)
        env.close()  # closing twice is allowed: `closing` does it again
    with contextlib.closing(build(threads=2)) as env:
        _check_same(trajectory, _rollout(env, steps, seed)[1], "threads",
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
    _check_same(trajectory, rendered, "render", "render, and the option `show`, must not change the trajectory")
    return counts.frames


def _check_spec(env: VectorEnvironment, num_envs: int) -> None:
    """The environment's description of itself must be consistent."""
    spec = env.spec
    _rule(env.num_envs == num_envs, "num_envs", f"must be {num_envs}, as requested, and is {env.num_envs}")
    _rule(env.num_envs % spec.agents == 0, "agents", f"{env.num_envs} rows are no whole games of {spec.agents} agents")
    if spec.parts:
        size = sum(part.wire_bytes for part in spec.parts)
        _rule((spec.observation_shape, spec.observation_dtype) == ((size,), "uint8"), "parts",
              f"the parts take {size} bytes: observations must be uint8 ({size},), and are {spec.observation_dtype} "
              f"{spec.observation_shape}")
        names = [part.name for part in spec.parts]
        _rule(len(set(names)) == len(names), "parts", f"two of them have the same name: {names}")
    _rule(spec.num_actions == spec.actions.encoded_size, "actions",
          f"num_actions must be {spec.actions.encoded_size}, the encoded size of {spec.actions}, and is "
          f"{spec.num_actions}")
    _rule(len(env.action_names) == spec.num_actions, "action names",
          f"there must be {spec.num_actions}, there are {len(env.action_names)}")
    _rule(env.fps > 0, "fps", f"must be above 0, is {env.fps}")


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
                    _check_spaces(env, steps, seed)


def _check_draws(env: Any, label: str) -> None:
    """`render` must return a frame if the environment was made with a render mode that it declares."""
    if env.render_mode != "rgb_array" or "rgb_array" not in (env.metadata or {}).get("render_modes", ()):
        return
    without_display(env)
    env.reset(seed=0)
    _rule(called(label, 0, "render", env.render) is not None, "render",
          "render() gave None, though metadata['render_modes'] has 'rgb_array' and the environment was made with it")


def _check_spaces(env: Any, steps: int, seed: int) -> None:
    """Observations must lie in the declared space."""
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    for _ in range(steps):
        _check_inside(env.observation_space, observation, "")
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
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
    what = f"an observation{f' {name!r}' if name else ''} ({_described(observation)})"
    if inner is None and _would_be_inside(space, observation):
        _rule(False, "observation space", f"{what} would be in {space} were it {space.dtype}: return "
              f"observation.astype({str(space.dtype)!r}). A run converts it")
    _rule(False, "observation space", f"{what} is not in {space}. Mend the observation or its space. A run takes such "
          "numbers as they are, as float32, and says nothing; normalize_observations=True scales them")


def _would_be_inside(space: Any, observation: Any) -> bool:
    """Whether the same numbers are in `space` in its own dtype."""
    if space.dtype is None or not isinstance(observation, np.ndarray) or observation.dtype.kind not in "biuf":
        return False
    cast = observation.astype(space.dtype)
    return np.allclose(cast, observation) and bool(space.contains(cast))


def _described(observation: Any) -> str:
    if not isinstance(observation, np.ndarray) or observation.size == 0:
        return f"a {type(observation).__name__}"
    return f"{observation.dtype} {observation.shape}, values in [{observation.min()}, {observation.max()}]"


def _rollout(
    env: VectorEnvironment, steps: int, seed: int, *, others: bool = False, drawing: bool = False,
    keeps_endings: bool = False,
) -> tuple[Checked, list[StepBatch]]:
    """Random actions, checked batch by batch. `others`: all games but the first act differently."""
    rules = _BatchRules(env, keeps_endings)
    rng, other = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    batch = env.reset(seed=seed)
    rules.first(batch)
    trajectory = [_copied(batch)]
    for number in range(steps):
        actions = random_actions(env.spec, env.num_envs, rng)
        if others:
            actions[env.spec.agents :] = random_actions(env.spec, env.num_envs, other)[env.spec.agents :]
        if drawing and number % max(1, steps // _FRAMES) == 0:
            rules.counts.frames += _renders(env)
        before, batch = batch, env.step(actions)
        _rule(_same(before, trajectory[-1]), "arrays belong to the caller", "a later step changed what an earlier one "
              "had returned")
        rules.next(batch, before)
        trajectory.append(_copied(batch))
    return rules.counts, trajectory


def _renders(env: VectorEnvironment) -> bool:
    """Whether the first environment renders; checks its frame."""
    frame = env.render(0)
    if frame is not None:
        _check_frame(frame, "render(0)")
    return frame is not None


def _check_frame(frame: Any, what: str) -> None:
    _rule(isinstance(frame, np.ndarray) and frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3,
          "render", f"{what} must be None or uint8 [H, W, 3], is {_described(frame)}")
    _rule(min(frame.shape) > 0 and max(frame.shape) <= _LARGEST_FRAME, "render",
          f"{what} must have between 1 and {_LARGEST_FRAME} pixels along each axis, has {list(frame.shape[:2])}")


def _check_refusals(env: VectorEnvironment) -> None:
    """Actions of a wrong range, shape or dtype must be refused."""
    for actions, why in _wrong_actions(env.spec, env.num_envs):
        try:
            env.step(actions)
        except ShapeMismatch:
            continue
        _rule(False, "wrong actions", f"step({actions.tolist()}) must raise ShapeMismatch: {why}")


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


def _check_same(
    first: list[StepBatch], second: list[StepBatch], rule: str, text: str, *, rows: int | None = None
) -> None:
    """Two trajectories, or their first `rows`, must be equal."""
    for number, (a, b) in enumerate(zip(first, second, strict=True)):
        for name, array in a.arrays().items():
            _rule(np.array_equal(array[:rows], getattr(b, name)[:rows]), rule,
                  f"{text}; the {name} differs at step {number}")
        if rows is None and a.final_observation is not None and b.final_observation is not None:
            _rule(np.array_equal(a.final_observation, b.final_observation), rule,
                  f"{text}; the final observation differs at step {number}")


def _same(a: StepBatch, b: StepBatch) -> bool:
    names = (*a.arrays(), "final_observation")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def _copied(batch: StepBatch) -> StepBatch:
    final = batch.final_observation
    return replace(batch.map(np.copy), final_observation=None if final is None else final.copy())


def _rule(holds: Any, rule: str, text: str) -> None:
    if not holds:
        raise EnvironmentFailed(f"the environment breaks the rule {rule!r}: {text}.")

"""The contract of every environment: N copies stepped together, each reset in the step that ended its episode.

What a caller may rely on (`workbench.testing.check_environment` tests it, and names the rule that is broken):

reward        float32, finite, of the transition into the observation beside it. Never clipped here: episode returns
              are sums of these rewards. 0 after `reset`. In the step that ends an episode it is the last reward of
              the old episode, though the observation beside it is already the first of the new one.
TERMINATED    the task itself ended (pole fell, game over): nothing follows, so the discount is 0.
TRUNCATED     the episode was cut off from outside (a time limit) while the task would have gone on: learning
              bootstraps from the true final observation. It comes in `final_observation`, one row per index in
              `final_index`; that index holds exactly the environments that are TRUNCATED and not TERMINATED.
LIFE_LOST     a life was lost and the game goes on: the discount is 0 for learning, but nothing is reset, START is
              not set, and the episode's return goes on. Set only where an option asks for it.
START         the observation is the first of an episode: set everywhere after `reset`, and together with TERMINATED
              or TRUNCATED everywhere else. There the previous action and the recurrent state mean nothing.
ABSENT        the agent takes no part in this step: it is out of a game that others still play, or its environment
              spends this step on a reset. Set alone; reward 0; its action is ignored, and the step belongs to no
              episode. How the agent ended, and the reward of its last step, come with START in its next game.
score         float32, beside the reward where `spec.scored`: the environment's own score. 0 after `reset`.

Actions are as `spec.actions` says (`ActionSpec`). Observations of several arrays, or of bits, are the bytes of one row
(`spec.parts`); `spec.action_mask`, if any, allows at least one choice wherever an agent acts. The `spec.agents` rows of
one game lie side by side and START together.

Same-step autoreset: no step is spent on resetting and no action is ignored. With action a_{t-1} the environment
returns the transition's reward and end flags, and x_t is the reset observation where the episode ended.

Seeds: one `seed` gives environment i its own stream of randomness from (seed, i), so that groups with neighbouring
seeds share none; the same seed and actions give the same trajectory, whatever the number of threads. Environments of
one vector share no state. Arrays in a `StepBatch` belong to the caller: the next step does not overwrite them.

Errors: EnvironmentFailed if the environment raises or breaks the contract (the message ends with the traceback),
ShapeMismatch for actions of a wrong shape or range, and for spaces that are not supported.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from workbench.environment_spec import ACTION_MASK, ActionSpec, EnvironmentSpec
from workbench.environments.observations import by_name
from workbench.errors import EnvironmentFailed, ShapeMismatch
from workbench.trajectory import ENDS, Flags, StepBatch

Array = npt.NDArray[Any]
Show = Literal["endings", "frames"] | None  # what an environment keeps for people to see; frames: endings as well


class Ending(NamedTuple):
    """The view at the end of an episode, before the reset.

    Attributes:
        observation: the last one, [*frame].
        frame: what `render` would have returned then, uint8 [H, W, 3], or None.
    """

    observation: Array
    frame: Array | None


@runtime_checkable
class VectorEnvironment(Protocol):
    """N environments that are stepped together."""

    spec: EnvironmentSpec
    num_envs: int
    fps: float  # steps per second at which people watch it

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions, in the order of their numbers; the numbers themselves where no names are known."""

    def reset(self, *, seed: int | None = None) -> StepBatch:
        """Returns the first step of a new episode everywhere. `seed` None: the seed passed to `make`."""

    def step(self, actions: Array) -> StepBatch:
        """Returns the step after `actions` (see `spec.actions`): int64 [N] or [N, K], or float32 [N, K] in [-1, 1],
        where choices of a mixed action are whole numbers."""

    def render(self, index: int) -> Array | None:
        """The current picture of environment `index`, uint8 [H, W, 3], or None if there is none."""

    def ending(self, index: int) -> Ending | None:
        """The Ending of environment `index` if the last step ended its episode; otherwise None.

        Only environments that were made with `show` keep endings; the others always return None.
        """

    def close(self) -> None:
        """Releases the resources of the environments; may be called more than once."""


class WithEndings:
    """A vector that keeps the endings of its last step in `_endings`, by index, where it `keeps_endings`.

    Attributes:
        keeps_endings: whether `ending` returns how episodes ended: it was made with `show`.
    """

    def __init__(self, *, keeps_endings: bool) -> None:
        self.keeps_endings = keeps_endings
        self._endings: dict[int, Ending] = {}

    def ending(self, index: int) -> Ending | None:
        """See `VectorEnvironment`."""
        return self._endings.get(index)


def seeds_of(seed: int, num_envs: int) -> Array:
    """One seed per environment, int64 [N] in [0, 2**31), independent for neighbouring values of `seed`."""
    return np.random.SeedSequence(seed).generate_state(num_envs).astype(np.int64) & 0x7FFFFFFF


def first_step(observation: Array, *, scored: bool = False) -> StepBatch:
    """The step that `reset` returns for observations [N, *frame]: START everywhere, rewards and scores 0."""
    reward = np.zeros(len(observation), np.float32)
    return StepBatch(observation, reward, np.full(len(observation), Flags.START, np.uint8),
                     score=reward.copy() if scored else None)


def check_step(step: StepBatch, spec: EnvironmentSpec, *, is_first: bool) -> None:
    """Raises EnvironmentFailed for a step that would break unrolls, or let an agent do what it may not, in silence.

    `is_first`: it is of `reset`.
    """
    if wrong := _wrong_flags(step, is_first=is_first) or wrong_mask(step, spec):
        raise EnvironmentFailed(f"environment {spec.name!r} broke a rule in {'reset' if is_first else 'step'}: "
                                f"{wrong}. wb.check_environment tests all rules.")


def _wrong_flags(step: StepBatch, *, is_first: bool) -> str:
    flags, final = step.flags, step.final_index
    if is_first:
        return "" if (flags == Flags.START).all() else f"flags must be START everywhere, and are {flags.tolist()}"
    if not flags.any() and not len(final):
        return ""  # as nearly always
    ends = flags & ENDS
    if (ends[flags & Flags.START == 0] > 0).any():
        return f"an end, TERMINATED or TRUNCATED, must come with START, and the flags are {flags.tolist()}"
    cut_off = np.flatnonzero(ends == Flags.TRUNCATED).tolist()
    told = sorted(final.tolist())
    return "" if told == cut_off else f"final_index must hold the truncated rows {cut_off}, and holds {told}"


def wrong_mask(step: StepBatch, spec: EnvironmentSpec) -> str:
    """What is wrong with the first mask that leaves an agent nothing to choose, although it acts; ""."""
    if not spec.parts or (allowed := allowed_choices(step.observation, spec)) is None:
        return ""
    nothing = np.any([~column.any(1) for column in allowed], axis=0) & (step.flags & Flags.ABSENT == 0)
    if not nothing.any():
        return ""
    row = int(nothing.argmax())
    mask = by_name(step.observation, spec.parts)[ACTION_MASK][row].tolist()
    return (f"the action_mask of row {row} is {mask!s:.200}, and must be above 0 for a choice that is allowed, for at "
            "least one wherever an agent acts")


def checked_actions(actions: Array, spec: EnvironmentSpec, num_envs: int) -> Array:
    """`actions` as int64 [N] or [N, K], or as float32 [N, K] for continuous and mixed actions: see `ActionSpec`.

    Raises ShapeMismatch for a wrong shape, dtype or value: ale-py's worker threads would hang on a wrong action.
    """
    actions, action_spec = np.asarray(actions), spec.actions
    shape, continuous = (num_envs, *action_spec.shape), action_spec.dtype == "float32"
    if actions.shape != shape or actions.dtype.kind not in ("f" if continuous else "iu"):
        raise ShapeMismatch(f"{spec.name}: actions must be {'floats' if continuous else 'integers'} of shape "
                            f"{list(shape)}, not {actions.dtype} {list(actions.shape)}.")
    if action_spec.parts:
        _check_mixed(actions, spec)
        return actions.astype(np.float32, copy=False)
    if continuous:
        in_range = np.abs(actions) <= 1  # False for NaN
        if np.count_nonzero(in_range) != in_range.size:
            raise ShapeMismatch(f"{spec.name}: action {actions[~in_range][0]} is not in [-1, 1]{_stretched(spec)}.")
        return actions.astype(np.float32, copy=False)
    if action_spec.kind == "categorical" and min(listed := actions.tolist()) >= 0 and max(listed) < spec.num_actions:
        return actions.astype(np.int64, copy=False)  # a few numbers are checked sooner in a list
    out_of_range = (actions < 0) | (actions >= _sizes(action_spec))
    if np.count_nonzero(out_of_range):
        position = tuple(np.argwhere(out_of_range)[0])
        size = action_spec.sizes[position[1]] if action_spec.shape else spec.num_actions
        part = f" of part {position[1]}" if action_spec.shape else ""
        raise ShapeMismatch(f"{spec.name}: action {int(actions[position])}{part} is not in [0, {size}).")
    return actions.astype(np.int64, copy=False)


def _stretched(spec: EnvironmentSpec) -> str:
    """What becomes of numbers in [-1, 1], as the end of a sentence."""
    bounds = sorted({f"[{low:g}, {high:g}]" for low, high in spec.action_bounds} - {"[-1, 1]"})
    return f", which is stretched to the environment's own {' and '.join(bounds)}" if bounds else ""


def _check_mixed(actions: Array, spec: EnvironmentSpec) -> None:
    """Raises ShapeMismatch for a number outside [-1, 1], and for a choice that is none."""
    sizes = _sizes(spec.actions)
    is_choice = (actions >= 0) & (actions < sizes) & (actions == np.floor(actions))
    fits = np.where(sizes == 0, np.abs(actions) <= 1, is_choice)  # False for NaN
    if np.count_nonzero(fits) != fits.size:
        row, column = np.argwhere(~fits)[0]
        ends = np.cumsum([len(part.actions.sizes) for part in spec.actions.parts])
        name = spec.actions.parts[int(np.searchsorted(ends, column, "right"))].name
        allowed = f"a whole number in [0, {sizes[column]})" if sizes[column] else "in [-1, 1]"
        raise ShapeMismatch(f"{spec.name}: action {actions[row, column]:g} of part {name!r} is not {allowed}.")


def random_actions(
    spec: EnvironmentSpec, num_envs: int, rng: np.random.Generator, observation: Array | None = None
) -> Array:
    """Actions drawn uniformly, as `step` takes them: int64 [N] or [N, K], or float32 [N, K] in [-1, 1].

    Args:
        observation: [N, ...] of the step before them: they are drawn from what its mask allows, if it has one.
    """
    shape = (num_envs, *spec.actions.shape)
    if observation is not None and (allowed := allowed_choices(observation, spec)) is not None:
        drawn = [np.where(column, rng.random(column.shape), -1.0).argmax(1) for column in allowed]
        return np.stack(drawn, 1).reshape(shape)
    if spec.actions.parts:
        sizes = _sizes(spec.actions)
        choices, numbers = rng.integers(np.maximum(sizes, 1), size=shape), rng.uniform(-1, 1, shape)
        return np.where(sizes == 0, numbers, choices).astype(np.float32)
    if spec.actions.kind == "tanh_normal":
        return rng.uniform(-1, 1, shape).astype(np.float32)
    return rng.integers(_sizes(spec.actions), size=shape)


def allowed_choices(observation: Array, spec: EnvironmentSpec) -> list[Array] | None:
    """What the masks of observations [N, ...] allow, bool [N, choices] of each column of an action; None: no masks."""
    if spec.action_mask is None:
        return None
    mask = by_name(observation, spec.parts)[spec.action_mask.name]
    return np.split(mask > 0, np.cumsum(spec.actions.sizes)[:-1], axis=1)


def _sizes(actions: ActionSpec) -> Any:
    """The number of choices of an action, or of each of its parts: broadcasts against [N] or [N, K]."""
    return actions.sizes[0] if actions.kind == "categorical" else np.array(actions.sizes)

"""The rules of `contract` about what an environment returns, batch by batch, each with the name by which it is told."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from workbench.environments.contract import Array, VectorEnvironment, wrong_mask
from workbench.environments.observations import by_name
from workbench.errors import EnvironmentFailed
from workbench.trajectory import ENDS, Flags, StepBatch

_KNOWN = sum(Flags)
_LARGEST_FRAME = 4096  # pixels along an axis


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
class BatchRules:
    """The rules about single batches, with the state that they need between batches."""

    env: VectorEnvironment
    keeps_endings: bool
    counts: Checked = field(default_factory=Checked)
    stale_finals: int = 0  # final observations equal to the reset observation beside them
    varied: bool = False

    def first(self, batch: StepBatch) -> None:
        """Rules about what `reset` returns."""
        self.shapes(batch, "reset")
        check(not batch.reward.any(), "reward after reset", f"must be 0 everywhere, is {batch.reward.tolist()}")
        check(batch.score is None or not batch.score.any(), "score after reset", "must be 0 everywhere")
        check((batch.flags == Flags.START).all(), "START after reset",
              f"flags must be START ({int(Flags.START)}) everywhere, are {batch.flags.tolist()}")
        check(len(batch.final_index) == 0, "final observation", "reset must return none")

    def next(self, batch: StepBatch, before: StepBatch) -> None:
        """Rules about what `step` returns."""
        self.shapes(batch, "step")
        flags = batch.flags
        ended, start, lost = (flags & ENDS) > 0, (flags & Flags.START) > 0, (flags & Flags.LIFE_LOST) > 0
        check((flags & ~np.uint8(_KNOWN) == 0).all(), "flags",
              f"must be a combination of {[flag.name for flag in Flags]}")
        check((ended <= start).all(), "reset after the end",
              "TERMINATED or TRUNCATED without START: the observation beside the end of an episode must be the first "
              "of the next episode, and be flagged START")
        check((start <= ended).all(), "START", "START without TERMINATED or TRUNCATED in a step")
        check(not (lost & start).any(), "LIFE_LOST", "a lost life must not be flagged START: the game goes on")
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
        check((batch.score is not None) == spec.scored, f"score of {where}",
              "steps must carry a score where the spec says `scored`, and nowhere else")
        for name, (shape, dtype) in StepBatch.specs(spec).items():
            self._array(getattr(batch, name), (n, *shape), dtype, f"{name} of {where}")
        wrong = wrong_mask(batch, spec)
        check(not wrong, f"action mask of {where}", wrong)

    def _observation(self, observation: Any, rows: int, what: str) -> None:
        spec = self.env.spec
        self._array(observation, (rows, *spec.observation_shape), spec.observation_dtype, what)
        for name, values in by_name(observation, spec.parts).items():
            check(values.dtype == np.uint8 or np.isfinite(values).all(), what,
                  f"its part {name!r} must be finite, has NaN or infinite values")

    def _array(self, array: Any, shape: tuple[int, ...], dtype: str, what: str) -> None:
        check(isinstance(array, np.ndarray), what, f"must be an array, is {type(array).__name__}")
        check(array.shape == shape, what, f"must have shape {shape}, has {array.shape}")
        check(array.dtype == dtype, what, f"must have dtype {dtype}, has {array.dtype}")
        check(dtype == "uint8" or np.isfinite(array).all(), what, "must be finite, has NaN or infinite values")

    def _absent(self, batch: StepBatch, before: StepBatch) -> None:
        out, was_out = (batch.flags & Flags.ABSENT) > 0, (before.flags & Flags.ABSENT) > 0
        check((batch.flags[out] == Flags.ABSENT).all(), "ABSENT",
              "it must be set alone: how the agent ended comes with the START of its next game")
        check(not batch.reward[out].any(), "ABSENT",
              "an agent that is out gets no reward: that of its last step comes with the START of its next game")
        back = was_out & ~out
        check((batch.flags[back] & Flags.START > 0).all(), "ABSENT",
              "an agent that was out comes back with START, at the beginning of its next game")
        self.counts.absent += int(out.sum())

    def _games(self, start: Array) -> None:
        games = start.reshape(-1, self.env.spec.agents)
        check((games.all(1) == games.any(1)).all(), "agents",
              f"the {self.env.spec.agents} rows of one game, side by side, must START together")

    def _finals(self, batch: StepBatch) -> None:
        cut_off = (batch.flags & ENDS) == Flags.TRUNCATED
        expected = np.flatnonzero(cut_off).tolist()
        check(list(batch.final_index) == expected, "final observation",
              f"final_index must hold the truncated environments {expected}, is {list(batch.final_index)}")
        if not expected:
            return
        final = batch.final_observation
        self._observation(final, len(expected), "final observation")
        assert final is not None
        self.counts.truncated += len(expected)
        self.stale_finals += sum(np.array_equal(final[k], batch.observation[i]) for k, i in enumerate(expected))
        check(self.stale_finals < max(2, self.counts.truncated) or not self.varied, "final observation",
              "it must be the last observation of the episode that was cut off; it always equals the first of the next")

    def _endings(self, batch: StepBatch, ended: Array) -> None:
        """Rules about `ending` of environments that keep endings."""
        finals = dict(zip(list(batch.final_index), [] if batch.final_observation is None else batch.final_observation,
                          strict=True))
        for index, over in enumerate(ended.tolist()):
            ending = self.env.ending(index)
            check((ending is not None) == over, "ending",
                  f"ending({index}) must be an Ending if the last step ended the episode, and None if it goes on")
            if ending is None:
                continue
            if index in finals:
                check(np.array_equal(ending.observation, finals[index]), "ending",
                      f"ending({index}).observation must be the final observation")
            if ending.frame is not None:
                check_frame(ending.frame, f"ending({index}).frame")


def check_same(
    first: list[StepBatch], second: list[StepBatch], rule: str, text: str, *, rows: int | None = None
) -> None:
    """Two trajectories, or their first `rows`, must be equal."""
    for number, (a, b) in enumerate(zip(first, second, strict=True)):
        for name, array in a.arrays().items():
            check(np.array_equal(array[:rows], getattr(b, name)[:rows]), rule,
                  f"{text}; the {name} differs at step {number}")
        if rows is None and a.final_observation is not None and b.final_observation is not None:
            check(np.array_equal(a.final_observation, b.final_observation), rule,
                  f"{text}; the final observation differs at step {number}")


def same(a: StepBatch, b: StepBatch) -> bool:
    """Whether two batches are equal."""
    names = (*a.arrays(), "final_observation")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def copied(batch: StepBatch) -> StepBatch:
    """A copy that later steps leave alone."""
    final = batch.final_observation
    return replace(batch.map(np.copy), final_observation=None if final is None else final.copy())


def check(holds: Any, rule: str, text: str) -> None:
    """Raises EnvironmentFailed with the name of the rule unless it holds."""
    if not holds:
        raise EnvironmentFailed(f"the environment breaks the rule {rule!r}: {text}.")


def check_frame(frame: Any, what: str) -> None:
    """A drawn frame must be a picture."""
    check(isinstance(frame, np.ndarray) and frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3,
          "render", f"{what} must be None or uint8 [H, W, 3], is {described(frame)}")
    check(min(frame.shape) > 0 and max(frame.shape) <= _LARGEST_FRAME, "render",
          f"{what} must have between 1 and {_LARGEST_FRAME} pixels along each axis, has {list(frame.shape[:2])}")


def described(observation: Any) -> str:
    """An observation by its dtype, shape and range."""
    if not isinstance(observation, np.ndarray) or observation.size == 0:
        return f"a {type(observation).__name__}"
    return f"{observation.dtype} {observation.shape}, values in [{observation.min()}, {observation.max()}]"

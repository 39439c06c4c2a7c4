"""Steps and unrolls: the one declaration of what a step holds, and of time indices. NumPy only.

Step t of an unroll holds what is known when the agent sees observation x_t. An unroll of length T holds T+1 steps; its
last step is only for the bootstrap and is the first of the next unroll.

A field of every step is one line here: in `EnvironmentStep` where an environment gives it, which also puts it on the
wire, in `Steps` where the learner adds it. What an unroll has once is a line of `Unrolled`. Tables, queue, replay,
checkpoints and batches are made from these lines; only who writes a field and who reads it know of it beside them.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from typing import Any, Generic, NamedTuple, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from workbench.environment_spec import EnvironmentSpec

Array = npt.NDArray[Any]
A = TypeVar("A")  # of a container: NumPy's arrays, or torch's tensors
FieldSpec = tuple[tuple[int, ...], str]  # shape of one step's value, NumPy dtype


class Flags(enum.IntFlag):
    """What the transition into x_t was, and what x_t is. Stored as uint8."""

    TERMINATED = 1  # the episode ended: discount 0
    TRUNCATED = 2  # the episode was cut off: bootstrap from the true final observation
    LIFE_LOST = 4  # a life was lost and the game goes on: discount 0, no reset
    START = 8  # x_t is the first observation of an episode: recurrent state, frame stack, previous action reset
    ABSENT = 16  # the agent takes no part in this step (it is out of a game that others still play): no step of a life


ENDS = Flags.TERMINATED | Flags.TRUNCATED
NO_DISCOUNT = Flags.TERMINATED | Flags.LIFE_LOST
# Of a transition that ends one episode where x_t begins the next.
ENDED_FLAGS, CUT_OFF_FLAGS = np.uint8(Flags.TERMINATED | Flags.START), np.uint8(Flags.TRUNCATED | Flags.START)


def shaped(spec: Callable[[EnvironmentSpec], FieldSpec | None]) -> dict[str, Any]:
    """Declares a field: shape and dtype of one value; None where an environment has none."""
    return {"of": spec}


def grouped(name: str, kind: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Declares a dict or tuple of arrays, called "<name>.<key>"; their shapes are the algorithm's or the network's."""
    return {"prefix": f"{name}.", "kind": kind}


class _Attributes(NamedTuple):
    """Of a class of `Fields`: its arrays; its groups, with the prefix of their names and constructor; all else."""

    plain: list[str]
    groups: list[tuple[str, str, Callable[[dict[str, Any]], Any]]]
    others: list[str]


@dataclass
class Fields(Generic[A]):
    """Arrays as its subclasses declare them, as a tree. Attributes that are not declared ride along."""

    def arrays(self) -> dict[str, A]:
        """The declared arrays by name, always in the same order; without those that are None."""
        declared = self._attributes()
        arrays = {name: array for name in declared.plain if (array := getattr(self, name)) is not None}
        for name, prefix, _ in declared.groups:
            value = getattr(self, name)
            items = value.items() if isinstance(value, dict) else enumerate(value)
            arrays |= {f"{prefix}{key}": array for key, array in items}
        return arrays

    @classmethod
    def columns(cls, several: Sequence[Self]) -> dict[str, list[A]]:
        """`arrays` of several side by side, [len(several)] each; all have what the first has."""
        declared = cls._attributes()
        columns = {name: [getattr(each, name) for each in several] for name in declared.plain
                   if getattr(several[0], name) is not None}
        for name, prefix, _ in declared.groups:
            values = [getattr(each, name) for each in several]
            keys = values[0] if isinstance(values[0], dict) else range(len(values[0]))
            columns |= {f"{prefix}{key}": [value[key] for value in values] for key in keys}
        return columns

    @classmethod
    def of(cls, arrays: Mapping[str, A], **others: Any) -> Self:
        """The inverse of `arrays`; `others` are the attributes that are not declared."""
        return cls(**cls.attributes_of(arrays), **others)

    @classmethod
    def attributes_of(cls, arrays: Mapping[str, A]) -> dict[str, Any]:
        """What `of` gives the constructor, for who makes many of the same arrays."""
        values: dict[str, Any] = dict(arrays)
        for name, prefix, kind in cls._attributes().groups:
            keys = [key for key in values if key.startswith(prefix)]
            values[name] = kind({key[len(prefix) :]: values.pop(key) for key in keys})
        return values

    def map(self, function: Callable[[A], A]) -> Self:
        """The same with what `function` returns for each array, always in the same order."""
        others = {name: getattr(self, name) for name in self._attributes().others}
        return self.of({name: function(array) for name, array in self.arrays().items()}, **others)

    @classmethod
    def specs(cls, spec: EnvironmentSpec) -> dict[str, FieldSpec]:
        """Shape and dtype of one value, by name, of the declared arrays without those of groups."""
        specs = {each.name: each.metadata["of"](spec) for each in fields(cls) if "of" in each.metadata}
        return {name: declared for name, declared in specs.items() if declared is not None}

    @classmethod
    @functools.cache  # inference asks for each batch
    def _attributes(cls) -> _Attributes:
        every = {each.name: each.metadata for each in fields(cls)}
        groups = [(name, metadata["prefix"], metadata["kind"]) for name, metadata in every.items()
                  if "kind" in metadata]
        return _Attributes([name for name, metadata in every.items() if "of" in metadata], groups,
                           [name for name, metadata in every.items() if not metadata])


@dataclass
class EnvironmentStep(Fields[A]):
    """What an environment says of a step, and unrolls keep."""

    # x_t, one single frame; after the reset if an episode ended
    observation: A = field(metadata=shaped(lambda spec: (spec.observation_shape, spec.observation_dtype)))
    # of the transition into x_t, not clipped
    reward: A = field(metadata=shaped(lambda spec: ((), "float32")))
    # `Flags`: how the transition into x_t ended, and whether x_t starts an episode
    flags: A = field(metadata=shaped(lambda spec: ((), "uint8")))

    def has(self, flags: Flags) -> A:
        """bool, of the shape of `flags`: whether any of these is set."""
        return cast(A, (cast(Any, self.flags) & int(flags)) != 0)

    @property
    def start(self) -> A:
        """bool: whether x_t is the first observation of an episode."""
        return self.has(Flags.START)

    @property
    def played(self) -> A:
        """bool: whether a step of an episode led into x_t. A reset that follows an episode's end is one with its last
        step, whose reward comes with x_t."""
        return cast(A, self.has(ENDS) | ~cast(Any, self.start))

    def kept(self) -> dict[str, Any]:
        """Of these fields, what unrolls keep, for `Steps`."""
        return {name: getattr(self, name) for name in EnvironmentStep._attributes().plain}


@dataclass
class StepBatch(EnvironmentStep[Array]):
    """One step of N environments [N, ...], as an environment returns it and an actor sends it.

    Attributes:
        final_index: int [K], which of the N were truncated, ascending.
        final_observation: [K, *frame], their true final observations.
        score: of the transition into x_t as the environment itself counts, where the spec is `scored`.
    """

    final_index: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    final_observation: Array | None = None
    score: Array | None = field(default=None, metadata=shaped(lambda spec: ((), "float32") if spec.scored else None))

    @classmethod
    def zeros(cls, spec: EnvironmentSpec, number: int) -> StepBatch:
        """A step of `number` environments, to be filled."""
        return cls.of({name: np.zeros((number, *shape), dtype) for name, (shape, dtype) in cls.specs(spec).items()})

    @classmethod
    def joined(cls, steps: Sequence[StepBatch], memory: Callable[..., Array] = np.empty) -> StepBatch:
        """The groups' arrays, one after the other; the frames in memory that `memory(shape, dtype)` returns."""
        offsets = list(accumulate((len(step.flags) for step in steps), initial=0))
        finals = [step.final_observation for step in steps if step.final_observation is not None]
        columns = cls.columns(steps)
        frames = columns["observation"]
        room = memory((offsets[-1], *frames[0].shape[1:]), frames[0].dtype)
        return cls.of(
            {name: np.concatenate(arrays, out=room if arrays is frames else None) for name, arrays in columns.items()},
            final_index=np.concatenate([step.final_index + at for step, at in zip(steps, offsets, strict=False)])
            if finals else np.zeros(0, np.int32), final_observation=np.concatenate(finals) if finals else None,
        )

    def only(self, rows: Array) -> StepBatch:
        """The rows where the mask `rows` is set."""
        place, finals = np.cumsum(rows) - 1, rows[self.final_index]
        return replace(
            self.map(lambda array: array[rows]), final_index=place[self.final_index[finals]],
            final_observation=None if self.final_observation is None else self.final_observation[finals],
        )


@dataclass(kw_only=True)
class Steps(EnvironmentStep[A]):
    """Steps as unrolls keep them: [N, ...] of N environments, or several in a row, see `Unroll` and `Batch`."""

    # a_{t-1}, as its distribution keeps it (see `ActionSpec`); 0 where an episode starts
    previous_action: A = field(metadata=shaped(lambda spec: (spec.actions.shape, spec.actions.dtype)))
    # a_t
    action: A = field(metadata=shaped(lambda spec: (spec.actions.shape, spec.actions.dtype)))
    # updates made by the weights that chose a_t
    policy_version: A = field(metadata=shaped(lambda spec: ((), "int64")))
    # behaviour's value of the true final observation where TRUNCATED, else 0
    bootstrap_value: A = field(metadata=shaped(lambda spec: ((), "float32")))
    # what the algorithm keeps of the behaviour's output for x_t (logits, value), by name
    behaviour: dict[str, A] = field(metadata=grouped("behaviour", dict))


@dataclass(kw_only=True)
class Unrolled(Steps[A]):
    """Consecutive steps, and what an unroll has once: what precedes x_0."""

    # [frame_stack-1, *frame], the frames before x_0, oldest first, zeros before an episode's start
    stack_prefix: A = field(metadata=shaped(
        lambda spec: ((spec.frame_stack - 1, *spec.observation_shape), spec.observation_dtype)))
    # [K], for algorithms that value final observations themselves: the first K steps of those trained on into which the
    # transition was truncated, ascending, then 0
    final_step: A | None = field(default=None, metadata=shaped(lambda spec: None))
    # [K, *frame], their true final observations
    final_observation: A | None = field(default=None, metadata=shaped(lambda spec: None))
    # the recurrent state before x_0 was seen
    initial_state: tuple[A, ...] = field(metadata=grouped("state", lambda parts: tuple(parts.values())))


@dataclass(kw_only=True)
class Unroll(Unrolled[Array]):
    """T+1 consecutive steps of one environment's life; what each step has with a leading [T+1].

    The learner's are views of memory that is written again once nobody holds the unroll: copy what must outlive it.
    Where frames stay on an accelerator, `observation` is a tensor there.
    """

    env_id: int
    run_id: int
    flight: Any = None  # of one of its steps, if the flight recorder follows it


_STEP_NAMES = {each.metadata.get("prefix", each.name).rstrip(".") for each in fields(Steps)}


def unroll_axis(name: str) -> int:
    """The axis along which unrolls lie in the array `name` of a batch: behind that of steps, where there is one."""
    return 1 if name.partition(".")[0] in _STEP_NAMES else 0

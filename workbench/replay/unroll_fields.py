"""The fields of an unroll, with their shapes and dtypes, for its assembly and the replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workbench.environment_spec import EnvironmentSpec
from workbench.trajectory import FieldSpec, Steps, Unrolled, unroll_axis

if TYPE_CHECKING:
    from torch import nn

    from workbench.algorithms import Algorithm

_STEPS_PER_FINAL = 50


def places_of_finals(unroll_length: int) -> int:
    """Final observations that an unroll of so many steps has places for."""
    return -(-unroll_length // _STEPS_PER_FINAL)


@dataclass(frozen=True)
class UnrollLayout:
    """Fields of an unroll, by the names of trajectory.py; "behaviour.<name>" for behaviour, "state.<i>" for states.

    Attributes:
        unroll_length: T, the steps trained on; an unroll begins every T steps.
        overlap: steps that consecutive unrolls share, besides the last one, which they always share.
        behaviour: fields stored of the behaviour policy's output for each step.
        state_shapes: of the parts of an environment's recurrent state, float32; () without one.
        keeps_finals: whether the true final observations of truncated episodes are kept (`Unrolled.final_observation`).
    """

    spec: EnvironmentSpec
    unroll_length: int
    overlap: int
    behaviour: Mapping[str, FieldSpec]
    state_shapes: tuple[tuple[int, ...], ...]
    keeps_finals: bool = False

    @classmethod
    def of(cls, algorithm: Algorithm, network: nn.Module, unroll_length: int) -> UnrollLayout:
        """What the unrolls of an algorithm and its network hold."""
        state = network.initial_state(1)  # type: ignore[operator]
        return cls(algorithm.spec, unroll_length, algorithm.overlap, algorithm.behaviour_fields(),
                   tuple(tuple(part.shape[1:]) for part in state), algorithm.values_finals)

    @property
    def length(self) -> int:
        """Steps of one unroll."""
        return self.overlap + self.unroll_length + 1

    @property
    def per_step(self) -> dict[str, FieldSpec]:
        """Shape and dtype of one step's value, by field."""
        behaviour = {f"behaviour.{name}": value for name, value in self.behaviour.items()}
        return {**Steps.specs(self.spec), **behaviour}

    @property
    def per_unroll(self) -> dict[str, FieldSpec]:
        """Shape and dtype of each field that an unroll has once: frames and state before its first step."""
        once = {name: value for name, value in Unrolled.specs(self.spec).items() if unroll_axis(name) == 0}
        return {**once, **{f"state.{part}": (shape, "float32") for part, shape in enumerate(self.state_shapes)}}

    @property
    def finals(self) -> dict[str, FieldSpec]:
        """Shape and dtype of the table of final observations that each unroll has; {} if none are kept.

        It has a place for each 50 steps trained on, so that time limits of 50 steps or more fill no table.
        """
        places = places_of_finals(self.unroll_length)
        return {"final_step": ((places,), "int64"), "final_observation": (
            (places, *self.spec.observation_shape), self.spec.observation_dtype)} if self.keeps_finals else {}

    @property
    def fields(self) -> dict[str, FieldSpec]:
        """Shape, with a leading [length] for fields of each step, and dtype of one unroll's arrays, by field."""
        steps = {name: ((self.length, *shape), dtype) for name, (shape, dtype) in self.per_step.items()}
        return {**steps, **self.per_unroll, **self.finals}

    @property
    def fields_without_finals(self) -> dict[str, FieldSpec]:
        """`fields` in a batch none of whose unrolls has a final observation: their tables have no place."""
        return {name: ((0, *shape[1:]) if name in self.finals else shape, dtype)
                for name, (shape, dtype) in self.fields.items()}

    @property
    def unroll_bytes(self) -> int:
        """Bytes of one unroll's arrays."""
        return sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in self.fields.values())

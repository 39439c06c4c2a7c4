"""A batch of unrolls as time-major tensors. Fields and time indices are those of `workbench.trajectory`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from workbench.errors import ShapeMismatch
from workbench.trajectory import Array, Flags, Unroll


@dataclass(frozen=True)
class Batch:
    """B unrolls of T+1 steps.

    Attributes:
        observation: uint8 or float32 [T+1, B, *frame], single frames.
        stack_prefix: [B, S-1, *frame], the frames before x_0, oldest first.
        reward: float32 [T+1, B], not clipped.
        flags: uint8 [T+1, B].
        previous_action, action: int64 or float32 [T+1, B, *action].
        policy_version: int64 [T+1, B].
        bootstrap_value: float32 [T+1, B].
        behaviour: [T+1, B, ...] by field.
        initial_state: [B, ...] each.
        weight: float32 [B], by which the unrolls' losses count; ones where each is trained on once.
    """

    observation: Tensor
    stack_prefix: Tensor
    reward: Tensor
    flags: Tensor
    previous_action: Tensor
    action: Tensor
    policy_version: Tensor
    bootstrap_value: Tensor
    behaviour: dict[str, Tensor]
    initial_state: tuple[Tensor, ...]
    weight: Tensor

    @property
    def start(self) -> Tensor:
        """bool [T+1, B]: whether x_t is the first observation of an episode."""
        return self.has(Flags.START)

    def has(self, flags: Flags) -> Tensor:
        """bool [T+1, B]: whether any of `flags` is set at step t."""
        return (self.flags & int(flags)) != 0

    def tensors(self) -> list[Tensor]:
        """All of them, in the order of `map`."""
        found: list[Tensor] = []

        def note(tensor: Tensor) -> Tensor:
            found.append(tensor)
            return tensor

        self.map(note)
        return found

    def axes(self) -> list[int]:
        """Of each tensor, in the order of `map`: the axis of the B unrolls."""
        steps, unrolls = 1, 0
        return [steps, unrolls, *[steps] * (6 + len(self.behaviour)), *[unrolls] * (len(self.initial_state) + 1)]

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """A batch of what `function` returns for each tensor, always in the same order."""
        return Batch(
            observation=function(self.observation),
            stack_prefix=function(self.stack_prefix),
            reward=function(self.reward),
            flags=function(self.flags),
            previous_action=function(self.previous_action),
            action=function(self.action),
            policy_version=function(self.policy_version),
            bootstrap_value=function(self.bootstrap_value),
            behaviour={name: function(value) for name, value in self.behaviour.items()},
            initial_state=tuple(function(part) for part in self.initial_state),
            weight=function(self.weight),
        )


def collate(unrolls: Sequence[Unroll], *, pin_memory: bool = False) -> Batch:
    """The unrolls side by side, on the CPU; in pinned memory if asked, for a copy that does not block.

    Raises ShapeMismatch where lengths or shapes differ between the unrolls.
    """

    def join(arrays: list[Array], dtype: torch.dtype | None, axis: int = 1) -> Tensor:
        tensor = torch.from_numpy(np.stack(arrays, axis=axis))
        tensor = tensor if dtype is None else tensor.to(dtype)
        return tensor.pin_memory() if pin_memory else tensor

    def field(name: str, dtype: torch.dtype | None = None, axis: int = 1) -> Tensor:
        return join([getattr(unroll, name) for unroll in unrolls], dtype, axis)

    if not unrolls:
        raise ShapeMismatch("a batch needs at least one unroll, but got none.")
    try:
        return Batch(
            observation=field("observation"),
            stack_prefix=field("stack_prefix", axis=0),
            reward=field("reward", torch.float32),
            flags=field("flags", torch.uint8),
            previous_action=field("previous_action"),
            action=field("action"),
            policy_version=field("policy_version", torch.int64),
            bootstrap_value=field("bootstrap_value", torch.float32),
            behaviour={name: join([u.behaviour[name] for u in unrolls], None) for name in unrolls[0].behaviour},
            initial_state=tuple(join(list(parts), None, 0) for parts in zip(*(u.initial_state for u in unrolls),
                                                                           strict=True)),
            weight=torch.ones(len(unrolls)),
        )
    except ValueError as error:
        shapes = sorted({tuple(unroll.observation.shape) for unroll in unrolls})
        raise ShapeMismatch(f"unrolls of one batch differ in shape ({error}); observations: {shapes}.") from error

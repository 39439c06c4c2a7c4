"""A batch of unrolls as time-major tensors. Fields and time indices are those of `workbench.trajectory`."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from workbench.algorithms.frame_stacking import stack_frames
from workbench.errors import ShapeMismatch
from workbench.trajectory import Array, Unroll, Unrolled, shaped, unroll_axis


class Sample(NamedTuple):
    """Where in a replay the B unrolls of a batch lie.

    Attributes:
        rows: int64 [B].
        serials: int64 [B], which unrolls these rows held.
        log_largest: logarithm of the largest importance weight of the batch before all were divided by it.
    """

    rows: Array
    serials: Array
    log_largest: float = 0.0


@dataclass(kw_only=True)
class Batch(Unrolled[Tensor]):
    """B unrolls of T+1 steps: what each step has is [T+1, B, ...], what each unroll has [B, ...].

    Attributes:
        weight: float32 [B], by which the unrolls' losses count; ones where each is trained on once.
        sample: where a batch from replay comes from.
        unrolls: of which it is a copy, held until it has been trained on: a device may copy later than it is told to.
        round: number of the round of epochs that it belongs to.
    """

    weight: Tensor = field(metadata=shaped(lambda spec: ((), "float32")))
    sample: Sample | None = None
    unrolls: tuple[Unroll, ...] = ()
    round: int = 0

    def stacked(self) -> Tensor:
        """The observations as a network sees them, [T+1, B, *stacked]: see `stack_frames`."""
        return stack_frames(self.observation, stack_prefix=self.stack_prefix, start=self.start)


class BatchMemory:
    """Memory for batches on the CPU: that of past ones, since new pages cost as much time as copying.

    Args:
        pinned: whether copies to the device do not block; then torch keeps the memory itself.
    """

    def __init__(self, *, pinned: bool = False) -> None:
        self._pinned = pinned
        self._free: dict[tuple[tuple[int, ...], np.dtype[np.generic]], list[Array]] = {}

    def take(self, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Tensor:
        """An uninitialised tensor; its memory comes back here once no tensor or array shares it."""
        if self._pinned:
            return torch.empty(shape, dtype=getattr(torch, dtype.name), pin_memory=True)
        free = self._free.setdefault((shape, dtype), [])
        buffer = free.pop() if free else np.empty(shape, dtype)  # in large pages, unlike torch.empty
        view = buffer[...]
        weakref.finalize(view, free.append, buffer).atexit = False
        return torch.from_numpy(view)

    def weights(self, values: Array) -> Tensor:
        """`Batch.weight` with `values` [B]."""
        weights = self.take(values.shape, np.dtype(np.float32))
        weights.numpy()[:] = values
        return weights


def collate(unrolls: Sequence[Unroll], *, memory: BatchMemory | None = None) -> Batch:
    """A copy of the unrolls side by side, on the CPU, in `memory` or memory of its own; of tensors, where they are.

    Raises ShapeMismatch where lengths or shapes differ between the unrolls.
    """
    memory = memory or BatchMemory()

    def join(arrays: list[Any], axis: int) -> Tensor:
        first = arrays[0]
        if isinstance(first, Tensor):  # on the device already
            return torch.stack(arrays, axis)
        tensor = memory.take((*first.shape[:axis], len(arrays), *first.shape[axis:]), first.dtype)
        places = tensor.numpy().swapaxes(0, axis)
        for at, array in enumerate(arrays):  # half the time of np.stack
            if array.shape != first.shape:
                raise ValueError(f"{array.shape} beside {first.shape}")
            places[at] = array
        return tensor

    if not unrolls:
        raise ShapeMismatch("a batch needs at least one unroll, but got none.")
    try:
        tensors = {name: join(arrays, unroll_axis(name)) for name, arrays in Unroll.columns(unrolls).items()}
        return Batch.of({**tensors, "weight": memory.weights(np.ones(len(unrolls)))})
    except ValueError as error:
        shapes = sorted({tuple(unroll.observation.shape) for unroll in unrolls})
        raise ShapeMismatch(f"unrolls of one batch differ in shape ({error}); observations: {shapes}.") from error

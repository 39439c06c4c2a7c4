"""A batch of unrolls as time-major tensors. Fields and time indices are those of `workbench.trajectory`."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from workbench.algorithms.frame_stacking import stack_frames
from workbench.errors import ShapeMismatch
from workbench.trajectory import Array, FieldSpec, Unroll, Unrolled, shaped, unroll_axis

_ALIGNED = 64  # bytes


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
        pinned: whether copies to the device do not block. Then torch keeps the memory itself, and the arrays of a batch
            lie in one piece of it, which a device takes by one copy.
    """

    def __init__(self, *, pinned: bool = False) -> None:
        self._pinned = pinned
        self._free: dict[tuple[tuple[int, ...], np.dtype[np.generic]], list[Array]] = {}

    def take(self, fields: Mapping[str, FieldSpec], number: int) -> dict[str, Tensor]:
        """Room for a batch of `number` unrolls: uninitialised tensors, and a `Batch.weight` of ones.

        Args:
            fields: shape and dtype of one unroll's arrays by name.
        """
        shapes, dtypes = {}, {}
        for name, (shape, dtype) in {**fields, "weight": ((), "float32")}.items():
            axis = unroll_axis(name)
            shapes[name], dtypes[name] = (*shape[:axis], number, *shape[axis:]), np.dtype(dtype)
        if self._pinned:
            tensors = _side_by_side(shapes, dtypes)
        else:
            tensors = {name: self._reused(shape, dtypes[name]) for name, shape in shapes.items()}
        tensors["weight"].fill_(1.0)
        return tensors

    def _reused(self, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Tensor:
        """An uninitialised tensor; its memory comes back here once no tensor or array shares it."""
        free = self._free.setdefault((shape, dtype), [])
        buffer = free.pop() if free else np.empty(shape, dtype)  # in large pages, unlike torch.empty
        view = buffer[...]
        weakref.finalize(view, free.append, buffer).atexit = False
        return torch.from_numpy(view)


def _side_by_side(
    shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, np.dtype[np.generic]]
) -> dict[str, Tensor]:
    """Uninitialised tensors in one piece of pinned memory, each from a multiple of `_ALIGNED` bytes on."""
    sizes = {name: math.prod(shape) * dtypes[name].itemsize for name, shape in shapes.items()}
    first = dict(zip(sizes, accumulate((-(-size // _ALIGNED) * _ALIGNED for size in sizes.values()), initial=0),
                     strict=False))
    memory = _pinned(sum(sizes.values()) + _ALIGNED * len(sizes))
    return {name: memory[first[name] : first[name] + size].view(getattr(torch, dtypes[name].name)).view(shapes[name])
            for name, size in sizes.items()}


def _pinned(size: int) -> Tensor:
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


def collate(unrolls: Sequence[Unroll], *, memory: BatchMemory | None = None) -> Batch:
    """A copy of the unrolls side by side, on the CPU, in `memory` or memory of its own; of tensors, where they are.

    Raises ShapeMismatch where lengths or shapes differ between the unrolls.
    """
    if not unrolls:
        raise ShapeMismatch("a batch needs at least one unroll, but got none.")
    columns: dict[str, list[Any]] = Unroll.columns(unrolls)
    on_device = {name: arrays for name, arrays in columns.items() if isinstance(arrays[0], Tensor)}
    here = columns.keys() - on_device.keys()
    tensors = (memory or BatchMemory()).take(
        {name: (arrays[0].shape, arrays[0].dtype) for name, arrays in columns.items() if name in here}, len(unrolls))
    try:
        for name in here:
            places = tensors[name].numpy().swapaxes(0, unroll_axis(name))
            for at, array in enumerate(columns[name]):  # half the time of np.stack
                if array.shape != places.shape[1:]:
                    raise ValueError(f"{array.shape} beside {places.shape[1:]}")
                places[at] = array
        stacked = {name: torch.stack(arrays, unroll_axis(name)) for name, arrays in on_device.items()}
        return Batch.of({**tensors, **stacked})
    except ValueError as error:
        shapes = sorted({tuple(unroll.observation.shape) for unroll in unrolls})
        raise ShapeMismatch(f"unrolls of one batch differ in shape ({error}); observations: {shapes}.") from error

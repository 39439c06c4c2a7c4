"""Several tensors in one piece of memory, so that one copy takes all of them to a device or back."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from workbench.trajectory import Array


class Packing:
    """Where tensors of these shapes and dtypes lie in the memory, uint8 [size].

    Larger items lie first, so that each tensor begins at a multiple of its item's size.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[torch.dtype]) -> None:
        self._order = sorted(range(len(shapes)), key=lambda number: -dtypes[number].itemsize)
        self._dtypes = set(dtypes)
        self._pieces = [_Piece(torch.uint8, (), (), 0)] * len(shapes)
        self.size = 0
        for number in self._order:
            shape, dtype = tuple(shapes[number]), dtypes[number]
            strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
            self._pieces[number] = _Piece(dtype, shape, strides, self.size // dtype.itemsize)
            self.size += math.prod(shape) * dtype.itemsize

    def views(self, memory: Tensor) -> list[Tensor]:
        """The tensors, which share `memory`."""
        whole = {dtype: memory[: self.size // dtype.itemsize * dtype.itemsize].view(dtype) for dtype in self._dtypes}
        return [whole[dtype].as_strided(shape, strides, first) for dtype, shape, strides, first in self._pieces]

    def arrays(self, memory: Tensor) -> list[Array]:
        """The same of memory of the host as arrays, which take a fraction of the time to make."""
        buffer = memory.numpy()
        return [np.ndarray(shape, _numpy(dtype), buffer, first * dtype.itemsize)
                for dtype, shape, _, first in self._pieces]

    def packed(self, tensors: Sequence[Tensor]) -> Tensor:
        """Memory with copies of `tensors`, on their device."""
        return torch.cat([tensors[number].contiguous().view(-1).view(torch.uint8) for number in self._order])


class _Piece(NamedTuple):
    """Of the memory; `first`: items of that dtype before it."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first: int


@functools.lru_cache(maxsize=256)  # inference asks for a few again and again
def packing_of(shapes: tuple[tuple[int, ...], ...], dtypes: tuple[torch.dtype, ...]) -> Packing:
    """The packing of tensors of these shapes and dtypes."""
    return Packing(shapes, dtypes)


@functools.cache
def _numpy(dtype: torch.dtype) -> np.dtype[np.generic]:
    return np.dtype(str(dtype).removeprefix("torch."))

"""Several tensors in one piece of memory, so that one copy takes all of them to a device or back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


class Packing:
    """Where tensors of these shapes and dtypes lie in the memory, uint8 [size].

    Larger items lie first, so that each tensor begins at a multiple of its item's size.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[torch.dtype]) -> None:
        self._shapes, self._dtypes = shapes, dtypes
        self._order = sorted(range(len(shapes)), key=lambda number: -dtypes[number].itemsize)
        self._sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in zip(shapes, dtypes, strict=True)]
        self.size = sum(self._sizes)

    def views(self, memory: Tensor) -> list[Tensor]:
        """The tensors, which share `memory`."""
        pieces = torch.split(memory, [self._sizes[number] for number in self._order])
        views = {number: piece.view(self._dtypes[number]).view(self._shapes[number])
                 for number, piece in zip(self._order, pieces, strict=True)}
        return [views[number] for number in range(len(views))]

    def packed(self, tensors: Sequence[Tensor]) -> Tensor:
        """Memory with copies of `tensors`, on their device."""
        return torch.cat([tensors[number].contiguous().view(-1).view(torch.uint8) for number in self._order])

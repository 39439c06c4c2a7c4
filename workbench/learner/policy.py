"""The weights that inference uses: whole copies of the trained network, swapped after each update.

Training changes its weights in place while inference runs in another thread. Inference therefore reads one of two
copies, and training writes the other: no batch ever sees half an update, and its policy version is exact.
"""

from __future__ import annotations

import copy
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


class PublishedPolicy:
    """Two inference copies of `network`; `publish` refreshes the spare one and swaps."""

    def __init__(self, network: nn.Module, *, version: int) -> None:
        self._source = network
        self._copies = [copy.deepcopy(network).eval().requires_grad_(False) for _ in range(2)]
        self._locks = [threading.Lock(), threading.Lock()]
        self._tensors = [_tensors(one) for one in self._copies]
        self._versions = [version, version]
        self._current = 0

    @property
    def version(self) -> int:
        """Updates made by the newest copy."""
        return self._versions[self._current]

    @torch.no_grad()
    def publish(self, version: int) -> None:
        """Make the trained network's weights, after `version` updates, those of the next inference batch."""
        spare = 1 - self._current
        with self._locks[spare]:
            for mine, theirs in zip(self._tensors[spare], _tensors(self._source), strict=True):
                torch._foreach_copy_(mine, theirs)
            self._versions[spare] = version
        self._current = spare

    @contextmanager
    def reading(self) -> Iterator[tuple[nn.Module, int]]:
        """The newest copy and its version, which stay as they are inside the block."""
        which = self._current
        with self._locks[which]:
            yield self._copies[which], self._versions[which]


def _tensors(network: nn.Module) -> list[list[torch.Tensor]]:
    """Parameters and buffers, a list for each dtype: of mixed ones a GPU would copy each by itself."""
    found = defaultdict(list)
    for tensor in (*network.parameters(), *network.buffers()):
        found[tensor.dtype].append(tensor)
    return list(found.values())

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

from workbench.networks import keep_dense_in


class PublishedPolicy:
    """Two inference copies of `network`; `publish` refreshes the spare one and swaps.

    Args:
        lower_dtype: what autocast computes in while they are read; None without autocast.
    """

    def __init__(self, network: nn.Module, *, version: int, lower_dtype: torch.dtype | None = None) -> None:
        self._copies = [copy.deepcopy(network).eval().requires_grad_(False) for _ in range(2)]
        if lower_dtype is not None:
            for one in self._copies:
                keep_dense_in(one, lower_dtype)
        self._locks = [threading.Lock(), threading.Lock()]
        self._pairs = [_pairs(one, network) for one in self._copies]
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
            for mine, theirs in self._pairs[spare]:
                torch._foreach_copy_(mine, theirs)
            self._versions[spare] = version
        self._current = spare

    @contextmanager
    def reading(self) -> Iterator[tuple[nn.Module, int]]:
        """The newest copy and its version, which stay as they are inside the block."""
        which = self._current
        with self._locks[which]:
            yield self._copies[which], self._versions[which]


def _pairs(mine: nn.Module, theirs: nn.Module) -> list[tuple[list[torch.Tensor], list[torch.Tensor]]]:
    """Parameters and buffers of both, lists for each dtype: of mixed ones a GPU would copy each by itself."""
    found: dict[tuple[torch.dtype, torch.dtype], tuple[list[torch.Tensor], list[torch.Tensor]]]
    found = defaultdict(lambda: ([], []))
    for one, other in zip(_tensors(mine), _tensors(theirs), strict=True):
        ours, others = found[one.dtype, other.dtype]
        ours.append(one)
        others.append(other)
    return list(found.values())


def _tensors(network: nn.Module) -> list[torch.Tensor]:
    return [*network.parameters(), *network.buffers()]

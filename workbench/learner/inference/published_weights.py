"""The weights that inference uses: whole copies of the trained network, swapped after each update.

Training changes its weights in place while inference runs in another thread. Inference therefore reads one of two
copies, and training writes the other: no batch ever sees half an update, and its policy version is exact. On a GPU both
only queue their work, each on a stream of its own; events then keep the order that locks keep on a CPU.
"""

from __future__ import annotations

import copy
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from workbench.learner.devices.device import Device
from workbench.networks import keep_dense_in


class PublishedPolicy:
    """Two inference copies of `network`; `publish` refreshes the spare one and swaps.

    Args:
        device: where they are read; None: where they are trained, in float32.
    """

    def __init__(self, network: nn.Module, *, version: int, device: Device | None = None) -> None:
        trained_on = next((one.device for one in _tensors(network)), torch.device("cpu"))
        self._read_on = device.torch if device else trained_on
        self._copied_on = trained_on if trained_on.type == "cuda" else self._read_on  # whose stream copies
        self._copies = [copy.deepcopy(network).eval().requires_grad_(False).to(self._read_on) for _ in range(2)]
        if device is not None and device.lower_dtype is not None:
            for one in self._copies:
                keep_dense_in(one, device.lower_dtype)
        self._written: list[torch.cuda.Event | None] = [None, None]
        self._read: list[torch.cuda.Event | None] = [None, None]
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
            _wait(self._copied_on, self._read[spare])
            for mine, theirs in self._pairs[spare]:
                torch._foreach_copy_(mine, theirs)
            self._written[spare] = _mark(self._copied_on)
            self._versions[spare] = version
        self._current = spare

    @contextmanager
    def reading(self) -> Iterator[tuple[nn.Module, int]]:
        """The newest copy and its version, which stay as they are inside the block."""
        which = self._current
        with self._locks[which]:
            _wait(self._read_on, self._written[which])
            yield self._copies[which], self._versions[which]
            self._read[which] = _mark(self._read_on)


def _mark(device: torch.device) -> torch.cuda.Event | None:
    """The place that this thread's work on a GPU has reached; None on others, which keep the order themselves."""
    return torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None


def _wait(device: torch.device, mark: torch.cuda.Event | None) -> None:
    """Let this thread's later work on `device` wait for `mark`."""
    if mark is None:
        return
    if device.type != "cuda":
        mark.synchronize()
    else:
        torch.cuda.current_stream(device).wait_event(mark)


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

"""The weights that inference uses: two copies of the trained network, swapped after each update.

Training changes its weights in place while inference runs in another thread. So inference reads one copy while training
writes the other: no batch uses half an update, and its policy version is exact. On a GPU both only queue their work,
each on its own stream; events then ensure the order that locks ensure on a CPU.
"""

from __future__ import annotations

import copy
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from workbench.algorithms.target_network import tensors_of
from workbench.learner.devices.device import Device
from workbench.networks import keep_dense_in


class PolicyCopy:
    """One copy of a network, with what was last done to it."""

    def __init__(self, module: nn.Module, network: nn.Module, version: int) -> None:
        self.module, self.version = module, version
        self.pairs = _pairs(module, network)
        self.lock = threading.Lock()
        self.written: torch.cuda.Event | None = None
        self.read: torch.cuda.Event | None = None


class PublishedPolicy:
    """Two copies of `network` on the device of inference; `publish` writes the spare one and swaps them.

    Attributes:
        copies: both.
    """

    def __init__(self, network: nn.Module, *, version: int, device: Device) -> None:
        trained_on = next((tensor.device for tensor in tensors_of(network)), torch.device("cpu"))
        self._read_on = device.torch
        self._copied_on = trained_on if trained_on.type == "cuda" else self._read_on  # whose stream copies
        modules = [copy.deepcopy(network).eval().requires_grad_(False).to(self._read_on) for _ in range(2)]
        if device.lower_dtype is not None:
            for module in modules:
                keep_dense_in(module, device.lower_dtype)
        self.copies = tuple(PolicyCopy(module, network, version) for module in modules)
        self._current, self._spare = self.copies

    @property
    def version(self) -> int:
        """Number of updates in the newest copy."""
        return self._current.version

    @torch.no_grad()
    def publish(self, version: int) -> None:
        """Let the next inference batch use the trained network's present weights, after `version` updates."""
        spare = self._spare
        with spare.lock:
            _wait(self._copied_on, spare.read)
            for copies, originals in spare.pairs:
                torch._foreach_copy_(copies, originals)
            spare.written = _record_event(self._copied_on)
            spare.version = version
        self._current, self._spare = spare, self._current

    @contextmanager
    def reading(self, which: PolicyCopy | None = None) -> Iterator[tuple[nn.Module, int]]:
        """The newest copy, or that one, and its version; neither changes inside the block."""
        read = which or self._current
        with read.lock:
            _wait(self._read_on, read.written)
            yield read.module, read.version
            read.read = _record_event(self._read_on)


def _record_event(device: torch.device) -> torch.cuda.Event | None:
    """An event after this thread's work on a GPU so far; None on other devices, which keep the order themselves."""
    return torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None


def _wait(device: torch.device, event: torch.cuda.Event | None) -> None:
    """Let this thread's later work on `device` wait for `event`."""
    if event is None:
        return
    if device.type != "cuda":
        event.synchronize()
    else:
        torch.cuda.current_stream(device).wait_event(event)


def _pairs(network: nn.Module, original: nn.Module) -> list[tuple[list[torch.Tensor], list[torch.Tensor]]]:
    """Parameters and buffers of both, in one pair of lists per dtypes: a GPU copies mixed lists tensor by tensor."""
    pairs: dict[tuple[torch.dtype, torch.dtype], tuple[list[torch.Tensor], list[torch.Tensor]]]
    pairs = defaultdict(lambda: ([], []))
    for copied, source in zip(tensors_of(network), tensors_of(original), strict=True):
        copies, sources = pairs[copied.dtype, source.dtype]
        copies.append(copied)
        sources.append(source)
    return list(pairs.values())

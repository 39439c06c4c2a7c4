"""A device of the CPU that does as a GPU does: one copy brings all arrays of a batch, one takes all tensors away, and
work is recorded, so that every replay reads and writes the same memory.

What a graph wrote is gone after the next replay, and its inputs are copies. Whoever keeps such a tensor, or changes one
beside the inputs, computes something else than plain work does; here that is seen without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from workbench.learner.devices.cuda import CudaDevice
from workbench.learner.devices.device import Device
from workbench.learner.devices.recording import WorkRecorder
from workbench.trajectory import Array


class ReplayingDevice(CudaDevice):
    """The CPU, padded, ahead of the host, packed and recorded; counts its copies from and to the host."""

    foreach, capturable = False, False

    def __init__(self, *, graphs: bool = True) -> None:
        super().__init__("cpu", precision="fp32", graphs=graphs)
        self.pads = True
        self.replays = self.records = self.placed = self.sent = 0
        self.broken = ""

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """See `Device`."""
        self.placed += 1
        return tensor.clone()

    def fetch(self, tensors: Sequence[torch.Tensor]) -> list[Array]:
        """See `Device`: there are no streams to wait for."""
        return [tensor.numpy() for tensor in self.send(tensors)()]

    def done_at(self) -> Callable[[], float]:
        """See `Device`: the work is done already."""
        return Device.done_at(self)

    def memory_gb(self) -> float:
        """See `Device`."""
        return 0.0

    total_memory_gb = memory_gb

    def own_stream(self, *, ahead: bool) -> AbstractContextManager[Any]:
        """See `Device`."""
        return nullcontext()

    def recorder(self, generator: torch.Generator | None = None) -> Replays | None:  # type: ignore[override]
        """See `Device`."""
        return Replays(self) if self._records else None

    def _pinned(self, size: int) -> torch.Tensor:
        return torch.full((size,), 0xA5, dtype=torch.uint8)  # what is not written is seen

    def _record_event(self) -> SimpleNamespace:
        self.sent += 1
        return SimpleNamespace(synchronize=lambda: None)  # the copy is made already


class Copies:
    """Fits `recording.Replay`."""

    def __init__(self, work: Callable[..., Any], inputs: Sequence[torch.Tensor], device: ReplayingDevice) -> None:
        self.inputs = [one.clone() for one in inputs]
        self._work, self._device = work, device
        self.outputs: Any = None

    def launch(self) -> None:
        """Computes into the memory that the first launch took."""
        self._device.replays += 1
        outputs = self._work(*self.inputs)
        if self.outputs is None:
            self.outputs = pytree.tree_map_only(torch.Tensor, lambda one: one.detach().clone(), outputs)
            return
        with torch.no_grad():
            for old, new in zip(pytree.tree_leaves(self.outputs), pytree.tree_leaves(outputs), strict=True):
                if isinstance(old, torch.Tensor):
                    old.copy_(new)


class Replays(WorkRecorder):
    """A device that cannot record raises what `device.broken` is."""

    def __init__(self, device: ReplayingDevice) -> None:
        super().__init__(lambda sentence: device.tell(sentence))
        self._device = device

    def _record(self, work: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> Copies:
        if self._device.broken:
            raise RuntimeError(self._device.broken)
        self._device.records += 1
        return Copies(work, inputs, self._device)

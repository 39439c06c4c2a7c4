"""A double of torch_tpu 0.2.0 (TorchTPU) on the CPU: the part of `torch.tpu` that `devices.tpu` calls, and no more.

It keeps what the package's own files say: copies to the host are under way until an event that was recorded after them
is waited for, so what is read before that is wrong here; `torch.tpu.synchronize` and `is_available` refuse callers
outside of torch; the package is loaded by `_loader.load`, and there is a TPU only after that.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

UNREAD = 0xA5  # each byte of a copy that nobody has waited for


class EagerMode(enum.Enum):
    """As torch.tpu.EagerMode."""

    DEFER_AND_FUSE = 0
    DEFER_NEVER = 1


class TpuDouble(ModuleType):
    """`torch.tpu`, with a log of its calls."""

    EagerMode = EagerMode
    __path__: list[str] = []

    def __init__(self, chips: int = 1) -> None:
        super().__init__("torch.tpu")
        self.calls: list[str] = []
        self.chips, self.loaded = chips, False
        self.eager_mode = EagerMode.DEFER_AND_FUSE
        self.precision = "medium"
        self._under_way: list[Callable[[], None]] = []

    def copy_later(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """What a copy to the host does: it reads the chip's memory now, and writes the host's when it is waited for."""
        kept = source.detach().clone()
        target.detach().contiguous().view(-1).view(torch.uint8).fill_(UNREAD)
        self._under_way.append(lambda: target.detach().copy_(kept))

    def Event(self) -> Any:
        """As torch.tpu.Event; `record` notes the copies that are under way."""
        noted: list[Callable[[], None]] = []

        def record() -> None:
            self.calls.append("record")
            noted[:] = self._under_way

        def synchronize() -> None:
            self.calls.append("synchronize")
            for finish in noted:
                finish()

        return SimpleNamespace(record=record, synchronize=synchronize)

    def get_device_properties(self) -> Any:
        """As torch.tpu.get_device_properties."""
        return SimpleNamespace(name="TPU v5e", total_memory=16 * 2**30)

    def _get_cache_misses(self) -> int:
        return 7

    def _get_cache_hits(self) -> int:
        return 3

    def synchronize(self) -> None:
        """Refuses, as the package does from torch 2.11 on."""
        raise RuntimeError("synchronize is internal to TorchTPU. Use torch.accelerator.synchronize instead.")

    def install(self, monkeypatch: Any) -> None:
        """Put it where `import torch_tpu` and torch find it."""
        loader, package = ModuleType("torch_tpu._loader"), ModuleType("torch_tpu")
        loader.load = self._load  # type: ignore[attr-defined]
        package.__path__ = []
        for name, module in (("torch_tpu", package), ("torch_tpu._loader", loader), ("torch.tpu", self)):
            monkeypatch.setitem(sys.modules, name, module)
        there = SimpleNamespace(type="tpu")
        monkeypatch.setattr(torch.accelerator, "current_accelerator",
                            lambda check_available=False: there if self.loaded else None)
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: self.chips if self.loaded else 0)
        monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda name: setattr(self, "precision", name))

    def _load(self) -> None:
        self.calls.append("load")
        self.loaded = bool(self.chips)

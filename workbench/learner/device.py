"""The accelerator: where tensors live, in which precision the network computes, with how many threads.

`cpu` and `cuda` for now. bf16 is chosen by itself for our networks that see images, on hardware with bf16 arithmetic;
weights, heads, losses and the optimizer stay float32. A user's own network computes in float32 unless asked otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from workbench.config import RunConfig
from workbench.errors import MissingPackage, OutOfBounds
from workbench.trajectory import Array, EnvironmentSpec

_SMALLEST_BATCH = 8  # rows


class Device:
    """One accelerator with its precision.

    Attributes:
        pads: whether batches are filled up to one of a few sizes, since each size costs a compilation or a CUDA graph.
    """

    def __init__(self, kind: str, *, precision: str, pads: bool | None = None) -> None:
        self.torch = torch.device(kind)
        self.kind = self.torch.type
        self.precision = precision
        self.pads = self.kind != "cpu" if pads is None else pads

    def padded(self, rows: int) -> int:
        """Rows that a batch of `rows` has on the device: the next power of two, or as many where it does not pad."""
        return max(_SMALLEST_BATCH, 1 << (rows - 1).bit_length()) if self.pads else rows

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor` on the device."""
        return tensor.to(self.torch, non_blocking=True)

    def place_rows(self, array: Array, *, fill: int = 0) -> torch.Tensor:
        """A NumPy array [N, ...] on the device, with rows of `fill` behind it up to the size that the device wants."""
        rows = self.padded(len(array))
        if self.kind == "cuda":  # from pinned memory, so that nobody waits for the copy
            ours = torch.empty((rows, *array.shape[1:]), dtype=torch.from_numpy(array[:0]).dtype, pin_memory=True)
            ours[: len(array)] = torch.from_numpy(array)
            ours[len(array) :] = fill
            return self.place(ours)
        if rows > len(array):
            array = np.concatenate([array, np.full((rows - len(array), *array.shape[1:]), fill, array.dtype)])
        return self.place(torch.from_numpy(array))

    def fetch(self, tensors: Sequence[torch.Tensor]) -> list[Array]:
        """`tensors` of this thread's stream as NumPy arrays; waits for the device once."""
        if self.kind == "cuda":
            ours = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in tensors]
            for mine, one in zip(ours, tensors, strict=True):
                mine.copy_(one, non_blocking=True)
            torch.cuda.current_stream(self.torch).synchronize()
            return [mine.numpy() for mine in ours]
        return [one.cpu().numpy() for one in tensors]

    @property
    def lower_dtype(self) -> torch.dtype | None:
        """The dtype that autocast computes in; None where all is float32."""
        return torch.bfloat16 if self.precision == "bf16" else None

    def autocast(self) -> AbstractContextManager[Any]:
        """The context in which the network computes."""
        return nullcontext() if self.lower_dtype is None else torch.autocast(self.kind, self.lower_dtype)

    def generator(self, seed: int) -> torch.Generator:
        """A random number generator of the device."""
        return torch.Generator(self.torch).manual_seed(seed)

    def memory_gb(self) -> float:
        """Memory of the accelerator in use by this process; 0 on a CPU."""
        return torch.cuda.memory_allocated() / 2**30 if self.kind == "cuda" else 0.0

    def total_memory_gb(self) -> float:
        """Memory that the accelerator has; 0 on a CPU."""
        if self.kind != "cuda":
            return 0.0
        return float(torch.cuda.get_device_properties(self.torch).total_memory / 2**30)


def choose(config: RunConfig, spec: EnvironmentSpec, *, own_network: bool = False) -> Device:
    """The device that `config` asks for. Raises OutOfBounds or MissingPackage if this machine lacks it."""
    kind = config.device
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda" and not torch.cuda.is_available():
        raise OutOfBounds("device='cuda', but torch finds no CUDA device here. Choose device='cpu' or 'auto'.")
    if kind == "xla":
        raise MissingPackage("device='xla' is not supported yet. Choose device='cpu', 'cuda' or 'auto'.")
    precision = config.precision
    if precision == "auto":
        precision = "bf16" if spec.shows_images and not own_network and _has_bf16(kind) else "fp32"
    return Device(kind, precision=precision)


def _has_bf16(kind: str) -> bool:
    if kind == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def training_threads(config: RunConfig) -> int:
    """Threads of the training loop: as asked, or half of the cores (the rest steps environments and infers)."""
    return config.learner_threads or max(1, len(os.sched_getaffinity(0)) // 2)

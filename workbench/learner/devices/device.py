"""The accelerator: where tensors live, in which precision the network computes, with how many threads.

`Device` is the CPU; `cuda` and `xla` have what they do otherwise, and `choose` says which it is. bf16 is chosen by
itself for our networks that see images, on hardware with bf16 arithmetic; weights, heads, losses and the optimizer stay
float32. A user's own network computes in float32 unless asked otherwise, and without CUDA graphs, which forbid it to
look at values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from workbench.algorithms.batch import Batch
from workbench.config import RunConfig
from workbench.learner.devices.recording import Recorder, to_log
from workbench.trajectory import Array

_SMALLEST_BATCH = 8  # rows


class Device:
    """The CPU, and what other accelerators do in their own ways, with its precision.

    Attributes:
        pads: whether batches are filled up to one of a few sizes, since each size costs a compilation or a CUDA graph.
        lags: whether it runs ahead of the host, which then guards updates on the device; see `training.trainer`.
        foreach, capturable: of the optimizer, see torch.optim.
        tell: is told what a user should know of the device, a sentence; the process's log unless someone sets it.
    """

    lags = False
    foreach, capturable = True, False

    def __init__(self, kind: str = "cpu", *, precision: str, pads: bool | None = None) -> None:
        self.torch = torch.device(kind)
        self.kind = self.torch.type
        self.precision = precision
        self.pads = self.kind != "cpu" if pads is None else pads
        self.tell: Callable[[str], None] = to_log

    def check(self, config: RunConfig) -> None:
        """Raises OutOfBounds where it cannot train as `config` says."""

    def padded(self, rows: int) -> int:
        """Rows that a batch of `rows` has on the device: the next power of two, or as many where it does not pad."""
        return max(_SMALLEST_BATCH, 1 << (rows - 1).bit_length()) if self.pads else rows

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor` on the device."""
        return tensor.to(self.torch, non_blocking=True)

    def place_rows(self, array: Array, *, fill: int = 0) -> torch.Tensor:
        """A NumPy array [N, ...] on the device, with rows of `fill` behind it up to the size that the device wants."""
        rows = self.padded(len(array))
        if rows > len(array):
            array = np.concatenate([array, np.full((rows - len(array), *array.shape[1:]), fill, array.dtype)])
        return self.place(torch.from_numpy(array))

    def place_batch(self, batch: Batch) -> Batch:
        """`batch` on the device; copied without waiting where its memory is pinned."""
        return batch.map(self.place)

    def fetch(self, tensors: Sequence[torch.Tensor]) -> list[Array]:
        """`tensors` of this thread's stream as NumPy arrays; waits for the device once."""
        return [one.cpu().numpy() for one in tensors]

    def send(self, tensors: Sequence[torch.Tensor]) -> Callable[[], list[torch.Tensor]]:
        """`tensors` on their way to the host, where they are once the function that is returned has been called."""
        return lambda: [one.cpu() for one in tensors]

    def tracing(self) -> AbstractContextManager[Any]:
        """The context in which a thread computes; on XLA one thread at a time, and a graph each."""
        return nullcontext()

    def compute_traced(self) -> None:
        """Begins to compute what was asked of it so far, which XLA has only traced where no `tracing` was around it."""

    def acting(self) -> AbstractContextManager[Any]:
        """The context of what needs no gradient."""
        return torch.inference_mode()

    def cut(self) -> None:
        """Begins another graph inside `tracing`."""

    def drawing(self, generator: torch.Generator) -> torch.Generator | None:
        """What an algorithm draws from, inside `tracing`; `generator` is what a checkpoint keeps."""
        return generator

    @property
    def lower_dtype(self) -> torch.dtype | None:
        """The dtype that autocast computes in; None where all is float32."""
        return torch.bfloat16 if self.precision == "bf16" else None

    def autocast(self) -> AbstractContextManager[Any]:
        """The context in which the network computes."""
        return nullcontext() if self.lower_dtype is None else torch.autocast(self.kind, self.lower_dtype)

    def own_stream(self, *, ahead: bool) -> AbstractContextManager[Any]:
        """A stream for this thread's work on a GPU, which begins when all work so far is done; `ahead` of others'."""
        return nullcontext()

    def recorder(self, generator: torch.Generator | None = None) -> Recorder | None:
        """What records this thread's work, which draws from `generator`; None: it is done plainly each time."""
        return None

    def generator(self, seed: int) -> torch.Generator:
        """A random number generator of the device."""
        return torch.Generator(self.torch).manual_seed(seed)

    def counters(self) -> dict[str, float]:
        """What the device counts of itself, by metric name."""
        return {}

    def memory_gb(self) -> float:
        """Memory of the accelerator in use by this process; 0 on a CPU."""
        return 0.0

    def total_memory_gb(self) -> float:
        """Memory that the accelerator has; 0 on a CPU."""
        return 0.0

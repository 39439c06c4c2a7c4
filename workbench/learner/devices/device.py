"""The device: where tensors live, and in which precision the network computes.

`Device` is the CPU; `cuda`, `tpu` and `xla` have the subclasses of other devices; `choose` chooses one. Our networks
for images compute in bf16 by default, on hardware that is faster in it; weights, heads, losses and the optimizer stay
float32. A user's own network computes in float32 unless configured otherwise. Neither it nor a user's own algorithm is
recorded in CUDA graphs, in which it could not read values and its Python would not run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any

import numpy as np
import torch

from workbench.algorithms.batch import Batch
from workbench.learner.devices.compiled_graphs import CompiledGraphs
from workbench.learner.devices.recording import WorkRecorder, to_log
from workbench.trajectory import Array

_SMALLEST_BATCH = 8  # rows


class Device:
    """The CPU, and the methods that other devices override.

    Attributes:
        pads: whether batches are padded to one of a few sizes, since each size costs a compilation or a CUDA graph.
        lags: whether the host lags behind the device, which then guards updates itself; see `training.trainer`.
        keeps_frames: whether unrolls that are used once leave their frames on the device.
        compiles: whether work of each new shape is compiled, so that what can be is compiled before the first step.
        matrices: precision of float32 products, where the device would compute them in less: "highest", or "".
        foreach, fused, capturable: of the optimizer, see torch.optim; fused: of Adam alone.
        tell: called with a sentence about the device that a user should know; writes to the process's log by default.
    """

    lags = keeps_frames = compiles = False
    foreach, fused, capturable = True, True, False
    matrices = ""
    _graphs: CompiledGraphs | None = None  # of a device that compiles, if they are kept

    def __init__(self, kind: str = "cpu", *, precision: str, pads: bool | None = None) -> None:
        self.torch = torch.device(kind)
        self.kind = self.torch.type
        self.precision = precision
        self.pads = self.kind != "cpu" if pads is None else pads
        self.tell: Callable[[str], None] = to_log

    def padded(self, rows: int) -> int:
        """Rows of a batch of `rows` on the device: the next power of two, or `rows` if it does not pad."""
        return max(_SMALLEST_BATCH, 1 << (rows - 1).bit_length()) if self.pads else rows

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor` on the device."""
        return tensor.to(self.torch, non_blocking=True)

    def row_memory(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Memory for an array that `place_rows` is to take along."""
        return np.empty(shape, dtype)

    def place_rows(self, *arrays: Array) -> list[torch.Tensor]:
        """NumPy arrays [N, ...] on the device, each padded with rows of zeros to the device's size."""
        return [self.place(torch.from_numpy(self._padded_rows(array))) for array in arrays]

    def _padded_rows(self, array: Array) -> Array:
        more = self.padded(len(array)) - len(array)
        return np.concatenate([array, np.zeros((more, *array.shape[1:]), array.dtype)]) if more else array

    def place_batch(self, batch: Batch) -> Batch:
        """`batch` on the device; copied without waiting if its memory is pinned."""
        return batch.map(self.place)

    def fetch(self, tensors: Sequence[torch.Tensor]) -> list[Array]:
        """`tensors` of this thread's stream as NumPy arrays; waits for the device once."""
        return [tensor.numpy() for tensor in self.send(tensors)()]

    def fetch_groups(self, *groups: Sequence[torch.Tensor]) -> list[list[Array]]:
        """`fetch` of all tensors at once, in their groups."""
        arrays = iter(self.fetch([tensor for group in groups for tensor in group]))
        return [list(islice(arrays, len(group))) for group in groups]

    def send(self, tensors: Sequence[torch.Tensor]) -> Callable[[], list[torch.Tensor]]:
        """Start to copy `tensors` to the host. Returns a function that waits for the copies and returns them."""
        return lambda: [tensor.cpu() for tensor in tensors]

    def done_at(self) -> Callable[[], float]:
        """Returns a function that waits for this thread's work so far, and returns when the device had done it, by
        time.perf_counter(). Of XLA and a TPU it is when the device was given the work."""
        now = time.perf_counter()
        return lambda: now

    def tracing(self) -> AbstractContextManager[Any]:
        """The context in which a thread computes; on XLA one thread at a time, each with its own graph."""
        return nullcontext()

    def compute_traced(self) -> None:
        """Start to compute operations so far; outside `tracing` XLA has only traced them."""

    def acting(self) -> AbstractContextManager[Any]:
        """The context of computation without gradients."""
        return torch.inference_mode()

    def cut(self) -> None:
        """Begin another graph inside `tracing`."""

    def drawing(self, generator: torch.Generator) -> torch.Generator | None:
        """The generator from which an algorithm draws inside `tracing`; checkpoints keep `generator` itself."""
        return generator

    @property
    def lower_dtype(self) -> torch.dtype | None:
        """The dtype in which autocast computes; None if all is float32."""
        return torch.bfloat16 if self.precision == "bf16" else None

    def autocast(self) -> AbstractContextManager[Any]:
        """The context in which the network computes."""
        return nullcontext() if self.lower_dtype is None else torch.autocast(self.kind, self.lower_dtype)

    def own_stream(self, *, ahead: bool) -> AbstractContextManager[Any]:
        """A stream for this thread's work on a GPU, after all work so far; `ahead`: with priority over the others. Its
        work is done when the context ends: what other streams then read is whole."""
        return nullcontext()

    def recorder(self, generator: torch.Generator | None = None) -> WorkRecorder | None:
        """A recorder for this thread's work, which draws from `generator`; None: the device does not record."""
        return None

    def generator(self, seed: int) -> torch.Generator:
        """A random number generator of the device."""
        return torch.Generator(self.torch).manual_seed(seed)

    def counters(self) -> dict[str, float]:
        """The device's own counters, by metric name."""
        return {}

    def checkpointed(self) -> None:
        """Called after each checkpoint: what was compiled so far is kept for a resume."""
        if self._graphs is not None:
            self._graphs.seal(self.tell)

    def memory_gb(self) -> float:
        """The accelerator's memory in use by this process; 0 on a CPU."""
        return 0.0

    def total_memory_gb(self) -> float:
        """The accelerator's total memory; 0 on a CPU."""
        return 0.0

"""A device of PyTorch/XLA: a TPU, or another device of PJRT (its CPU, for tests).

Its tensors are lazy: operations are traced into a graph, which is compiled if it is new and run as a whole. A graph
has all operations of all threads since the last step was marked. Two threads that trace at the same time cut each
other's graphs at random: each cut compiles anew, and torch_xla 2.9 often ends with "Check failed". So one thread at a
time traces, inside `tracing`, or places tensors; the device computes and values are fetched outside it.

Several chips compute as one device (SPMD): the learner's process has all chips that it sees, batches are split between
them row by row, weights and tables are the same on each, and XLA's compiler adds their communication.

Only the learner imports this, for a run on XLA: one process owns a TPU chip, and a notebook's kernel must not.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch

from workbench import imports
from workbench.algorithms.batch import Batch
from workbench.config import RunConfig
from workbench.errors import MissingPackage, OutOfBounds
from workbench.learner.devices.compiled_graphs import CompiledGraphs
from workbench.learner.devices.device import Device
from workbench.learner.devices.recording import to_log
from workbench.trajectory import Array, unroll_axis


class XlaDevice(Device):
    """The XLA device of this process: all chips that it sees.

    Args:
        kind: "xla" for the device that PJRT_DEVICE names or PJRT finds, "tpu" for a TPU only.

    Attributes:
        chips: number of PJRT's devices, which compute together.

    Raises:
        MissingPackage: torch_xla is not installed, or does not fit torch.
        OutOfBounds: there is no such device.
    """

    _lock = threading.RLock()  # of tracing: a process has one XLA device
    _depth = 0  # of `tracing` contexts of the thread that holds the lock

    def __init__(self, kind: str = "xla", *, precision: str, graphs: CompiledGraphs | None = None) -> None:
        if kind == "tpu":
            os.environ["PJRT_DEVICE"] = "TPU"
        self._xla = _package(kind)
        self._graphs = graphs
        if graphs is not None and (folder := graphs.admit(to_log)):
            self._xla.runtime.initialize_cache(str(folder))  # before anything is computed
        try:
            self.hardware = str(self._xla.runtime.device_type())
            self.chips = int(self._xla.runtime.global_runtime_device_count())
            self._mesh = self._joined() if self.chips > 1 else None
            self._xla.device()
        except Exception as error:  # torch_xla raises the errors of its runtime, of any type
            raise OutOfBounds(f"device={kind!r}, but XLA finds no device here: {error}") from error
        if kind == "tpu" and self.hardware != "TPU":
            raise OutOfBounds(f"device='tpu', but XLA finds a {self.hardware} here. Choose device='xla', 'cpu' or "
                              "'auto'.")
        super().__init__("xla", precision=precision)
        self._set_precision()

    def _set_precision(self) -> None:
        """A TPU multiplies float32 matrices in one pass of bf16 unless it is told otherwise."""
        backends = importlib.import_module("torch_xla.backends")
        if backends.get_mat_mul_precision() != self.matrices:
            logging.getLogger("torch_xla.backends").setLevel(logging.ERROR)  # it warns whenever it is set
            backends.set_mat_mul_precision(self.matrices)

    lags = compiles = True
    matrices = "highest"
    foreach, fused, capturable = False, False, True

    def check(self, config: RunConfig) -> None:
        """Raises OutOfBounds for a batch that the chips cannot share equally: XLA would end the process."""
        if (size := config.hyperparameters.batch_size) % self.chips:
            near = max(1, round(size / self.chips)) * self.chips
            raise OutOfBounds(f"batch_size={size} is shared by {self.chips} chips, but is not divisible by "
                              f"{self.chips}. Choose batch_size={near}, for example.")

    def padded(self, rows: int) -> int:
        """See `Device`; a multiple of the number of chips."""
        return -(-super().padded(rows) // self.chips) * self.chips

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """As on other devices, while no other thread ends a graph: torch_xla makes an empty tensor and copies into it,
        and a graph that ended between the two would take the empty one along, and the copy fail."""
        with XlaDevice._lock:
            return super().place(tensor)

    def place_rows(self, *arrays: Array) -> list[torch.Tensor]:
        """See `Device`; each chip has a part of the rows."""
        return [self._split(tensor, 0) for tensor in super().place_rows(*arrays)]

    def place_batch(self, batch: Batch) -> Batch:
        """See `Device`; each chip has a part of the unrolls."""
        batch = super().place_batch(batch)
        for name, tensor in batch.arrays().items():
            self._split(tensor, unroll_axis(name))
        return batch

    def _split(self, tensor: torch.Tensor, axis: int) -> torch.Tensor:
        """Split `tensor` between the chips along `axis`, and return it."""
        if self._mesh is not None and tensor.numel():
            partition = tuple("chips" if dimension == axis else None for dimension in range(tensor.ndim))
            with XlaDevice._lock:
                self._spmd.mark_sharding(tensor, self._mesh, partition)
        return tensor

    def _joined(self) -> Any:
        """The mesh of all chips, which compute as one device from now on."""
        self._xla.runtime.use_spmd()
        return self._spmd.Mesh(np.arange(self.chips), (self.chips,), ("chips",))

    @property
    def _spmd(self) -> Any:
        return importlib.import_module("torch_xla.distributed.spmd")

    @contextmanager
    def _traced(self) -> Iterator[None]:
        with XlaDevice._lock:
            XlaDevice._depth += 1
            try:
                yield
            finally:
                XlaDevice._depth -= 1
            if not XlaDevice._depth:
                self._xla.sync()

    def tracing(self) -> AbstractContextManager[Any]:
        """A context whose operations become one graph, which the device starts at the end of the outermost context."""
        return self._traced()

    def compute_traced(self) -> None:
        """See `Device`."""
        with self._traced():
            pass

    def acting(self) -> AbstractContextManager[Any]:
        """See `Device`; torch_xla cannot compute with tensors of torch's inference mode."""
        return torch.no_grad()

    def cut(self) -> None:
        """End a graph inside `tracing`, so that its shapes do not multiply with those of the next graph."""
        self._xla.sync()

    def drawing(self, generator: torch.Generator) -> None:
        """Seed the device from `generator`: XLA has no generators."""
        seed = int(torch.randint(2**31, (), generator=generator))
        self._xla.manual_seed(seed)

    def generator(self, seed: int) -> torch.Generator:
        """A generator of the CPU; see `drawing`."""
        return torch.Generator().manual_seed(seed)

    def fetch(self, tensors: Sequence[torch.Tensor]) -> list[Array]:
        """`tensors` of a `tracing` that has ended as NumPy arrays; waits for the device once."""
        return [tensor.numpy() for tensor in self._xla._XLAC._xla_get_cpu_tensors(list(tensors))]

    def counters(self) -> dict[str, float]:
        """Graphs compiled so far, graphs that a former life of the run had compiled, and operations that XLA lacks and
        the CPU computed."""
        metrics = self._metrics
        compiled, cached = metrics.metric_data("CompileTime"), metrics.counter_value("PersistentCacheHit")
        fallbacks = sum(metrics.counter_value(name) for name in metrics.counter_names() if name.startswith("aten::"))
        return {"xla_compilations": float(compiled[0] if compiled else 0), "xla_cached": float(cached or 0),
                "xla_fallbacks": float(fallbacks)}

    def memory_gb(self) -> float:
        """The chip's memory in use; 0 if XLA does not report it, as for several chips."""
        return self._memory("bytes_used")

    def total_memory_gb(self) -> float:
        """The chip's total memory; 0 if XLA does not report it."""
        return self._memory("bytes_limit")

    def _memory(self, name: str) -> float:
        if self.hardware != "TPU" or self.chips > 1:
            return 0.0
        info = self._xla.core.xla_model.get_memory_info(self.torch)
        return float(info.get(name, 0)) / 2**30

    @property
    def _metrics(self) -> Any:
        return importlib.import_module("torch_xla.debug.metrics")


def _package(kind: str) -> Any:
    """torch_xla."""
    try:
        return importlib.import_module("torch_xla")
    except ModuleNotFoundError as error:
        raise imports.missing_xla(kind) from error
    except (ImportError, OSError) as error:  # built for another torch
        remedy = imports.xla_remedy()
        raise MissingPackage(f"torch_xla does not fit torch {torch.__version__}: {error}. {remedy}") from error

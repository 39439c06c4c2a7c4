"""A device of PyTorch/XLA: a TPU, or any other that PJRT drives (its CPU, for tests).

Tensors there are lazy: operations are traced into a graph, which is compiled when it is new and run as a whole. A graph
is whatever was traced since the last step was marked, by whichever thread. Two threads that trace at the same time
cut each other's graphs at random: each cut compiles anew, and torch_xla 2.9 often ends with "Check failed". So a
thread traces inside `tracing`, one at a time; the device computes and values are fetched outside it.

Several chips compute as one device (SPMD): the learner's process has all chips that it sees, batches are split between
them row by row, weights and tables are the same on each, and XLA's compiler puts in what they tell each other.

Imported by the learner alone, when a run asks for it: one process owns a TPU chip, and a notebook's kernel must not.
"""

from __future__ import annotations

import importlib
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
from workbench.learner.devices.device import Device
from workbench.trajectory import Array, unroll_axis


class XlaDevice(Device):
    """The XLA device of this process: one chip, or all that it sees.

    Args:
        kind: "xla" for the one that PJRT_DEVICE names or that there is, "tpu" for nothing but a TPU.

    Attributes:
        chips: devices of PJRT that compute together.

    Raises:
        MissingPackage: torch_xla is not installed, or does not fit torch.
        OutOfBounds: there is no such device.
    """

    _lock = threading.RLock()  # of tracing: a process has one XLA device
    _depth = 0  # of contexts that its holder is in

    def __init__(self, kind: str = "xla", *, precision: str) -> None:
        if kind == "tpu":
            os.environ["PJRT_DEVICE"] = "TPU"
        self._xla = _package(kind)
        try:
            found = str(self._xla.runtime.device_type())
            self.chips = int(self._xla.runtime.global_runtime_device_count())
            self._mesh = self._together() if self.chips > 1 else None
            self._xla.device()
        except Exception as error:  # torch_xla raises whatever its runtime says
            raise OutOfBounds(f"device={kind!r}, but XLA finds no device here: {error}") from error
        if kind == "tpu" and found != "TPU":
            raise OutOfBounds(f"device='tpu', but XLA finds a {found} here. Choose device='xla', 'cpu' or 'auto'.")
        super().__init__("xla", precision=precision)
        self.hardware = found

    lags = True
    foreach, capturable = False, True

    def check(self, config: RunConfig) -> None:
        """Raises OutOfBounds for a batch that does not divide by the chips: at one, XLA ends the process."""
        if (size := config.hyperparameters.batch_size) % self.chips:
            near = max(1, round(size / self.chips)) * self.chips
            raise OutOfBounds(f"batch_size={size} is shared by {self.chips} chips, and does not divide by them. Choose "
                              f"batch_size={near}, for example.")

    def padded(self, rows: int) -> int:
        """As on other devices, and a multiple of the chips."""
        return -(-super().padded(rows) // self.chips) * self.chips

    def place_rows(self, array: Array, *, fill: int = 0) -> torch.Tensor:
        """As on other devices; each chip has its part of the rows."""
        return self._split(super().place_rows(array, fill=fill), 0)

    def place_batch(self, batch: Batch) -> Batch:
        """As on other devices; each chip has its part of the unrolls."""
        placed = super().place_batch(batch)
        for name, tensor in placed.arrays().items():
            self._split(tensor, unroll_axis(name))
        return placed

    def _split(self, tensor: torch.Tensor, axis: int) -> torch.Tensor:
        """`tensor`, split between the chips along `axis`."""
        if self._mesh is not None and tensor.numel():
            partition = tuple("chips" if one == axis else None for one in range(tensor.ndim))
            self._spmd.mark_sharding(tensor, self._mesh, partition)
        return tensor

    def _together(self) -> Any:
        """The mesh of all chips, which from now on compute as one device."""
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
        """What is computed inside becomes one graph, which is under way at the end of the outermost such context."""
        return self._traced()

    def compute_traced(self) -> None:
        """See `Device`."""
        with self._traced():
            pass

    def acting(self) -> AbstractContextManager[Any]:
        """The context of what needs no gradient; torch_xla cannot compute with tensors of torch's inference mode."""
        return torch.no_grad()

    def cut(self) -> None:
        """Ends a graph inside `tracing`, so that the shapes in it do not multiply with those of what follows."""
        self._xla.sync()

    def drawing(self, generator: torch.Generator) -> None:
        """Seeds the device by `generator`: XLA takes no generators."""
        seed = int(torch.randint(2**31, (), generator=generator))
        self._xla.manual_seed(seed)

    def generator(self, seed: int) -> torch.Generator:
        """A generator of the CPU, see `drawing`."""
        return torch.Generator().manual_seed(seed)

    def fetch(self, tensors: Sequence[torch.Tensor]) -> list[Array]:
        """`tensors`, which were computed in a `tracing` that is over, as NumPy arrays; waits for the device once."""
        return [one.numpy() for one in self._xla._XLAC._xla_get_cpu_tensors(list(tensors))]

    def counters(self) -> dict[str, float]:
        """Graphs compiled so far, and operations that XLA does not know and the CPU computed."""
        metrics = self._metrics
        compiled = metrics.metric_data("CompileTime")
        fallbacks = sum(metrics.counter_value(name) for name in metrics.counter_names() if name.startswith("aten::"))
        return {"xla_compilations": float(compiled[0] if compiled else 0), "xla_fallbacks": float(fallbacks)}

    def memory_gb(self) -> float:
        """Memory of the chip in use; 0 where XLA does not tell, as of several chips."""
        return self._memory("bytes_used")

    def total_memory_gb(self) -> float:
        """Memory that the chip has; 0 where XLA does not tell."""
        return self._memory("bytes_limit")

    def _memory(self, name: str) -> float:
        if self.hardware != "TPU" or self.chips > 1:
            return 0.0
        told = self._xla.core.xla_model.get_memory_info(self.torch)
        return float(told.get(name, 0)) / 2**30

    @property
    def _metrics(self) -> Any:
        return importlib.import_module("torch_xla.debug.metrics")


def for_run(config: RunConfig, *, precision: str) -> XlaDevice:
    """The device of the one learner of a run. Raises what `XlaDevice` raises, and OutOfBounds for what it cannot do."""
    if config.learners > 1:
        raise OutOfBounds(f"learners={config.learners} with device={config.device!r}: one learner drives all chips of "
                          f"its machine. Choose learners=1, or device='cuda' or 'cpu'.")
    if config.inference_device:
        raise OutOfBounds(f"inference_device={config.inference_device!r} with device={config.device!r}: inference runs "
                          f"in the process that owns the chip, on that chip. Leave it out.")
    device = XlaDevice(config.device, precision=precision)
    device.check(config)
    return device


def _package(kind: str) -> Any:
    """torch_xla."""
    try:
        return importlib.import_module("torch_xla")
    except ModuleNotFoundError as error:
        raise MissingPackage(f"device={kind!r} needs torch_xla, which is not installed. {_remedy()}") from error
    except (ImportError, OSError) as error:  # built for another torch
        raise MissingPackage(f"torch_xla does not fit torch {torch.__version__}: {error}. {_remedy()}") from error


def _remedy() -> str:
    return (f"It needs a Python environment of its own (docs/tpu.md), with the workbench and: "
            f"{imports.pip_install('tpu')}. Or choose another device.")

"""A TPU chip by way of torch_tpu (TorchTPU), which has an interface like CUDA's: `torch.tpu` and `torch.accelerator`.

As `CudaDevice`, as far as the interfaces of version 0.2.0 agree. Copies to the host are asynchronous, and an event
waits for them. The chip has one stream, whose `wait` orders nothing, since work is ordered by what it reads and writes;
so threads share that stream. There are no graphs to record: operations run one by one (`EagerMode.DEFER_NEVER`, in
which no thread's operations join another's), each compiled once for each shape. So batches are padded as on XLA.

Only the learner imports torch_tpu, for a run on a TPU: the chip belongs to one process. torch would load it in every
process that imports torch; `TORCH_DEVICE_BACKEND_AUTOLOAD=0` prevents that, and this module loads it itself.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from workbench import imports
from workbench.errors import MissingPackage, OutOfBounds
from workbench.learner.devices.compiled_graphs import CompiledGraphs
from workbench.learner.devices.device import Device
from workbench.learner.devices.recording import to_log

CACHE_VARIABLE = "TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT"  # read when the first graph is compiled


class TpuDevice(Device):
    """The TPU chip that this process sees first.

    Raises:
        MissingPackage: torch_tpu is not installed, or does not fit torch.
        OutOfBounds: there is no TPU. torch_tpu itself would end the process at the first tensor.
    """

    lags = compiles = True
    foreach, fused, capturable = False, False, True
    matrices = "highest"

    def __init__(self, kind: str = "tpu", *, precision: str, graphs: CompiledGraphs | None = None) -> None:
        self._graphs = graphs
        if graphs is not None and (folder := graphs.admit(to_log)):
            os.environ[CACHE_VARIABLE] = str(folder)
        self._tpu = _package()
        super().__init__(kind, precision=precision, pads=True)
        self._tpu.eager_mode = self._tpu.EagerMode.DEFER_NEVER
        torch.set_float32_matmul_precision(self.matrices)  # torch_tpu's own, of matrices and convolutions on the chip

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """See `Device`; returns when the tensor's memory has been read, which may change then."""
        return tensor.to(self.torch)

    def acting(self) -> AbstractContextManager[Any]:
        """See `Device`; torch_tpu does not document torch's inference mode."""
        return torch.no_grad()

    def send(self, tensors: Sequence[torch.Tensor]) -> Callable[[], list[torch.Tensor]]:
        """See `Device`; all copies are under way at once, and one event waits for them."""
        copies = self._copies(tensors)
        event = self._tpu.Event()
        event.record()  # notes the copies to the host that are under way

        def arrived() -> list[torch.Tensor]:
            event.synchronize()
            return copies

        return arrived

    def _copies(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Tensors of the host into which those of the chip are being copied."""
        copies = [torch.empty_like(tensor, device="cpu", requires_grad=False) for tensor in tensors]
        with torch.no_grad():
            for copy, tensor in zip(copies, tensors, strict=True):
                copy.copy_(tensor, non_blocking=True)
        return copies

    def counters(self) -> dict[str, float]:
        """Operations compiled so far, for each shape, and those that a cache had."""
        return {"xla_compilations": float(self._tpu._get_cache_misses()),
                "xla_cached": float(self._tpu._get_cache_hits())}

    def total_memory_gb(self) -> float:
        """The chip's memory; 0 of a chip that torch_tpu does not know. What of it is in use torch_tpu does not say."""
        try:
            return float(self._tpu.get_device_properties().total_memory / 2**30)
        except RuntimeError:
            return 0.0


def _package() -> Any:
    """`torch.tpu`, of a TPU that is there."""
    warnings.filterwarnings("ignore", message=".*ExperimentalApi")  # a part of the interface may change
    try:
        importlib.import_module("torch_tpu._loader").load()  # as its entry point of torch.backends says
    except ModuleNotFoundError as error:
        raise imports.missing_xla("tpu") from error
    except (ImportError, OSError) as error:  # built for another torch
        raise MissingPackage(f"torch_tpu does not fit torch {torch.__version__}: {error}. "
                             f"{imports.torch_tpu_remedy()}") from error
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None or accelerator.type != "tpu" or not torch.accelerator.device_count():
        raise OutOfBounds("device='tpu', but torch_tpu finds no TPU here. Choose device='cpu' or 'auto'.")
    return importlib.import_module("torch.tpu")

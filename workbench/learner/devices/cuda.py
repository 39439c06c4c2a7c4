"""A GPU of NVIDIA's: streams, pinned memory and CUDA graphs.

Inference and training each queue their work on a stream of their own, so that neither waits for the other's kernels. At
a batch of 64 a network's kernels take less time than Python takes to launch them: so what a batch or an update does is
recorded as a graph for each shape of its inputs, and launched as one. Copies go through pinned memory, and the host
waits only where it needs actions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from workbench.learner.devices.device import Device
from workbench.trajectory import Array

_WARM_UPS = 3  # libraries choose their kernels and take their memory in the first runs, which are plain ones


class CudaDevice(Device):
    """One GPU.

    Args:
        graphs: whether work is recorded. It must not look at values then, nor depend on anything that changes but
            its inputs, which our own networks keep to.
    """

    lags = True
    capturable = True

    def __init__(self, kind: str = "cuda", *, precision: str, graphs: bool = True) -> None:
        super().__init__(kind, precision=precision)
        self._records = graphs

    def place_rows(self, array: Array, *, fill: int = 0) -> Tensor:
        """See `Device`; nobody waits for the copy."""
        given = torch.from_numpy(array)
        ours = torch.empty((self.padded(len(array)), *array.shape[1:]), dtype=given.dtype, pin_memory=True)
        ours[: len(array)] = given
        ours[len(array) :] = fill
        return self.place(ours)

    def fetch(self, tensors: Sequence[Tensor]) -> list[Array]:
        """See `Device`. A thread without a stream of its own waits for all streams."""
        if torch.cuda.current_stream(self.torch) == torch.cuda.default_stream(self.torch):
            torch.cuda.synchronize(self.torch)
        return [one.numpy() for one in self.send(tensors)()]

    def send(self, tensors: Sequence[Tensor]) -> Callable[[], list[Tensor]]:
        """See `Device`; what this thread asks for later is not waited for."""
        ours = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in tensors]
        for mine, one in zip(ours, tensors, strict=True):
            mine.copy_(one, non_blocking=True)
        there = torch.cuda.current_stream(self.torch).record_event()

        def arrived() -> list[Tensor]:
            there.synchronize()
            return ours

        return arrived

    @contextmanager
    def own_stream(self, *, ahead: bool) -> Iterator[None]:
        """See `Device`."""
        torch.cuda.synchronize(self.torch)
        with torch.cuda.stream(torch.cuda.Stream(self.torch, priority=-1 if ahead else 0)):  # type: ignore[no-untyped-call]
            yield

    def recorder(self, generator: torch.Generator | None = None) -> Graphs | None:
        """See `Device`."""
        return Graphs(generator) if self._records else None

    def memory_gb(self) -> float:
        """Memory of the GPU in use by this process."""
        return torch.cuda.memory_allocated(self.torch) / 2**30

    def total_memory_gb(self) -> float:
        """Memory that the GPU has."""
        return float(torch.cuda.get_device_properties(self.torch).total_memory / 2**30)


class Recorded(NamedTuple):
    """A graph, and the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    outputs: Any


class Graphs:
    """Graphs of one thread, on its own stream. Fits `device.Recorder`.

    Args:
        generator: of the random numbers that the work draws, if it draws any; each replay draws new ones.
    """

    def __init__(self, generator: torch.Generator | None) -> None:
        self._generator = generator
        self._depends_on: tuple[object, ...] = ()
        self._runs: dict[Hashable, int] = {}
        self._recorded: dict[Hashable, Recorded] = {}

    def run(
        self, work: Callable[..., Any], inputs: Sequence[Tensor], *, key: Hashable, depends_on: tuple[object, ...]
    ) -> Any:
        """See `device.Recorder`."""
        if self._depends_on != depends_on:
            self._depends_on = depends_on
            self._runs.clear()
            self._recorded.clear()
        key = (key, *(one.shape for one in inputs))
        self._runs[key] = runs = self._runs.get(key, 0) + 1
        if runs <= _WARM_UPS:
            return work(*inputs)
        if key not in self._recorded:
            self._recorded[key] = self._record(work, inputs)
        found = self._recorded[key]
        for mine, given in zip(found.inputs, inputs, strict=True):
            mine.copy_(given, non_blocking=True)
        found.graph.replay()
        return found.outputs

    def _record(self, work: Callable[..., Any], inputs: Sequence[Tensor]) -> Recorded:
        """Nothing is computed yet."""
        mine = [one.clone() for one in inputs]
        graph = torch.cuda.CUDAGraph()
        if self._generator is not None:
            graph.register_generator_state(self._generator)
        stream = torch.cuda.current_stream(mine[0].device)
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):  # other threads go on
            outputs = work(*mine)
        return Recorded(graph, mine, outputs)

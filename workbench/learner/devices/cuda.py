"""A GPU of NVIDIA's: streams, pinned memory and CUDA graphs.

Inference and training each queue their work on a stream of their own, so that neither waits for the other's kernels. At
a batch of 64 a network's kernels take less time than Python takes to launch them: so what a batch or an update does is
recorded as a graph for each shape of its inputs, and launched as one. Copies go through pinned memory, and the host
waits only where it needs actions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from workbench.learner.devices.device import Device
from workbench.learner.devices.recording import Recorder
from workbench.trajectory import Array

# One graph is recorded at a time, and nobody waits for the whole device meanwhile: that would spoil the recording.
_ALONE = threading.Lock()


class CudaDevice(Device):
    """One GPU.

    Args:
        graphs: whether work is recorded, which asks of it what `recording.Recorder.run` says; our own networks keep
            to that.
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
            self._synchronize()
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
        self._synchronize()
        with torch.cuda.stream(torch.cuda.Stream(self.torch, priority=-1 if ahead else 0)):  # type: ignore[no-untyped-call]
            yield

    def recorder(self, generator: torch.Generator | None = None) -> Graphs | None:
        """See `Device`."""
        return Graphs(generator, tell=lambda sentence: self.tell(sentence)) if self._records else None

    def _synchronize(self) -> None:
        """Wait for all that any thread has asked of the device."""
        with _ALONE:
            torch.cuda.synchronize(self.torch)

    def memory_gb(self) -> float:
        """Memory of the GPU in use by this process."""
        return torch.cuda.memory_allocated(self.torch) / 2**30

    def total_memory_gb(self) -> float:
        """Memory that the GPU has."""
        return float(torch.cuda.get_device_properties(self.torch).total_memory / 2**30)


class Graph(NamedTuple):
    """Fits `recording.Replay`."""

    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    outputs: Any

    def launch(self) -> None:
        """See `recording.Replay`."""
        self.graph.replay()


class Graphs(Recorder):
    """Graphs of one thread, on its own stream.

    Args:
        generator: of the random numbers that the work draws, if it draws any; each replay draws new ones.
    """

    def __init__(self, generator: torch.Generator | None, *, tell: Callable[[str], None]) -> None:
        super().__init__(tell)
        self._generator = generator

    def _record(self, work: Callable[..., Any], inputs: Sequence[Tensor]) -> Graph:
        mine = [one.clone() for one in inputs]
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream(mine[0].device)
        drawing = torch.cuda.default_generators[stream.device_index]
        generators = [drawing] if self._generator is None else [drawing, self._generator]
        with _ALONE:
            before = [one.get_state() for one in generators]
            if self._generator is not None:
                graph.register_generator_state(self._generator)
            try:
                with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):  # other threads go on
                    outputs = work(*mine)
            except RuntimeError:
                for one, state in zip(generators, before, strict=True):
                    _begin_anew(one, state)
                raise
        return Graph(graph, mine, outputs)


def _begin_anew(generator: torch.Generator, state: Tensor) -> None:
    """Free a generator of a graph that was never finished, inside which it waits for ever."""
    fresh = torch.Generator(generator.device)
    fresh.set_state(state)
    generator.graphsafe_set_state(fresh.graphsafe_get_state())

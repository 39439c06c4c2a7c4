"""An NVIDIA GPU: streams, pinned memory and CUDA graphs.

Inference and training each queue their work on their own stream, so that neither waits for the other's kernels. At a
batch of 64 a network's kernels take less time than Python takes to launch them: so the work of a batch or an update is
recorded as a graph per shape of its inputs, and launched as a whole. Copies go through pinned memory, and the host
waits only for actions.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from workbench.algorithms.batch import Batch
from workbench.learner.devices.device import Device
from workbench.learner.devices.packing import Packing, packing_of
from workbench.learner.devices.recording import WorkRecorder
from workbench.trajectory import Array

# One graph is recorded at a time, and no thread waits for the whole device meanwhile, which would break the recording.
_RECORDING = threading.Lock()
_LARGE = 2**17  # bytes: to copy as much once more takes the host as long as to start another copy to the device


class CudaDevice(Device):
    """One GPU.

    Args:
        graphs: whether work is recorded, with the restrictions of `WorkRecorder.run`, which our own networks keep.
    """

    lags = keeps_frames = True
    fused, capturable = False, True

    def __init__(self, kind: str = "cuda", *, precision: str, graphs: bool = True) -> None:
        super().__init__(kind, precision=precision)
        self._records = graphs

    def row_memory(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """See `Device`; pinned, so that a large array needs no second copy on the host."""
        size = math.prod(shape) * dtype.itemsize
        return self._pinned(size).numpy().view(dtype).reshape(shape) if size >= _LARGE else np.empty(shape, dtype)

    def place_rows(self, *arrays: Array) -> list[Tensor]:
        """See `Device`; one copy of all but those of large `row_memory`, none of which it waits for."""
        straight = [self._straight(array) if array.nbytes >= _LARGE else None for array in arrays]
        packed = iter(self._packed_rows([array for array, rows in zip(arrays, straight, strict=True) if rows is None]))
        return [next(packed) if rows is None else rows for rows in straight]

    def _straight(self, array: Array) -> Tensor | None:
        """The rows of pinned memory on the device, padded there; None of other memory."""
        rows = torch.from_numpy(array)
        if not rows.is_pinned():
            return None
        placed = torch.zeros((self.padded(len(rows)), *rows.shape[1:]), dtype=rows.dtype, device=self.torch)
        placed[: len(rows)].copy_(rows, non_blocking=True)
        return placed

    def _packed_rows(self, arrays: Sequence[Array]) -> list[Tensor]:
        packing = packing_of(tuple((self.padded(len(array)), *array.shape[1:]) for array in arrays),
                             tuple(getattr(torch, array.dtype.name) for array in arrays))
        memory = self._pinned(packing.size)
        for rows, array in zip(packing.arrays(memory), arrays, strict=True):
            rows[: len(array)] = array
            rows[len(array) :] = 0
        return packing.views(self.place(memory))

    def place_batch(self, batch: Batch) -> Batch:
        """See `Device`; one copy of all arrays that share memory, as those of a pinned `BatchMemory` do."""
        pieces: dict[int, torch.UntypedStorage] = {}  # on the device, by their addresses here

        def placed(tensor: Tensor) -> Tensor:
            if tensor.device.type != "cpu":  # frames that acting has left there
                return tensor
            piece = tensor.untyped_storage()
            if (address := piece.data_ptr()) not in pieces:
                pieces[address] = self.place(torch.empty(0, dtype=torch.uint8).set_(piece)).untyped_storage()
            return torch.empty(0, dtype=tensor.dtype, device=self.torch).set_(
                pieces[address], tensor.storage_offset(), tensor.shape, tensor.stride())

        return batch.map(placed)

    def fetch(self, tensors: Sequence[Tensor]) -> list[Array]:
        """See `Device`. A thread without its own stream waits for all streams."""
        if torch.cuda.current_stream(self.torch) == torch.cuda.default_stream(self.torch):
            self._synchronize()
        packing, memory, event = self._sent(tensors)
        event.synchronize()
        return packing.arrays(memory)

    def send(self, tensors: Sequence[Tensor]) -> Callable[[], list[Tensor]]:
        """See `Device`; one copy of all, and does not wait for later work of this thread."""
        packing, memory, event = self._sent(tensors)

        def arrived() -> list[Tensor]:
            event.synchronize()
            return packing.views(memory)

        return arrived

    def _sent(self, tensors: Sequence[Tensor]) -> tuple[Packing, Tensor, torch.cuda.Event]:
        """How `tensors` lie in which memory of the host, once the event has come."""
        packing = packing_of(tuple(tensor.shape for tensor in tensors), tuple(tensor.dtype for tensor in tensors))
        memory = self._pinned(packing.size).copy_(packing.packed(tensors), non_blocking=True)
        return packing, memory, self._record_event()

    def done_at(self) -> Callable[[], float]:
        """See `Device`. The GPU's clock is read once more on a stream without work, when the host's is read too."""
        done = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        done.record(torch.cuda.current_stream(self.torch))

        def at() -> float:
            done.synchronize()
            now = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            read_at = time.perf_counter()
            now.record(self._idle)
            now.synchronize()
            since_ms: float = done.elapsed_time(now)
            return read_at - max(0.0, since_ms) / 1e3

        return at

    @cached_property
    def _idle(self) -> torch.cuda.Stream:
        return torch.cuda.Stream(self.torch)  # type: ignore[no-untyped-call]

    def _pinned(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def _record_event(self) -> torch.cuda.Event:
        event: torch.cuda.Event = torch.cuda.current_stream(self.torch).record_event()
        return event

    @contextmanager
    def own_stream(self, *, ahead: bool) -> Iterator[None]:
        """See `Device`."""
        self._synchronize()
        stream = torch.cuda.Stream(self.torch, priority=-1 if ahead else 0)  # type: ignore[no-untyped-call]
        try:
            with torch.cuda.stream(stream):
                yield
        except BaseException:
            with suppress(RuntimeError):  # a device that failed says so again, in the place of who named the cause
                stream.synchronize()
            raise
        stream.synchronize()

    def recorder(self, generator: torch.Generator | None = None) -> GraphRecorder | None:
        """See `Device`."""
        return GraphRecorder(generator, tell=lambda sentence: self.tell(sentence)) if self._records else None

    def _synchronize(self) -> None:
        """Wait for the work of all threads on the device."""
        with _RECORDING:
            torch.cuda.synchronize(self.torch)

    def memory_gb(self) -> float:
        """See `Device`."""
        return torch.cuda.memory_allocated(self.torch) / 2**30

    def total_memory_gb(self) -> float:
        """See `Device`."""
        return float(torch.cuda.get_device_properties(self.torch).total_memory / 2**30)


class RecordedGraph(NamedTuple):
    """A `recording.Replay`."""

    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    outputs: Any

    def launch(self) -> None:
        """See `recording.Replay`."""
        self.graph.replay()


class GraphRecorder(WorkRecorder):
    """Records the work of one thread as graphs, on its own stream.

    Args:
        generator: of the work's random numbers, if any; each replay draws new ones.
    """

    def __init__(self, generator: torch.Generator | None, *, tell: Callable[[str], None]) -> None:
        super().__init__(tell)
        self._generator = generator

    def _record(self, work: Callable[..., Any], inputs: Sequence[Tensor]) -> RecordedGraph:
        copies = [tensor.clone() for tensor in inputs]
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream(copies[0].device)
        default = torch.cuda.default_generators[stream.device_index]
        generators = [default] if self._generator is None else [default, self._generator]
        with _RECORDING:
            states = [generator.get_state() for generator in generators]
            if self._generator is not None:
                graph.register_generator_state(self._generator)
            try:
                with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):  # other threads go on
                    outputs = work(*copies)
            except RuntimeError:
                for generator, state in zip(generators, states, strict=True):
                    _release(generator, state)
                raise
        return RecordedGraph(graph, copies, outputs)


def _release(generator: torch.Generator, state: Tensor) -> None:
    """Detach a generator from a graph whose recording failed, which would block it for ever, and restore its state."""
    fresh = torch.Generator(generator.device)
    fresh.set_state(state)
    generator.graphsafe_set_state(fresh.graphsafe_get_state())

"""The storage of the replay's unrolls: one array per field with a row per unroll, in memory or in files of the run.

In memory, the system allocates pages when rows are first written. On disk all space is reserved at once, so that a full
disk is an error at the start and not a crash (SIGBUS) hours later. The files have no names, so they vanish with the
process, however it ends; only checkpoints last.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import tempfile
import weakref
from pathlib import Path

import numpy as np

from workbench.algorithms.batch import Batch, BatchMemory, Sample
from workbench.errors import OutOfBounds, ShapeMismatch, StorageFailed
from workbench.replay.unroll_fields import UnrollLayout
from workbench.trajectory import Array, Unroll, unroll_axis

_LARGE_BYTES = 1024  # of one value, from which on it is copied directly to its place


class UnrollStorage:
    """Room for `capacity` unrolls.

    Args:
        pin_memory: whether batches are in pinned memory.

    Attributes:
        fields: the arrays by field, each [capacity, ...] with the shapes of `UnrollLayout.fields`.
    """

    def __init__(
        self, layout: UnrollLayout, *, capacity: int, folder: Path | None = None, pin_memory: bool = False
    ) -> None:
        """Reserve the room: in memory, or on the disk in `folder`, which is created if necessary.

        Raises:
            OutOfBounds: the system refuses the memory.
            StorageFailed: the disk has no room.
        """
        self.layout = layout
        self.capacity = capacity
        self._expected = {name: (shape, np.dtype(dtype)) for name, (shape, dtype) in layout.fields.items()}
        self._batches = BatchMemory(pinned=pin_memory)
        self._files = {} if folder is None else self._on_disk(folder)
        try:
            self.fields = {name: self._files[name].array if name in self._files else np.zeros((capacity, *shape), dtype)
                           for name, (shape, dtype) in self._expected.items()}
        except MemoryError as error:
            raise OutOfBounds(f"no memory for the replay: {self._size}. Set a smaller replay_size or "
                              "replay_storage='disk'.") from error

    @property
    def _size(self) -> str:
        size_gb = self.capacity * self.layout.unroll_bytes / 2**30
        return f"{self.capacity:,} unrolls of {self.layout.unroll_bytes:,} bytes need {size_gb:,.3g} GiB"

    def _on_disk(self, folder: Path) -> dict[str, _MappedFile]:
        free = ""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            free = f", {shutil.disk_usage(folder).free / 2**30:,.3g} GiB are free"
            return {name: _MappedFile(folder, (self.capacity, *shape), dtype)
                    for name, (shape, dtype) in self._expected.items() if np.prod(shape)}
        except OSError as error:
            raise StorageFailed(
                f"cannot reserve the replay in {folder}: {error.strerror or error}; {self._size}{free}. Make room on "
                "that disk, or set a smaller replay_size or replay_storage='memory'."
            ) from error

    def write(self, row: int, unroll: Unroll) -> None:
        """Put `unroll` into `row`.

        Raises:
            ShapeMismatch: it has another layout; nothing is written then.
            StorageFailed: the disk failed.
        """
        arrays = unroll.arrays()
        self._check(arrays)
        try:
            for name, array in arrays.items():
                if name in self._files:
                    self._files[name].write(row, array)
                else:
                    self.fields[name][row] = array
        except OSError as error:
            raise StorageFailed(f"cannot write to the replay's files: {error.strerror}. Look at that disk, or set "
                                "replay_storage='memory'.") from error

    def _check(self, arrays: dict[str, Array]) -> None:
        if arrays.keys() != self._expected.keys():
            raise ShapeMismatch(f"an unroll and its replay differ in {sorted(arrays.keys() ^ self._expected.keys())}.")
        for name, (shape, dtype) in self._expected.items():
            array = arrays[name]
            if array.shape != shape or array.dtype != dtype:
                raise ShapeMismatch(f"{name} of an unroll is {array.dtype} {list(array.shape)}, but the replay holds "
                                    f"{dtype} {list(shape)}.")

    def gather(self, rows: Array, *, weight: Array | None = None, sample: Sample | None = None) -> Batch:
        """A copy of the unrolls in `rows`, int [B], which may repeat; with weights [B], or ones.

        If none of them has a final observation, the table of those has no place, [B, 0, ...].
        """
        for file in self._files.values():
            file.expect(rows)
        has_finals = "final_step" in self.fields and self.fields["final_step"][rows].any()
        tensors = self._batches.take(
            self.layout.fields if has_finals else self.layout.fields_without_finals, len(rows))
        for name in self._expected.keys() - ([] if has_finals else self.layout.finals):
            field, axis, out = self.fields[name], unroll_axis(name), tensors[name].numpy()
            if field[(0,) * (axis + 1)].nbytes < _LARGE_BYTES:
                np.copyto(out, field[rows].swapaxes(0, axis))
            else:
                np.stack([field[row] for row in rows], axis=axis, out=out)
        if weight is not None:
            tensors["weight"].numpy()[:] = weight
        return Batch.of(tensors, sample=sample)

    def set_states(self, rows: Array, states: tuple[Array, ...]) -> None:
        """Replace the recurrent states of the unrolls in `rows`, int [K], by `states`, each float32 [K, ...].

        Raises ShapeMismatch for states of another shape, and then writes nothing.
        """
        expected = [(len(rows), *shape) for shape in self.layout.state_shapes]
        shapes = [state.shape for state in states]
        if shapes != expected:
            raise ShapeMismatch(f"recurrent states of shapes {shapes} for {len(rows)} unrolls that keep {expected}.")
        for part, state in enumerate(states):
            self.fields[f"state.{part}"][rows] = state

    def close(self) -> None:
        """Free memory or disk once no view of an array is left. Nothing can be read afterwards."""
        self.fields.clear()
        self._files.clear()
        self._batches = BatchMemory()


class _MappedFile:
    """Zeros [capacity, ...] in a file without a name, mode 0600, all of whose space is reserved.

    Rows are read through the mapping, but written by system calls: a first write to a mapped page would read it from
    the disk.
    """

    def __init__(self, folder: Path, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> None:
        self._row_bytes = int(np.prod(shape[1:])) * dtype.itemsize
        size = shape[0] * self._row_bytes
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            self._map = mmap.mmap(file.fileno(), size)
            self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)
        self.array: Array = np.frombuffer(self._map, dtype).reshape(shape)

    def write(self, row: int, value: Array) -> None:
        """Put `value` into `row`. Raises OSError."""
        data = np.ascontiguousarray(value).data
        if os.pwrite(self._descriptor, data, row * self._row_bytes) < self._row_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def expect(self, rows: Array) -> None:
        """Start to read `rows` from disk in parallel, if they are not in memory; page after page would be slow."""
        for start in (rows * self._row_bytes).tolist():
            page = start - start % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, page, start - page + self._row_bytes)

"""The protocol between a process of `spread` and its parent: shared memory, and messages of the pipe."""

from __future__ import annotations

import io
import mmap
import os
from math import prod

import numpy as np

from workbench.environment_spec import EnvironmentSpec
from workbench.environments.contract import Array
from workbench.trajectory import StepBatch

STEP, RESET, FRAME, LAST_FRAME, LAST_OBSERVATION = (bytes([number]) for number in range(5))  # commands
DONE, FAILED = b"\0", b"\1"  # first byte of an answer; a value, or an error as JSON, follows


class SpreadRows:
    """Arrays of all rows in one shared memory.

    Attributes:
        step: the fields of a step, each [N, ...].
        final: [N, *frame], true final observations where flags are TRUNCATED; elsewhere undefined.
    """

    def __init__(self, fd: int, spec: EnvironmentSpec, num_envs: int) -> None:
        shapes = {"actions": (spec.actions.shape, spec.actions.dtype),
                  "final": (spec.observation_shape, spec.observation_dtype), **StepBatch.specs(spec)}
        sizes = [_aligned(num_envs * prod(shape) * np.dtype(dtype).itemsize) for shape, dtype in shapes.values()]
        if os.fstat(fd).st_size == 0:
            os.ftruncate(fd, sum(sizes))
        memory, begin = mmap.mmap(fd, sum(sizes)), 0
        arrays: dict[str, Array] = {}
        for (name, (shape, dtype)), size in zip(shapes.items(), sizes, strict=True):
            arrays[name] = np.ndarray((num_envs, *shape), dtype, memory, begin)
            begin += size
        self.actions, self.final = arrays.pop("actions"), arrays.pop("final")
        self.step = StepBatch.of(arrays)


def _aligned(size: int) -> int:
    return -(-max(size, 1) // 64) * 64


def packed(array: Array | None) -> bytes:
    """An array, or None, as bytes for `unpacked`."""
    file = io.BytesIO()
    if array is not None:
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def unpacked(data: bytes) -> Array | None:
    """The array, or None, from bytes of `packed`."""
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False) if data else None

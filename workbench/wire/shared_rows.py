"""Steps and actions in memory that an actor shares with the learner of its machine.

The memory has a row for each environment of the actor, and belongs to one life of it. The actor writes a group's step
into the group's rows, and then sends its header on a socket; the learner reads the rows in place, writes the actions
into them, and sends a header back. Between the two headers the rows are the learner's. It trusts none of them: headers
and indices are copied before they are checked, and the memory cannot shrink. `wire.handover` is how both get it.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import struct
import time

import numpy as np

from workbench.environment_spec import EnvironmentSpec
from workbench.errors import ShapeMismatch
from workbench.trajectory import Array, FieldSpec, StepBatch
from workbench.wire.messages import STEP_HEADER_BYTES, GroupActions, GroupStep, StepHeader

LARGEST_PACKET = 256  # bytes of a header, as it is read
_OLDEST_S = 60.0  # when a step was sent
_ALIGNED_BYTES = 64
_SENT = struct.Struct("<d")  # follows the header of a step: when it was sent, on the clock of time.perf_counter


class SharedRows:
    """The rows of an actor's `environments`, in the memory of that descriptor, which may be closed afterwards."""

    def __init__(self, descriptor: int, spec: EnvironmentSpec, environments: int) -> None:
        self._environments, self._action_dtype = environments, spec.actions.dtype
        memory = mmap.mmap(descriptor, size_of(spec, environments))
        arrays: dict[str, Array] = {}
        offset = 0
        for name, (shape, dtype) in _fields(spec).items():
            count = environments * math.prod(shape)
            arrays[name] = np.frombuffer(memory, dtype, count, offset).reshape(environments, *shape)
            offset += _aligned(arrays[name].nbytes)
        self._final_index, self._final_observation = arrays.pop("final_index"), arrays.pop("final_observation")
        self._actions = arrays.pop("actions")
        self._steps = arrays

    def write(self, message: GroupStep) -> bytes:
        """Write a group's step into its rows. Returns the header to send. Raises ShapeMismatch if it does not fit."""
        step, first = message.step, message.first_env
        arrays, count, finals = step.arrays(), len(step.reward), len(step.final_index)
        for name, table in self._steps.items():
            _fill(table[first : first + count], arrays.get(name), name)
        if finals:
            self._final_index[first : first + finals] = step.final_index
            _fill(self._final_observation[first : first + finals], step.final_observation, "final_observation")
        return message.header() + _SENT.pack(time.perf_counter())

    def read(self, packet: bytes) -> tuple[GroupStep, float]:
        """The step of a sent header, as views of the rows, and when it was sent, by time.perf_counter().

        Raises ShapeMismatch if the header's numbers, or the indices in the rows, are out of bounds.
        """
        header = StepHeader.decode(packet)
        group, finals, count, first, *times = header
        if len(packet) != STEP_HEADER_BYTES + _SENT.size:
            raise ShapeMismatch(f"the header of a step in shared memory does not fit: it has {len(packet)} bytes.")
        if first + count > self._environments or finals > count:
            raise ShapeMismatch(f"group {group} has environments {first} to {first + count - 1}, {finals} of them with "
                                f"final observations; that is beyond the actor's {self._environments}.")
        index = self._final_index[first : first + finals].astype(np.int32)  # a copy, which nobody changes any more
        header.check_finals(index)
        step = StepBatch.of({name: table[first : first + count] for name, table in self._steps.items()},
                            final_index=index,
                            final_observation=self._final_observation[first : first + finals] if finals else None)
        now, (sent,) = time.perf_counter(), _SENT.unpack_from(packet, STEP_HEADER_BYTES)
        return GroupStep(group, first, step, *times), sent if 0 <= now - sent <= _OLDEST_S else now

    def write_actions(self, actions: GroupActions, first_env: int) -> bytes:
        """Write a group's actions into its rows. Returns the header to send."""
        self._actions[first_env : first_env + len(actions.actions)] = actions.actions
        return actions.header(first_env)

    def read_actions(self, packet: bytes) -> GroupActions:
        """A copy of the actions of a sent header. Raises ShapeMismatch if it is none."""
        group, first, count, version = GroupActions.decode_header(packet)
        return GroupActions(group, self._actions[first : first + count].astype(self._action_dtype), version)


def _fill(rows: Array, values: Array | None, name: str) -> None:
    """Write `values` into rows of a table. Raises ShapeMismatch where an environment gives other ones than it said."""
    if values is None or values.size != rows.size or not (
            values.dtype == rows.dtype or values.dtype.kind == rows.dtype.kind == "f"):
        given = "nothing" if values is None else f"{values.shape} {values.dtype}"
        raise ShapeMismatch(f"the environment's {name} does not fit its description: {rows.shape} {rows.dtype} "
                            f"expected, but it gave {given}.")
    rows[:] = values.reshape(rows.shape)


def create(spec: EnvironmentSpec, environments: int) -> int:
    """The descriptor of new memory for so many rows. It has no name, cannot shrink, and goes with its last user."""
    descriptor = os.memfd_create("workbench-steps", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size_of(spec, environments))
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def size_of(spec: EnvironmentSpec, environments: int) -> int:
    """Bytes of memory for so many rows; pages that nobody writes take none."""
    return sum(_aligned(environments * math.prod(shape) * np.dtype(dtype).itemsize)
               for shape, dtype in _fields(spec).values())


def _fields(spec: EnvironmentSpec) -> dict[str, FieldSpec]:
    """Shape and dtype of an environment's row, by name."""
    return {**StepBatch.specs(spec), "final_index": ((), "<u2"),
            "final_observation": (spec.observation_shape, spec.observation_dtype),
            "actions": (spec.actions.shape, spec.actions.wire_dtype)}


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED_BYTES) * _ALIGNED_BYTES

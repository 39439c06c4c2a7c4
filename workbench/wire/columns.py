"""Arrays packed one after the other into one string of bytes, with a table that says what is where.

Plain enough for a browser: little-endian, each array at a multiple of 8 bytes, and only the types that JavaScript has
typed arrays for. widgets/src/columns.js reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.errors import ShapeMismatch
from workbench.trajectory import Array

TYPES = ("uint8", "int32", "uint32", "float32", "float64")
_ALIGNED_BYTES = 8


def pack(columns: Mapping[str, Array]) -> tuple[list[dict[str, Any]], bytes]:
    """The table (JSON: name, dtype, shape, offset of every column) and the bytes. Raises ShapeMismatch for a type."""
    table: list[dict[str, Any]] = []
    parts: list[bytes] = []
    offset = 0
    for name, column in columns.items():
        kind = str(column.dtype)
        if kind not in TYPES:
            raise ShapeMismatch(f"column {name!r} is {kind}; it must be one of {', '.join(TYPES)}.")
        data = np.ascontiguousarray(column, column.dtype.newbyteorder("<")).tobytes()
        table.append({"name": name, "dtype": kind, "shape": list(column.shape), "offset": offset})
        padding = -len(data) % _ALIGNED_BYTES
        parts += [data, bytes(padding)]
        offset += len(data) + padding
    return table, b"".join(parts)


def unpack(table: Sequence[Mapping[str, Any]], data: bytes) -> dict[str, Array]:
    """The columns that `pack` was given."""
    return {
        one["name"]: np.frombuffer(
            data, np.dtype(one["dtype"]).newbyteorder("<"), count=int(np.prod(one["shape"])), offset=one["offset"]
        ).reshape(one["shape"])
        for one in table
    }

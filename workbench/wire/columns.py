"""Arrays packed one after the other into one string of bytes, and the table of their places in it.

A browser can read it (widgets/src/columns.js): little-endian, each array at a multiple of 8 bytes, and only types for
which JavaScript has typed arrays.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.errors import ShapeMismatch
from workbench.trajectory import Array

TYPES = ("uint8", "int32", "uint32", "float32", "float64")
_ALIGNED_BYTES = 8


def pack(columns: Mapping[str, Array]) -> tuple[list[dict[str, Any]], bytes]:
    """The table (JSON: name, dtype, shape, offset of each column) and the bytes. Raises ShapeMismatch for a dtype."""
    table: list[dict[str, Any]] = []
    parts: list[bytes] = []
    offset = 0
    for name, column in columns.items():
        dtype = str(column.dtype)
        if dtype not in TYPES:
            raise ShapeMismatch(f"column {name!r} is {dtype}; it must be one of {', '.join(TYPES)}.")
        data = np.ascontiguousarray(column, column.dtype.newbyteorder("<")).tobytes()
        table.append({"name": name, "dtype": dtype, "shape": list(column.shape), "offset": offset})
        padding = -len(data) % _ALIGNED_BYTES
        parts += [data, bytes(padding)]
        offset += len(data) + padding
    return table, b"".join(parts)


def unpack(table: Sequence[Mapping[str, Any]], data: bytes) -> dict[str, Array]:
    """The inverse of `pack`."""
    return {
        row["name"]: np.frombuffer(
            data, np.dtype(row["dtype"]).newbyteorder("<"), count=int(np.prod(row["shape"])), offset=row["offset"]
        ).reshape(row["shape"])
        for row in table
    }


def sent(columns: Mapping[str, Array]) -> dict[str, Any]:
    """As `pack`, in JSON: the table is "columns", the bytes are "packed", compressed by zlib and then in base64."""
    table, data = pack(columns)
    return {"columns": table, "packed": base64.b64encode(zlib.compress(data, 1)).decode()}


def received(answer: Mapping[str, Any]) -> dict[str, Array]:
    """The inverse of `sent`."""
    return unpack(answer["columns"], zlib.decompress(base64.b64decode(answer["packed"])))

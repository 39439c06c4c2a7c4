"""The safetensors format, streamed: arrays are written in chunks, and read mapped into memory.

    8 bytes   length of the header, little-endian
    header    JSON, padded with spaces: {name: {"dtype", "shape", "data_offsets": [begin, end]}}
    data      the arrays one after the other, in C order, little-endian; offsets count from here

The arrays with the largest items come first, so that each is aligned to its dtype.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidInput
from workbench.rundir.files import buffer

Tensors = dict[str, npt.NDArray[Any]]

_CODES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
    "uint64": "U64", "int64": "I64", "float16": "F16", "float32": "F32", "float64": "F64",
}  # fmt: skip
_DTYPES = {code: np.dtype(name).newbyteorder("<") for name, code in _CODES.items()}
_CHUNK_BYTES = 8 * 2**20
LARGEST_HEADER = 2**24  # bytes; a hundred thousand arrays
_MOST_AXES = 32


@dataclass(frozen=True)
class Content:
    """Arrays to write; at most a chunk of them is copied at a time."""

    header: bytes
    arrays: tuple[npt.NDArray[Any], ...]

    @classmethod
    def of(cls, group: str, tensors: Mapping[str, npt.NDArray[Any]]) -> Content:
        """The content of the file of `group`. Raises InvalidInput for a dtype that the format does not have."""
        arrays = {name: np.asarray(tensor) for name, tensor in tensors.items()}
        for name, array in arrays.items():
            if array.dtype.name not in _CODES:
                raise InvalidInput(f"tensor {name!r} of group {group!r} has dtype {array.dtype}, which a checkpoint "
                                   "cannot hold. Convert it, for example to float32.")
        ordered = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
        header, begin = {}, 0
        for name in ordered:
            array, end = arrays[name], begin + arrays[name].nbytes
            header[name] = {"dtype": _CODES[array.dtype.name], "shape": array.shape, "data_offsets": [begin, end]}
            begin = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return cls(len(text).to_bytes(8, "little") + text, tuple(arrays[name] for name in ordered))

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return len(self.header) + sum(array.nbytes for array in self.arrays)

    def write(self, file: BinaryIO) -> str:
        """Write the file. Returns the SHA-256 of its bytes, in hexadecimal."""
        digest = hashlib.sha256(self.header)
        file.write(self.header)
        for array in self.arrays:
            for chunk in _chunks(array):
                digest.update(chunk)
                file.write(chunk)
        return digest.hexdigest()


def _chunks(array: npt.NDArray[Any]) -> Iterator[memoryview]:
    """The array's bytes in C order, little-endian, whatever its strides and byte order."""
    parts = np.nditer(  # type: ignore[call-overload, unused-ignore]  # NumPy's stubs misspell "contig"
        array, flags=["external_loop", "buffered", "zerosize_ok"], op_flags=[["readonly", "contig"]], order="C",
        op_dtypes=[array.dtype.newbyteorder("<")], casting="equiv", buffersize=max(1, _CHUNK_BYTES // array.itemsize),
    )
    for part in parts:
        yield memoryview(part.view(np.uint8))


def read(file: BufferedReader) -> Tensors:
    """The arrays of a file by name, read-only, mapped into memory if no other user can write it. Deletion spares them.

    Raises ValueError for any other file: the arrays must fill it, one after the other, so that none reaches beyond it
    and a small file cannot hold many.
    """
    memory = buffer(file)
    start = 8 + int.from_bytes(memory[:8], "little")
    if start > min(len(memory), 8 + LARGEST_HEADER):
        raise ValueError(f"its header would have {start - 8:,} bytes, of the file's {len(memory):,}")
    try:
        header = json.loads(memory[8:start])
        places = {name: _ArrayPlace(**entry) for name, entry in header.items() if name != "__metadata__"}
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"its header is no table of arrays: {error}") from None
    _check_places(places, len(memory) - start)
    return {name: np.ndarray(tuple(place.shape), _DTYPES[place.dtype], memory, start + place.begin)
            for name, place in places.items()}


@dataclass(frozen=True)
class _ArrayPlace:
    """One array of a header."""

    dtype: str
    shape: list[int]
    data_offsets: list[int]

    def __post_init__(self) -> None:
        if type(self.dtype) is not str or self.dtype not in _DTYPES:
            raise ValueError(f"no array has dtype {str(self.dtype)[:20]!r}")
        if not (_sizes(self.shape) and len(self.shape) <= _MOST_AXES):
            raise ValueError(f"no array has shape {str(self.shape)[:100]}")
        if not (_sizes(self.data_offsets) and len(self.data_offsets) == 2):
            raise ValueError(f"no array has offsets {str(self.data_offsets)[:100]}")
        if math.prod(self.shape) * _DTYPES[self.dtype].itemsize != self.end - self.begin:
            raise ValueError(f"an array of shape {self.shape} and dtype {self.dtype} has not {self.end - self.begin:,} "
                             "bytes")

    @property
    def begin(self) -> int:
        return self.data_offsets[0]

    @property
    def end(self) -> int:
        return self.data_offsets[1]


def _sizes(numbers: object) -> bool:
    return isinstance(numbers, list) and all(type(number) is int and 0 <= number < 2**63 for number in numbers)


def _check_places(places: Mapping[str, _ArrayPlace], size: int) -> None:
    """Raises ValueError unless the arrays are the `size` bytes of data, one after the other."""
    at = 0
    for name, place in sorted(places.items(), key=lambda item: item[1].data_offsets):
        if place.begin != at:
            raise ValueError(f"array {name[:100]!r} begins at {place.begin:,}, and the one before ends at {at:,}")
        at = place.end
    if at != size:
        raise ValueError(f"its arrays have {at:,} bytes, and its data {size:,}")

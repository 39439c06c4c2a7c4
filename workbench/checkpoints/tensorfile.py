"""The safetensors format, streamed: arrays go to the disk in chunks and come back as a memory map.

    8 bytes   length of the header, little-endian
    header    JSON, padded with spaces: {name: {"dtype", "shape", "data_offsets": [begin, end]}}
    data      the arrays one after the other, in C order, little-endian; offsets count from here

The arrays with the largest items come first, so that each lies where its dtype wants it.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from workbench.errors import InvalidInput

Tensors = dict[str, npt.NDArray[Any]]

_CODES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32",
    "uint64": "U64", "int64": "I64", "float16": "F16", "float32": "F32", "float64": "F64",
}  # fmt: skip
_DTYPES = {code: np.dtype(name).newbyteorder("<") for name, code in _CODES.items()}
_CHUNK_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Content:
    """Arrays about to be written; nothing of them is copied before, and no more than a chunk while they are."""

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
        """Write everything. The SHA-256 of what was written, in hexadecimal."""
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


def mapped(file: BinaryIO) -> Tensors:
    """The arrays of a file by name, mapped into memory and read-only; they outlive the file's name.

    Raises ValueError, TypeError, KeyError or AttributeError where it is no such file.
    """
    memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    start = 8 + int.from_bytes(memory[:8], "little")
    header = json.loads(memory[8:start])
    return {name: _array(memory, start, **entry) for name, entry in header.items() if name != "__metadata__"}


def _array(memory: mmap.mmap, start: int, dtype: str, shape: list[int], data_offsets: list[int]) -> npt.NDArray[Any]:
    begin, end = data_offsets
    array: npt.NDArray[Any] = np.ndarray(tuple(shape), _DTYPES[dtype], buffer=memory, offset=start + begin)
    if array.nbytes != end - begin:
        raise ValueError(f"an array of shape {shape} and dtype {dtype} has {end - begin} bytes")
    return array

"""Frames as encoded pictures in one file: PNG is lossless, JPEG is small for 3-D scenes.

Measured at 210x160: Atari takes 0.7 to 1.3 kB and 0.6 ms a frame as PNG, 4 to 11 kB and 0.4 ms as JPEG of quality 90
with full colour resolution (4:4:4; halved, the one-pixel sprites of Atari lose their colour).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image

from workbench.errors import EnvironmentFailed, StorageFailed
from workbench.rundir.files import buffer, opened
from workbench.trajectory import Array

JPEG_QUALITY = 90
LARGEST_SIDE = 4096  # pixels: larger frames are not drawn, and would take seconds to decode
MIME = {"PNG": "image/png", "JPEG": "image/jpeg"}


def as_png(frame: Array) -> bytes:
    """A frame, uint8 [H, W, 3], as PNG."""
    return _encoded(frame, "PNG")


def as_jpeg(frame: Array) -> bytes:
    """A frame, uint8 [H, W, 3], as JPEG of quality 90, 4:4:4."""
    return _encoded(frame, "JPEG", quality=JPEG_QUALITY, subsampling=0)


def _encoded(frame: Array, kind: str, **options: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(frame)).save(file, kind, **options)
    return file.getvalue()


class PictureWriter:
    """Writes frames of one size to a file; `ends` are the offsets behind each frame."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._shape: tuple[int, ...] = ()
        self.kind = ""
        self.ends: list[int] = []

    def append(self, frame: Array) -> bytes:
        """Write a frame, uint8 [H, W, 3], and return it encoded. Raises EnvironmentFailed if its shape changed."""
        if not self._shape:
            self._shape = frame.shape
            self.kind = "PNG" if len(as_png(frame)) <= len(as_jpeg(frame)) else "JPEG"
        if frame.shape != self._shape:
            raise EnvironmentFailed(f"the environment drew a frame of shape {frame.shape} after frames of "
                                    f"{self._shape}; all frames of an episode must have one shape.")
        picture = as_png(frame) if self.kind == "PNG" else as_jpeg(frame)
        self._file.write(picture)
        self.ends.append((self.ends[-1] if self.ends else 0) + len(picture))
        return picture

    def flush(self) -> None:
        """Write buffered data. Raises OSError on a full disk."""
        self._file.flush()


class StoredFrames:
    """Frames in a file, decoded on access: `frames[t]` is uint8 [H, W, 3], a slice [n, H, W, 3]."""

    def __init__(self, path: Path, *, ends: Sequence[int], kind: str) -> None:
        with opened(path) as file:
            self._memory = buffer(file)
        if not ends or ends[-1] > len(self._memory):
            raise ValueError(f"{path} has {len(self._memory)} bytes, too few for {len(ends)} frames")
        self._bounds = [0, *ends]
        self.mime, self._kind = MIME[kind], kind

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def encoded(self, index: int) -> bytes:
        """Frame `index` as it is stored: bytes of type `mime`."""
        index = range(len(self))[index]
        return self._memory[self._bounds[index] : self._bounds[index + 1]]

    def __getitem__(self, index: int | slice) -> Array:
        if isinstance(index, slice):
            return np.stack([self[t] for t in range(len(self))[index]])
        try:
            picture = Image.open(io.BytesIO(self.encoded(index)), formats=[self._kind])
            if max(picture.size) > LARGEST_SIDE:
                raise ValueError(f"it has {picture.size[0]:,} x {picture.size[1]:,} pixels")
            return np.asarray(picture.convert("RGB"))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise StorageFailed(f"frame {index} of a rollout is damaged: {error!s:.200}. Delete its folder.") from None

    def __iter__(self) -> Iterator[Array]:
        return (self[index] for index in range(len(self)))

    def __array__(self, dtype: np.dtype[np.generic] | None = None, copy: bool | None = None) -> Array:
        return self[:].astype(dtype or np.uint8, copy=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """(T+1, H, W, 3)."""
        return len(self), *self[0].shape

"""Observations split into their parts, as `networks.normalization` does on the device, and as pictures. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from workbench.environment_spec import ACTION_MASK, EnvironmentSpec, Part
from workbench.trajectory import Array

_Each = TypeVar("_Each")
Observation = Array | dict[str, Array]

# Colours of the planes of an observation that is no picture: Okabe & Ito's that stand out from black, then the same
# darker, then paler. widgets/src/pixels.js has the same.
_BRIGHT = ((86, 180, 233), (230, 159, 0), (255, 255, 255), (240, 228, 66), (0, 158, 115), (213, 94, 0), (204, 121, 167),
           (0, 114, 178))
PLANES = np.array([
    *_BRIGHT, *((55 * r // 100, 55 * g // 100, 55 * b // 100) for r, g, b in _BRIGHT),
    *((r + (255 - r) // 2, g + (255 - g) // 2, b + (255 - b) // 2) for r, g, b in _BRIGHT if r + g + b < 765),
])
MOST_ENTRIES = 32  # of a vector that the page draws: ENTRIES in widgets/src/bars.js


class Drawable(NamedTuple):
    """The drawable content of observations.

    Attributes:
        values: uint8 [..., channels, height, width] of an image, or float32 [..., entries].
        names: of the entries; () of an image.
    """

    values: Array
    names: tuple[str, ...]


def decode(rows: Array, parts: Sequence[Part]) -> Observation:
    """The parts of rows uint8 [..., bytes]: arrays [..., *shape] by name; bits become 0 or 255.

    A single part named "" returns its array; without parts the rows are returned unchanged.
    """
    decoded = by_name(rows, parts)
    return decoded[""] if list(decoded) == [""] else decoded


def by_name(rows: Array, parts: Sequence[Part]) -> dict[str, Array]:
    """The same as arrays by name in any case; that of an observation of one array is ""."""
    if not parts:
        return {"": rows}
    decoded, begin = {}, 0
    for part in parts:
        wire = rows[..., begin : begin + part.wire_bytes]
        begin += part.wire_bytes
        decoded[part.name] = _decoded(wire, part).reshape(*rows.shape[:-1], *part.shape)
    return decoded


def _decoded(wire: Array, part: Part) -> Array:
    if part.dtype == "uint8":
        return wire
    if part.dtype == "float32":
        return np.ascontiguousarray(wire).view("<f4").astype(np.float32, copy=False)
    values = int(np.prod(part.shape))
    return np.unpackbits(wire, axis=-1, count=values) * np.uint8(255)


def encode(values: Mapping[str, Array], parts: Sequence[Part]) -> Array:
    """One row uint8 [bytes] of the values of parts by name: the inverse of `decode`; what is not 0 is a set bit."""
    wires = []
    for part in parts:
        flat = np.ascontiguousarray(values[part.name]).reshape(-1)
        wires.append(np.packbits(flat != 0) if part.dtype == "bits" else
                     flat.astype("<f4" if part.dtype == "float32" else "u1", copy=False).view(np.uint8))
    return np.concatenate(wires)


def shown(parts: Mapping[str, _Each]) -> dict[str, _Each]:
    """Of what is given of each part, by name, that of those that people see: of all but a mask of actions, unless there
    is nothing else."""
    return {name: each for name, each in parts.items() if name != ACTION_MASK} or dict(parts)


def drawable(rows: Array, *, parts: Sequence[Part] = ()) -> Drawable:
    """The drawable content of observations [N, *frame]: the first image among their parts, or all numbers in a row, but
    for a mask of actions, which their scores show."""
    seen = shown(by_name(rows, parts))
    for values in seen.values():
        if values.ndim == 4 and values.dtype == np.uint8:
            return Drawable(values, ())
    flat = {name: values.reshape(len(values), -1).astype(np.float32) for name, values in seen.items()}
    names = tuple(f"{name or 'x'}[{entry}]" for name, values in flat.items() for entry in range(values.shape[1]))
    return Drawable(np.concatenate(list(flat.values()), axis=1), names)


def on_page(rows: Array, *, parts: Sequence[Part]) -> Drawable:
    """As `drawable`, with at most MOST_ENTRIES numbers of a vector, which is what the page draws."""
    values, names = drawable(rows, parts=parts)
    return Drawable(values[:, :MOST_ENTRIES] if names else values, names[:MOST_ENTRIES])


def picture_of(row: Array, spec: EnvironmentSpec) -> Array | None:
    """One observation [*frame] as a picture, uint8 [H, W, 3]; None where no part of it is an image."""
    values = drawable(row[None], parts=spec.parts).values[0]
    return picture(values) if values.ndim == 3 else None


def picture(image: Array) -> Array:
    """An image, uint8 [channels, height, width], as uint8 [H, W, 3]: one channel is grey, three are colours.

    More channels are planes, each in its own colour. If all values are 0 or 255, a pixel that is lit in several planes
    takes the colour of the plane with the fewest lit pixels (a ball before a pitch); otherwise colours are blended.
    """
    channels = len(image)
    if channels in (1, 3):
        return np.ascontiguousarray(np.broadcast_to(image, (3, *image.shape[1:])).transpose(1, 2, 0))
    colours = PLANES[np.arange(channels) % len(PLANES)]
    if not np.isin(image, (0, 255)).all():
        blended: Array = (image[..., None] / 255 * colours[:, None, None]).max(0).astype(np.uint8)
        return blended
    lit = image != 0
    rarest = np.where(lit, lit.sum((1, 2))[:, None, None], np.iinfo(np.int64).max).argmin(0)
    return np.where(lit.any(0)[..., None], colours[rarest], 0).astype(np.uint8)


def area_matrix(old: int, new: int) -> Array:
    """The matrix float32 [new, old] that shrinks an axis of a picture: the share of old pixel i in new pixel j.

    Rows add up to 1: every new pixel is the mean of the area that it covers.
    """
    edges = np.arange(new + 1) * old / new
    low, high = np.maximum(edges[:-1, None], np.arange(old)), np.minimum(edges[1:, None], np.arange(old) + 1)
    shares: Array = (np.maximum(high - low, 0) * new / old).astype(np.float32)
    return shares

"""Football's planes (SMM): a player's observation, packed to bits for the wire, and drawn for people.

Four planes of 72x96, each 0 or 255: left team, right team, ball, active player (Kurach et al. 2020, arXiv 1907.11180,
section 3.3). Both engines return them channels last; a network gets them channels first.
"""

from __future__ import annotations

import numpy as np

from workbench.environment_spec import Part
from workbench.environments.contract import Array
from workbench.environments.observations import decode

PLANES = Part("", (4, 72, 96), "bits")
_CHANNEL = np.array([1, 1 << 8, 1 << 16, 1 << 24], "<u4")[:, None]  # its byte of a pixel read as one number

_CELL = 6  # pixels of the picture per cell of a plane
_MARGIN = 12
_GRASS, _LINE = (40, 92, 52), (150, 186, 156)
# Okabe and Ito's colours, which colour-blind people can distinguish; the ball is white.
_LEFT, _RIGHT, _BALL, _ACTIVE = (86, 180, 233), (230, 159, 0), (255, 255, 255), (240, 228, 66)
_DOT, _SMALL, _RING = 7.0, 4.5, 10.5  # radii in pixels


def packed(planes: Array) -> Array:
    """Planes uint8 [N, 72, 96, 4] of 0 and 255 as bits [N, 3456], in the order of [4, 72, 96]."""
    pixels = np.ascontiguousarray(planes).view("<u4").reshape(len(planes), 1, -1)
    bits: Array = np.packbits((pixels & _CHANNEL).astype(bool), axis=-1).reshape(len(planes), -1)
    return bits


def picture(bits: Array) -> Array:
    """A picture uint8 [456, 600, 3] of the pitch with the content of one player's planes, bits [3456].

    Left team blue, right team orange, the ball white with a dark rim, a yellow ring around the active player.
    """
    left, right, ball, active = np.asarray(decode(bits, (PLANES,)))
    image = _pitch()
    for plane, colour, radius in ((left, _LEFT, _DOT), (right, _RIGHT, _DOT)):
        for centre in _centres(plane):
            _dot(image, centre, radius, colour)
    for centre in _centres(active):
        _dot(image, centre, _RING, _ACTIVE, inner=_DOT + 1)
    for centre in _centres(ball):
        _dot(image, centre, _SMALL + 1.5, (20, 20, 20))
        _dot(image, centre, _SMALL, _BALL)
    return image


def _centres(plane: Array) -> Array:
    """Row and column in pixels of the cells that are set, [K, 2]."""
    return np.argwhere(plane) * _CELL + _MARGIN + _CELL // 2


def _dot(image: Array, centre: Array, radius: float, colour: tuple[int, int, int], *, inner: float = 0.0) -> None:
    """Paints a disc, or a ring from `inner`, into `image`."""
    reach = int(radius) + 1
    row, column = (int(value) for value in centre)
    top, left = max(row - reach, 0), max(column - reach, 0)
    window = image[top : row + reach + 1, left : column + reach + 1]
    rows, columns = np.ogrid[top : top + window.shape[0], left : left + window.shape[1]]
    distance = (rows - row) ** 2 + (columns - column) ** 2
    window[(distance <= radius**2) & (distance >= inner**2)] = colour


def _pitch() -> Array:
    """An empty pitch with its lines, the goals at the left and right ends."""
    height, width = (size * _CELL + 2 * _MARGIN for size in PLANES.shape[1:])
    image = np.empty((height, width, 3), np.uint8)
    image[:] = _GRASS
    low, right = _MARGIN, width - _MARGIN
    middle, half = height // 2, width // 2
    # The planes reach from -1 to 1 and from -1/2.25 to 1/2.25, the touchlines are at -0.42 and 0.42 (gfootball's
    # observation_preprocessing).
    across = round(0.42 * 2.25 * PLANES.shape[1] * _CELL / 2)
    box, deep = int(0.20 * height), int(0.16 * width)  # the penalty area
    for tall, start, end in ((across, low, right), (across, low, half), (box, low, low + deep),
                             (box, right - deep, right)):
        image[middle - tall : middle + tall + 1, [start, end]] = _LINE
        image[[middle - tall, middle + tall], start : end + 1] = _LINE
    _dot(image, np.array([middle, half]), 0.13 * height, _LINE, inner=0.13 * height - 1.5)
    goal = int(0.06 * height)
    image[middle - goal : middle + goal, : low // 2] = _LINE
    image[middle - goal : middle + goal, -(low // 2) :] = _LINE
    return image

"""Shrinking by area, with NumPy alone: every new pixel is the mean of what it covers."""

from __future__ import annotations

import numpy as np

from workbench.environments.contract import Array


def area_matrix(old: int, new: int) -> Array:
    """The matrix float32 [new, old] that shrinks an axis: how much of new pixel j is old pixel i; rows add up to 1."""
    edges = np.arange(new + 1) * old / new
    low, high = np.maximum(edges[:-1, None], np.arange(old)), np.minimum(edges[1:, None], np.arange(old) + 1)
    shares: Array = (np.maximum(high - low, 0) * new / old).astype(np.float32)
    return shares

"""A sum tree: draws rows in proportion to their weights, and changes weights, in O(log n). NumPy only.

The tree is one float64 array, as a heap: node 1 is the root, node k has the children 2k and 2k+1, and the leaves are
the second half. A parent is always recomputed as the sum of its children, so rounding errors never accumulate. All rows
of a call go through the tree together, level by level.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workbench.errors import OutOfBounds
from workbench.trajectory import Array


class SumTree:
    """Weights of `capacity` rows, all 0 at first."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise OutOfBounds(f"a sum tree of {capacity} rows: it needs at least 1.")
        self.capacity = capacity
        self._levels = (capacity - 1).bit_length()
        self._first = 1 << self._levels  # the first leaf, and the number of leaves: a power of two
        self._heap = np.zeros(2 * self._first)

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self._heap[1])

    def get(self, rows: npt.ArrayLike) -> Array:
        """float64 [N], the weights of `rows`."""
        return self._heap[self._leaves(rows)]

    def set(self, rows: npt.ArrayLike, weights: npt.ArrayLike) -> None:
        """Set the weights [N] of `rows` [N]; of repeated rows, the last weight counts.

        Raises OutOfBounds for a row that does not exist and a weight that is negative or not finite, and then changes
        nothing.
        """
        nodes, values = self._leaves(rows), np.asarray(weights, np.float64)
        wrong = ~((values >= 0) & (values < np.inf))
        if wrong.any():
            raise OutOfBounds(f"weight {values[wrong].flat[0]} in a sum tree: weights are finite and not negative.")
        self._heap[nodes] = values
        if len(nodes) * self._levels > self._first:
            self._sum_all()
            return
        for _ in range(self._levels):
            nodes = nodes >> 1
            self._heap[nodes] = self._heap[2 * nodes] + self._heap[2 * nodes + 1]

    def _sum_all(self) -> None:
        level = self._first
        while level > 1:
            children = self._heap[level : 2 * level]
            level >>= 1
            np.add(children[::2], children[1::2], out=self._heap[level : 2 * level])

    def sample(self, count: int, random: np.random.Generator) -> Array:
        """int64 [count]: rows drawn independently, with replacement, with probability weight / total.

        A row of weight 0 is never drawn. Raises OutOfBounds if all weights are 0.
        """
        if not 0 < self.total < np.inf:
            raise OutOfBounds(f"rows cannot be drawn by weights whose sum is {self.total:g}. Give at least one row a "
                              "weight above 0, and keep the sum finite.")
        mass = random.random(count) * self.total
        nodes = np.ones(count, np.int64)
        for _ in range(self._levels):
            nodes *= 2
            left_mass = self._heap[nodes]
            # Sums are rounded, so a mass may be at or beyond the end of its subtree: then the subtree's last row is
            # drawn, and never an empty row beside it.
            right = (mass >= left_mass) & (self._heap[nodes + 1] > 0)
            mass -= np.where(right, left_mass, 0.0)
            nodes += right
        return nodes - self._first

    def _leaves(self, rows: npt.ArrayLike) -> Array:
        """Nodes of `rows`. Raises OutOfBounds."""
        indices = np.atleast_1d(np.asarray(rows, np.int64))
        wrong = (indices < 0) | (indices >= self.capacity)
        if wrong.any():
            raise OutOfBounds(f"row {indices[wrong][0]} of a sum tree that has rows 0 … {self.capacity - 1}.")
        return indices + self._first

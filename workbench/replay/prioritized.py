"""Prioritized replay of unrolls (Schaul et al. 2016, arXiv 1511.05952, over sequences: Kapturowski et al. 2019).

A ring of `storage.capacity` rows: a new unroll replaces the oldest. A sum tree has priority^α of each row; the
priorities are stored beside it, so that a new α is one pass over them. With α = 0 all rows weigh the same, and the tree
is left as it was. Serials number the unrolls from 1 in the order of insertion: by its serial, a sampled unroll that was
replaced meanwhile is recognised. One thread makes all calls except `metrics`, which needs no lock: it reads small
arrays as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.algorithms.batch import Batch, Sample
from workbench.errors import CheckpointCorrupt, ShapeMismatch
from workbench.replay.storage import UnrollStorage
from workbench.replay.sum_tree import SumTree
from workbench.trajectory import Array, Unroll

# The priority of |TD| = 0: with 0, an unroll would never be drawn again, and its weight would be infinite.
_LOWEST = 1e-6
# Its tenth power (10 is the largest α) times ten million rows is still a float64.
_HIGHEST = 1e30

_PRIORITY_EDGES = 10.0 ** (np.arange(-30, 21) / 5)
_AGE_BINS = 40

Histograms = dict[str, tuple[list[float], list[int]]]  # edges and counts by name


class _Ages(NamedTuple):
    """Ages of all samples so far. Replaced as a whole, so that another thread reads a consistent state."""

    number: int
    total_steps: int
    counts: Array


class PrioritizedReplay:
    """The newest unrolls, drawn in proportion to priority^α by `random`, which is saved and loaded with them."""

    def __init__(self, storage: UnrollStorage, *, random: np.random.Generator) -> None:
        self._storage = storage
        self._random = random
        self.capacity = storage.capacity
        self._filled = 0  # rows 0 … filled-1 hold an unroll
        self._position = 0  # row of the next
        self._serials = np.zeros(self.capacity, np.int64)
        self._priorities = np.zeros(self.capacity)
        self._successors = np.full(self.capacity, -1)  # row of the unroll that follows, or -1
        self._newest: dict[int, tuple[int, int, int]] = {}  # of each environment: run id, row, serial
        self._exponent = 1.0
        self._tree = SumTree(self.capacity)
        self.inserted = 0
        steps = storage.layout.unroll_length
        self._age_edges = np.geomspace(steps, steps * max(self.capacity, 10), _AGE_BINS + 1)
        self._ages = self._reported_ages = _Ages(0, 0, np.zeros(_AGE_BINS, np.int64))

    def __len__(self) -> int:
        return self._filled

    def insert(self, unroll: Unroll, priority: float | None) -> None:
        """Add an unroll, in the place of the oldest if all rows are filled; with the priority None, by the largest.

        An unroll whose priority is not finite, because the acting network was broken, gets the lowest priority.
        Raises ShapeMismatch for an unroll of another layout.
        """
        if priority is None:  # looked for only where it counts
            counts = self._filled and self._exponent > 0
            priority = float(self._priorities[: self._filled].max()) if counts else 1.0
        row = self._position
        self._storage.write(row, unroll)
        self.inserted += 1
        self._serials[row] = self.inserted
        # No link leads to this row: the predecessor of its last unroll was older, and was replaced before.
        self._successors[row] = -1
        self._link(unroll, row)
        self._set_priorities(row, priority if np.isfinite(priority) else 0.0)
        self._position = (row + 1) % self.capacity
        self._filled = max(self._filled, row + 1)

    def _link(self, unroll: Unroll, row: int) -> None:
        """Make the unroll in `row` the successor of the one before it in the same life of its environment."""
        run_id, before, serial = self._newest.get(unroll.env_id, (None, 0, 0))
        if run_id == unroll.run_id and self._serials[before] == serial:
            self._successors[before] = row
        self._newest[unroll.env_id] = unroll.run_id, row, self.inserted

    def _set_priorities(self, rows: Array | int, priorities: Array | float) -> None:
        self._priorities[rows] = np.clip(priorities, _LOWEST, _HIGHEST)
        if self._exponent:
            self._tree.set(rows, self._priorities[rows] ** self._exponent)

    def sample(self, batch_size: int, *, priority_exponent: float, importance_exponent: float) -> Batch:
        """A batch on the CPU, drawn independently with P(i) = p_i^α / Σ_k p_k^α, where α is `priority_exponent`.

        Weights are (1 / (N·P(i)))^β, divided by the largest of the batch, where β is `importance_exponent`.
        Raises OutOfBounds if the replay is empty.
        """
        if priority_exponent != self._exponent:
            self._exponent = priority_exponent
            self._set_priorities(np.arange(self._filled), self._priorities[: self._filled])
        if self._exponent or not self._filled:
            rows = self._tree.sample(batch_size, self._random)
            weights = self._tree.get(rows)
            # (1 / (N·P))^β / max (1 / (N·P))^β: N and the tree's total cancel out.
            importance = (weights.min() / weights) ** importance_exponent
            rarest = importance_exponent * (np.log(self._tree.total / self._filled) - np.log(weights.min()))
        else:
            rows, importance, rarest = self._random.integers(self._filled, size=batch_size), np.ones(batch_size), 0.0
        serials = self._serials[rows]
        self._count_ages((self.inserted - serials) * self._storage.layout.unroll_length)
        sample = Sample(rows, serials, float(rarest))
        return self._storage.gather(rows, weight=importance, sample=sample)

    def _count_ages(self, steps: Array) -> None:
        bins = np.searchsorted(self._age_edges, steps, side="right") - 1
        counts = np.bincount(bins.clip(0, _AGE_BINS - 1), minlength=_AGE_BINS)
        before = self._ages
        self._ages = _Ages(before.number + len(steps), before.total_steps + int(steps.sum()), before.counts + counts)

    def update(self, sample: Sample, priorities: Array, next_states: tuple[Array, ...] | None) -> None:
        """Set the priorities of a sample, and the states of the unrolls that follow it.

        Rows that were replaced meanwhile stay the same, as do unrolls whose priority is not finite.

        Args:
            priorities: [B].
            next_states: [B, ...] each, the recurrent state before the first step of the following unrolls, for those
                that are in the replay; or None.
        """
        values = np.asarray(priorities, np.float64)
        if values.shape != sample.rows.shape:
            raise ShapeMismatch(f"priorities of shape {values.shape} for a sample of {len(sample.rows)} unrolls.")
        valid = (self._serials[sample.rows] == sample.serials) & np.isfinite(values)
        rows = sample.rows[valid]
        self._set_priorities(rows, values[valid])
        if next_states is None:
            return
        followed = self._successors[rows] >= 0
        self._storage.set_states(
            self._successors[rows[followed]], tuple(state[valid][followed] for state in next_states)
        )

    def metrics(self) -> tuple[dict[str, float], Histograms]:
        """Present metrics, and those of the samples since the last call; without metrics that have no data.

        A sample's age is in environment steps: those of the unrolls that were inserted after it.
        """
        filled, ages, reported = self._filled, self._ages, self._reported_ages
        self._reported_ages = ages
        scalars = {
            "replay_unrolls": float(filled),
            "replay_fill": filled / self.capacity,
            "replay_gb": filled * self._storage.layout.unroll_bytes / 2**30,
        }
        histograms: Histograms = {}
        if filled:
            priorities = self._priorities[:filled].copy()
            scalars |= {"priority_mean": float(priorities.mean()), "priority_max": float(priorities.max())}
            clipped = priorities.clip(_PRIORITY_EDGES[0], _PRIORITY_EDGES[-1])
            counts = np.histogram(clipped, _PRIORITY_EDGES)[0]
            histograms["priority"] = _PRIORITY_EDGES.tolist(), counts.tolist()
        if ages.number > reported.number:
            scalars["sample_age_steps"] = (ages.total_steps - reported.total_steps) / (ages.number - reported.number)
            histograms["sample_age"] = self._age_edges.tolist(), (ages.counts - reported.counts).tolist()
        return scalars, histograms

    def arrays(self) -> dict[str, Array]:
        """Everything on which the next samples depend, of filled rows.

        Unrolls are views, not copies: save them before the next call.
        """
        state = json.dumps(self._random.bit_generator.state).encode()
        return {
            **self._rows(),
            "weight": self._priorities[: self._filled] ** self._exponent,
            "priority_exponent": np.array([self._exponent]),
            "random": np.frombuffer(state, np.uint8),
        }

    def _rows(self) -> dict[str, Array]:
        """Views of the filled rows of all arrays."""
        fields = {f"unroll.{name}": field for name, field in self._storage.fields.items()}
        rows = {"serial": self._serials, "priority": self._priorities, "successor": self._successors}
        return {name: array[: self._filled] for name, array in {**fields, **rows}.items()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Replace the content by the result of `arrays`; a smaller replay gets the newest unrolls.

        Environments begin new lives: unrolls inserted from now on follow none of these.
        Raises ShapeMismatch for unrolls of another layout, CheckpointCorrupt for numbers that no replay has; nothing is
        changed then.
        """
        arrays = {**self._without_finals(arrays), **arrays}
        self._check(arrays)
        random = self._checked_random(arrays)
        serials, filled = arrays["serial"], len(arrays["serial"])
        # The old row of each new row: the same row if they fill the replay, so that the same unrolls are drawn;
        # otherwise the newest rows, oldest first.
        order = np.arange(filled) if filled == self.capacity else np.argsort(serials)[-self.capacity :]
        self._filled = len(order)
        self._serials[self._filled :] = 0
        for name, array in self._rows().items():
            for new, old in _slices(order):
                array[new] = arrays[name][old]  # without a copy in between, since a replay may fill the memory
        self._successors[: self._filled] = _moved(self._successors[: self._filled], order, filled)
        self._position = int(self._serials.argmin()) if self._filled == self.capacity else self._filled
        self.inserted = int(serials.max(initial=0))
        self._newest.clear()
        self._exponent = float(arrays["priority_exponent"][0])
        self._tree = SumTree(self.capacity)
        self._tree.set(np.arange(self._filled), arrays["weight"][order])
        self._random.bit_generator.state = random

    def _without_finals(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The tables of final observations, without any, for a replay that was saved before they were kept."""
        filled, finals = np.shape(arrays.get("serial", ()))[:1], self._storage.layout.finals
        if any(f"unroll.{name}" in arrays for name in finals):
            return {}
        return {f"unroll.{name}": np.zeros((*filled, *shape), dtype) for name, (shape, dtype) in finals.items()}

    def _check(self, arrays: Mapping[str, Array]) -> None:
        remedy = "Go on with the settings, environment and network that it was saved with, or without its replay."
        own = self.arrays()
        if set(arrays) != set(own):
            raise ShapeMismatch(f"a saved replay that differs in {sorted(set(arrays) ^ set(own))}. {remedy}")
        rows, filled = {*self._rows(), "weight"}, arrays["serial"].shape[:1]
        for name, array in own.items():
            saved, shape = arrays[name], (filled if name in rows else arrays[name].shape[:1]) + array.shape[1:]
            if saved.shape != shape or saved.dtype != array.dtype:
                raise ShapeMismatch(f"{name} of a saved replay is {saved.dtype} {list(saved.shape)} and must be "
                                    f"{array.dtype} {list(shape)} here. {remedy}")

    def _checked_random(self, arrays: Mapping[str, Array]) -> Any:
        """The state of the random numbers. Raises CheckpointCorrupt for it or for others that no replay has."""
        links, filled, exponent = arrays["successor"], len(arrays["serial"]), arrays["priority_exponent"]
        numbers = (arrays["priority"], arrays["weight"], exponent)
        if (exponent.shape != (1,) or not all(np.isfinite(one).all() and (one >= 0).all() for one in numbers)
                or (arrays["serial"] < 1).any() or ((links < -1) | (links >= filled)).any()):
            raise CheckpointCorrupt("a saved replay has priorities, serials or links that no replay has.")
        try:
            state = json.loads(arrays["random"].tobytes())
            type(self._random.bit_generator)().state = state
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            raise CheckpointCorrupt(f"a saved replay has no random numbers: {error!s:.100}.") from None
        return state

    def close(self) -> None:
        """Free the storage's memory or files."""
        self._storage.close()


def _slices(order: Array) -> Iterator[tuple[slice, slice]]:
    """Slices of new rows and of their old rows: one pair, or two if the ring wraps around."""
    for run in np.split(np.arange(len(order)), np.flatnonzero(np.diff(order) != 1) + 1):
        if len(run):
            yield slice(run[0], run[-1] + 1), slice(order[run[0]], order[run[-1]] + 1)


def _moved(successors: npt.NDArray[np.int64], order: Array, filled: int) -> Array:
    """Links between `filled` old rows as links between new rows, of which row i has the old row `order[i]`."""
    row_of = np.full(filled, -1)
    row_of[order] = np.arange(len(order))
    return np.where(successors >= 0, row_of[successors], -1)

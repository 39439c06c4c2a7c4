"""Batches from a replay, with as many uses of each unroll as the configuration says."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import Algorithm, Loss
from workbench.errors import CheckpointCorrupt
from workbench.replay.prioritized import Histograms, PrioritizedReplay
from workbench.replay.queue import UnrollQueue
from workbench.replay.replay_capacity import check_memory
from workbench.replay.wait import Wait
from workbench.trajectory import Array, Unroll

_COUNTERS = "experience.counters"
_PATIENCE_S = 0.5
_MEMORY_CHECK = 50  # unrolls between two checks of the machine's memory while the replay fills


class Replayed:
    """Prioritized replay with an exact replay ratio.

    Each inserted unroll earns `replay_ratio` uses in training, and a batch of B costs B uses. A batch waits until it is
    earned, and no more unrolls than that are inserted, so that the queue fills and blocks the actors. So from
    `replay_min_size` unrolls on: uses = replay_ratio x inserted unrolls, to within one batch. Data echoing adds further
    uses, which the metric counts.
    """

    between_rounds = True

    def __init__(
        self, queue: UnrollQueue, replay: PrioritizedReplay, algorithm: Algorithm, *, min_size: int
    ) -> None:
        self.queue = queue
        self.replay = replay
        self._algorithm = algorithm
        self._min_size = min(min_size, replay.capacity)
        self._earned = 0.0  # uses that no batch has cost yet
        self._started = False
        self._wait = Wait()  # for the uses that the next batch costs
        self._ratio, self._inserted, self._used = 0.0, 0, 0  # unrolls, since the ratio last changed

    def next(self, config: Any, *, timeout_s: float) -> Batch | None:
        """See `Experience`; inserts the unrolls that earn the batch."""
        deadline = time.monotonic() + timeout_s
        self._wait.goes_on(config.batch_size)
        while len(self.replay) < self._min_size or self._earned < config.batch_size:
            if len(self.replay) < self.replay.capacity and self.replay.inserted % _MEMORY_CHECK == 0:
                check_memory(config, unrolls=len(self.replay), capacity=self.replay.capacity)
            left_s = deadline - time.monotonic()
            unrolls = self.queue.take(1, timeout_s=max(0.0, left_s))
            if not unrolls:
                return None
            self._insert(unrolls[0], config)
            if left_s < -_PATIENCE_S:  # many unrolls wait, and a command to pause or stop may wait as well
                return None
        self._started = True
        self._wait.ends()
        self._earned -= config.batch_size
        return self.replay.sample(
            config.batch_size, priority_exponent=config.priority_exponent,
            importance_exponent=config.importance_exponent,
        )

    def _insert(self, unroll: Unroll, config: Any) -> None:
        if len(self.replay) >= self._min_size:
            if config.replay_ratio != self._ratio:
                self._ratio, self._inserted, self._used = config.replay_ratio, 0, 0
            self._inserted += 1
            self._earned += config.replay_ratio
        self.replay.insert(unroll, self._algorithm.initial_priority(unroll, config=config))
        if unroll.flight is not None:
            unroll.flight.land()

    def after_update(self, batch: Batch, loss: Loss | None, config: Any = None) -> None:
        """Update the priorities, and the states if the algorithm recomputes them.

        After a skipped update the batch gets the lowest priority: otherwise it would be drawn and skipped again.
        """
        assert batch.sample is not None
        self._used += len(batch.sample.rows)
        priorities = _priorities(loss)
        if loss is None or priorities is None:
            self.replay.update(batch.sample, np.zeros(len(batch.sample.rows)), None)
            return
        states = None if loss.next_states is None else tuple(state.float().cpu().numpy() for state in loss.next_states)
        self.replay.update(batch.sample, priorities, states)

    def batch_unrolls(self, config: Any) -> int:
        """See `Experience`."""
        size: int = config.batch_size
        return size

    @property
    def occupancy(self) -> tuple[int, int]:
        """See `Experience`."""
        return len(self.replay), self.replay.capacity

    @property
    def filling(self) -> str:
        """See `Experience`."""
        if self._started:
            return ""
        if len(self.replay) >= self._min_size:
            return "taking in the unrolls that earn the first batch"
        return f"filling the replay: {len(self.replay):,} of {self._min_size:,} unrolls before the first update"

    @property
    def awaited(self) -> str:
        """See `Experience`."""
        wanted = self._wait.long_for if self._started else 0
        return f"collecting unrolls: {self._earned:,.0f} of {wanted:,} uses earned (replay_ratio)" if wanted else ""

    def metrics(self) -> tuple[dict[str, float], Histograms]:
        """See `Experience`."""
        scalars, histograms = self.replay.metrics()
        if self._inserted:
            scalars["replay_ratio"] = self._used / self._inserted
        return scalars, histograms

    def arrays(self, config: Any, *, requested: bool | None = None) -> dict[str, Array]:
        """The replay with everything on which its next samples depend; see `Experience`."""
        if not (config.save_replay if requested is None else requested):
            return {}
        counters = np.array([self._earned, self._ratio, self._inserted, self._used], np.float64)
        return {**self.replay.arrays(), _COUNTERS: counters}

    def load(self, arrays: Mapping[str, Array]) -> int:
        """See `Experience`."""
        counters = arrays.get(_COUNTERS)
        if counters is None or counters.shape != (4,) or not np.isfinite(counters).all():
            raise CheckpointCorrupt("a saved replay has no counters of what was trained on.")
        self.replay.load({name: array for name, array in arrays.items() if name != _COUNTERS})
        earned, ratio, inserted, used = counters.tolist()
        self._earned, self._ratio, self._inserted, self._used = earned, ratio, int(inserted), int(used)
        return len(arrays["serial"]) - len(self.replay)

    def close(self) -> None:
        """See `Experience`."""
        self.queue.close()
        self.replay.close()


def _priorities(loss: Loss | None) -> Array | None:
    """New priorities [B]; None after a skipped update: of a device that runs ahead, they are then not finite."""
    if loss is None:
        return None
    assert loss.priorities is not None
    priorities: Array = loss.priorities.float().cpu().numpy()
    return priorities if np.isfinite(priorities).all() else None

"""What training takes its batches from: every unroll once and in order (V-trace, `queue`), or a replay (R2D2).

Inference only appends to a bounded queue; all the rest is done by the training thread, so that drawing a sample never
holds up inference. Only a full queue does; this back-pressure slows the actors.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import Algorithm, Loss, ReplayAlgorithm
from workbench.errors import CheckpointCorrupt
from workbench.replay.capacity import check_memory, lasting_capacity
from workbench.replay.prioritized import PrioritizedReplay
from workbench.replay.queue import Fresh, UnrollQueue
from workbench.replay.storage import UnrollStorage
from workbench.replay.unroll_fields import UnrollLayout
from workbench.trajectory import Array, Unroll

_COUNTERS = "experience.counters"
_PATIENCE_S = 0.5
_MEMORY_CHECK = 50  # unrolls between looks at the machine's memory while the replay fills


Histograms = dict[str, tuple[list[float], list[int]]]  # edges and counts by name


class Experience(Protocol):
    """Unrolls on their way from inference to training. `config` is the algorithm's, live, at each call."""

    queue: UnrollQueue

    @property
    def kept(self) -> tuple[int, int] | None:
        """Unrolls in the replay, and how many it holds at most; None without replay."""

    def next(self, config: Any, *, timeout_s: float) -> Batch | None:
        """The next batch, or None if it is not ready after `timeout_s`."""

    def learnt(self, batch: Batch, loss: Loss | None) -> None:
        """Told of an update on `batch`; None: it was skipped, as its loss or gradient was not finite."""

    @property
    def filling(self) -> str:
        """What is awaited before the first update, in words; "" when it may come."""

    def look(self) -> tuple[dict[str, float], Histograms]:
        """Metrics of now; from any thread."""

    def arrays(self, config: Any, *, asked: bool | None = None) -> dict[str, Array]:
        """What a checkpoint keeps: the replay if `asked`, or (None) if the configuration says so; else nothing.

        Views: save them before the next call.
        """

    def load(self, arrays: Mapping[str, Array]) -> int:
        """Put back what `arrays` returned; how many unrolls had no room.

        Raises ShapeMismatch for another layout, CheckpointCorrupt for what no replay has; nothing is changed then.
        """

    def close(self) -> None:
        """End: waiting calls return, memory and files are given back."""


class Replayed:
    """Prioritized replay with an exact replay ratio.

    Each unroll that comes in earns `replay_ratio` trainings, and a batch of B costs B of them. A batch waits until it
    is earned; nothing is taken in beyond that, so that the queue fills and holds up the actors. Whoever runs ahead
    waits: trained on = replay_ratio x taken in, to within one batch, from the moment when the replay holds
    `replay_min_size`. What data echoing trains on again comes on top of that, and is seen in the metric.
    """

    def __init__(
        self, queue: UnrollQueue, replay: PrioritizedReplay, algorithm: ReplayAlgorithm, *, min_size: int,
        pin_memory: bool = False,
    ) -> None:
        self.queue = queue
        self.replay = replay
        self._algorithm = algorithm
        self._min_size = min(min_size, replay.capacity)
        self._pin_memory = pin_memory
        self._earned = 0.0
        self._begun = False
        self._ratio, self._taken_in, self._trained = 0.0, 0, 0  # since the ratio was last changed

    def next(self, config: Any, *, timeout_s: float) -> Batch | None:
        """See `Experience`; takes in what the batch still lacks."""
        deadline = time.monotonic() + timeout_s
        while len(self.replay) < self._min_size or self._earned < config.batch_size:
            left_s = deadline - time.monotonic()
            unrolls = self.queue.take(1, timeout_s=max(0.0, left_s))
            if not unrolls:
                return None
            self._take_in(unrolls[0], config)
            if left_s < -_PATIENCE_S:  # much waits, and so may whoever wants to pause or stop
                return None
        self._begun = True
        self._earned -= config.batch_size
        return self.replay.sample(
            config.batch_size, priority_exponent=config.priority_exponent,
            importance_exponent=config.importance_exponent, pin_memory=self._pin_memory,
        )

    def _take_in(self, unroll: Unroll, config: Any) -> None:
        if len(self.replay) >= self._min_size:
            if config.replay_ratio != self._ratio:
                self._ratio, self._taken_in, self._trained = config.replay_ratio, 0, 0
            self._taken_in += 1
            self._earned += config.replay_ratio
        if len(self.replay) < self.replay.capacity and self.replay.inserted % _MEMORY_CHECK == 0:
            check_memory(config, unrolls=len(self.replay), capacity=self.replay.capacity)
        self.replay.insert(unroll, self._algorithm.initial_priority(unroll, config=config))

    def learnt(self, batch: Batch, loss: Loss | None) -> None:
        """New priorities, and recomputed states where the algorithm gives them; the lowest after a skipped update."""
        assert batch.sample is not None
        self._trained += len(batch.sample.rows)
        priorities = _priorities(loss)
        if loss is None or priorities is None:  # else the same unrolls would be drawn again, and skipped again
            self.replay.learnt(batch.sample, np.zeros(len(batch.sample.rows)), None)
            return
        states = None if loss.next_states is None else tuple(one.float().cpu().numpy() for one in loss.next_states)
        self.replay.learnt(batch.sample, priorities, states)

    @property
    def kept(self) -> tuple[int, int]:
        """See `Experience`."""
        return len(self.replay), self.replay.capacity

    @property
    def filling(self) -> str:
        """See `Experience`."""
        if self._begun:
            return ""
        if len(self.replay) >= self._min_size:
            return "taking in the unrolls that earn the first batch"
        return f"filling the replay: {len(self.replay):,} of {self._min_size:,} unrolls before the first update"

    def look(self) -> tuple[dict[str, float], Histograms]:
        """See `Experience`."""
        scalars, histograms = self.replay.look()
        if self._taken_in:
            scalars["replay_ratio"] = self._trained / self._taken_in
        return scalars, histograms

    def arrays(self, config: Any, *, asked: bool | None = None) -> dict[str, Array]:
        """The replay with all that its next samples depend on; see `Experience`."""
        if not (config.save_replay if asked is None else asked):
            return {}
        counters = np.array([self._earned, self._ratio, self._taken_in, self._trained], np.float64)
        return {**self.replay.arrays(), _COUNTERS: counters}

    def load(self, arrays: Mapping[str, Array]) -> int:
        """See `Experience`."""
        counters = arrays.get(_COUNTERS)
        if counters is None or counters.shape != (4,) or not np.isfinite(counters).all():
            raise CheckpointCorrupt("a saved replay has no counters of what was trained on.")
        self.replay.load({name: array for name, array in arrays.items() if name != _COUNTERS})
        earned, ratio, taken_in, trained = counters.tolist()
        self._earned, self._ratio, self._taken_in, self._trained = earned, ratio, int(taken_in), int(trained)
        return len(arrays["serial"]) - len(self.replay)

    def close(self) -> None:
        """See `Experience`."""
        self.queue.close()
        self.replay.close()


def _priorities(loss: Loss | None) -> Array | None:
    """New priorities [B]; None after a skipped update, which a device that runs ahead shows by its numbers alone."""
    if loss is None:
        return None
    assert loss.priorities is not None
    found: Array = loss.priorities.float().cpu().numpy()
    return found if np.isfinite(found).all() else None


def build(
    algorithm: Algorithm, layout: UnrollLayout, *, config: Any, folder: Path, seed: int, pin_memory: bool
) -> Experience:
    """What the algorithm trains from, empty.

    Args:
        config: the algorithm's configuration.
        folder: where a replay on disk lies.

    Raises:
        OutOfBounds: the replay that is asked for does not fit.
        StorageFailed: the disk refuses it.
    """
    if not isinstance(algorithm, ReplayAlgorithm):
        return Fresh(UnrollQueue(max(config.queue_size, config.batch_size)), pin_memory=pin_memory)
    on_disk = config.replay_storage == "disk"
    capacity = lasting_capacity(config, layout, folder=folder)
    storage = UnrollStorage(layout, capacity=capacity, folder=folder if on_disk else None)
    replay = PrioritizedReplay(storage, random=np.random.default_rng(seed))
    queue = UnrollQueue(config.queue_size or config.batch_size)
    return Replayed(queue, replay, algorithm, min_size=config.replay_min_size, pin_memory=pin_memory)

"""Builds the source of training's batches that a run's configuration asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from workbench.algorithms.batch import Batch, BatchMemory
from workbench.algorithms.interface import Algorithm
from workbench.config import DemonstrationsConfig, EpochsConfig, ReplayConfig
from workbench.replay.demonstration_file import Recorded
from workbench.replay.demonstrations import Demonstrations, acted_unrolls
from workbench.replay.epochs import Epochs
from workbench.replay.experience import Experience, Fresh
from workbench.replay.prioritized import PrioritizedReplay
from workbench.replay.queue import UnrollQueue
from workbench.replay.replay_capacity import lasting_capacity
from workbench.replay.replayed import Replayed
from workbench.replay.storage import UnrollStorage
from workbench.replay.unroll_fields import UnrollLayout


def build(
    algorithm: Algorithm, layout: UnrollLayout, *, config: Any, folder: Path, seed: int, pin_memory: bool,
    alone: bool = True, updates: Callable[[], int] = lambda: 0, recorded: Recorded | None = None,
) -> Experience:
    """The algorithm's source of batches, empty.

    Args:
        config: the algorithm's configuration.
        folder: of a replay on disk.
        alone: whether this learner is the only one.
        updates: returns the number of updates so far.
        recorded: the demonstrations, where the algorithm trains on them.

    Raises:
        OutOfBounds: the configured replay does not fit.
        StorageFailed: the disk refuses it.
    """
    if isinstance(config, EpochsConfig):
        round_size = config.batch_size * config.minibatches
        queue = UnrollQueue(max(config.queue_size, round_size))
        return Epochs(queue, agreed=None if alone else config, seed=seed, updates=updates, pin_memory=pin_memory)
    if isinstance(config, DemonstrationsConfig):
        assert recorded is not None
        queue = UnrollQueue(max(config.queue_size, acted_unrolls(0, config.batch_size, config.demonstration_ratio)))
        return Demonstrations(queue, recorded, layout, seed=seed, updates=updates,
                              validation_share=config.validation_share, pin_memory=pin_memory)
    if not isinstance(config, ReplayConfig):
        return Fresh(UnrollQueue(max(config.queue_size, config.batch_size)), pin_memory=pin_memory)
    on_disk = config.replay_storage == "disk"
    capacity = lasting_capacity(config, layout, folder=folder)
    storage = UnrollStorage(layout, capacity=capacity, folder=folder if on_disk else None,
                            pin_memory=pin_memory)
    replay = PrioritizedReplay(storage, random=np.random.default_rng(seed))
    queue = UnrollQueue(config.queue_size or config.batch_size)
    return Replayed(queue, replay, algorithm, min_size=config.replay_min_size)


def blank_batches(experience: Experience, layout: UnrollLayout, *, config: Any) -> list[Batch]:
    """A batch of zeros of each shape that this source of unrolls of `layout` makes by the present configuration.

    A replay's has no place for final observations where there are none: see `UnrollStorage.gather`.
    """
    shapes = [layout.fields]
    if layout.finals and experience.occupancy is not None:
        shapes.append(layout.fields_without_finals)
    rooms = [BatchMemory().take(fields, experience.batch_unrolls(config)) for fields in shapes]
    return [Batch.of({name: tensor.zero_() for name, tensor in room.items()}) for room in rooms]

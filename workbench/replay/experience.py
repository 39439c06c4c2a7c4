"""Where training gets its batches, whatever the algorithm: the contract of every source, and the simplest source.

    Fresh            each unroll once, in the order of completion: V-trace
    Epochs           rounds of minibatches (`epochs.py`): PPO, V-MPO, AWR
    Replayed         a replay (`replayed.py`): R2D2, SAC
    Demonstrations   recorded rollouts beside new ones (`demonstrations.py`): behaviour cloning

Inference only appends to a source's bounded queue (`queue.py`); the training thread does everything else, so sampling
never blocks inference. Only a full queue blocks inference; this back-pressure slows the actors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from workbench.algorithms.batch import Batch, BatchMemory, collate
from workbench.algorithms.interface import Loss
from workbench.replay.prioritized import Histograms
from workbench.replay.queue import UnrollQueue
from workbench.trajectory import Array, Unroll


class Experience(Protocol):
    """Unrolls on their way from inference to training. `config` is the algorithm's present configuration."""

    queue: UnrollQueue

    @property
    def occupancy(self) -> tuple[int, int] | None:
        """Unrolls in the replay, and its capacity; None without replay."""

    def next(self, config: Any, *, timeout_s: float) -> Batch | None:
        """The next batch, or None if it is not ready after `timeout_s`."""

    def after_update(self, batch: Batch, loss: Loss | None, config: Any = None) -> None:
        """Use the loss of an update on `batch`; None: the update was skipped, since it was not finite.

        `config` is that of the update, the same in all learners.
        """

    def batch_unrolls(self, config: Any) -> int:
        """Unrolls in a batch."""

    @property
    def between_rounds(self) -> bool:
        """Whether nothing that was taken waits to be trained on again: a checkpoint would not keep it."""

    @property
    def filling(self) -> str:
        """What must happen before the first update, in words; "" if nothing."""

    @property
    def awaited(self) -> str:
        """What training waits for, in words, once that takes long; "" otherwise."""

    def metrics(self) -> tuple[dict[str, float], Histograms]:
        """Present scalars and histograms by name. Thread-safe."""

    def arrays(self, config: Any, *, requested: bool | None = None) -> dict[str, Array]:
        """The replay for a checkpoint if `requested`, or (None) if the configuration asks for it; otherwise {}.

        Views: save them before the next call.
        """

    def load(self, arrays: Mapping[str, Array]) -> int:
        """Restore `arrays`, and return the number of unrolls without room.

        Raises ShapeMismatch for another layout, CheckpointCorrupt for what no replay has; nothing is changed then.
        """

    def close(self) -> None:
        """End: waiting calls return, memory and files are freed."""


class FromQueue:
    """What sources of batches without a replay have in common: what waits in their queue is not worth saving."""

    filling = ""
    occupancy = None

    def __init__(self, queue: UnrollQueue, *, pin_memory: bool = False) -> None:
        self.queue = queue
        self._memory = BatchMemory(pinned=pin_memory)

    @property
    def awaited(self) -> str:
        """See `Experience`: nothing."""
        return ""

    def batch_unrolls(self, config: Any) -> int:
        """See `Experience`."""
        size: int = config.batch_size
        return size

    def _batch(self, unrolls: Sequence[Unroll]) -> Batch:
        """The unrolls side by side, which the batch holds."""
        return replace(collate(unrolls, memory=self._memory), unrolls=tuple(unrolls))

    def arrays(self, config: Any, *, requested: bool | None = None) -> dict[str, Array]:
        """Nothing: a resumed run trains on new unrolls."""
        return {}

    def load(self, arrays: Mapping[str, Array]) -> int:
        """Nothing to do."""
        return 0

    def close(self) -> None:
        """See `Experience`."""
        self.queue.close()


class Fresh(FromQueue):
    """Uses each unroll once, in the order of completion. See `Experience`."""

    between_rounds = True

    def next(self, config: Any, *, timeout_s: float) -> Batch | None:
        """See `Experience`."""
        unrolls = self.queue.take(config.batch_size, timeout_s=timeout_s)
        return self._batch(unrolls) if unrolls else None

    def after_update(self, batch: Batch, loss: Loss | None, config: Any = None) -> None:
        """Nothing to do."""

    def metrics(self) -> tuple[dict[str, float], dict[str, Any]]:
        """See `Experience`."""
        return {}, {}

"""Data echoing (Choi et al. 2019, arXiv 1907.05550): a batch serves again while the next one is not ready."""

from __future__ import annotations

from typing import Any

from workbench.algorithms.batch import Batch
from workbench.learner.metrics.meters import Meters
from workbench.replay.batch_source import Experience


class Echo:
    """Batches of `experience`, each up to `echo_factor` times; a fresh one is taken as soon as it is ready."""

    def __init__(self, experience: Experience, meters: Meters) -> None:
        self._experience, self._meters = experience, meters
        self._batch: Batch | None = None
        self._uses = 0

    def next(self, config: Any, *, timeout_s: float) -> Batch | None:
        """The next batch to train on, or None if there is none after `timeout_s`."""
        again = self._batch is not None and self._uses < config.echo_factor
        if not again:
            self._batch = None
        fresh = self._experience.next(config, timeout_s=0.0 if again else timeout_s)
        if fresh is None and not again:
            return None
        if fresh is not None:
            if self._uses:  # of the batch before
                self._meters.add("batch_uses", self._uses)
            self._batch, self._uses = fresh, 0
        self._uses += 1
        return self._batch

    def drop(self) -> None:
        """Do not use the last batch again."""
        self._batch = None

"""Training in rounds, as PPO does: a round's unrolls, shuffled anew in each of a few epochs, in minibatches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.algorithms.batch import Batch
from workbench.algorithms.interface import Loss
from workbench.replay.experience import FromQueue
from workbench.replay.queue import UnrollQueue
from workbench.replay.wait import Wait
from workbench.trajectory import Unroll


class Epochs(FromQueue):
    """Takes a round of `batch_size` x `minibatches` unrolls, and makes `epochs` times as many batches of it.

    See `experience.Experience`.

    Args:
        agreed: the configuration by which the first round begins, where several learners must begin theirs alike; None:
            this one is alone, and begins each round by the present one.
        seed: of the order of the unrolls.
        updates: returns the number of updates so far. A round's order depends on this and the seed alone, so that a
            resumed run has the same ones.
    """

    def __init__(
        self, queue: UnrollQueue, *, agreed: Any, seed: int, updates: Callable[[], int], pin_memory: bool = False
    ) -> None:
        super().__init__(queue, pin_memory=pin_memory)
        self._agreed, self._seed, self._updates = agreed, seed, updates  # agreed: at the last update
        self._left: list[Sequence[Unroll]] = []  # the round's batches, the next one last
        self._round = 0  # the present one
        self._wait = Wait()  # for the unrolls of the next round
        self._rounds, self._cut = 0, 0  # since the last `metrics`: of all rounds, those that ended early

    def next(self, config: Any, *, timeout_s: float) -> Batch | None:
        """See `Experience`."""
        if not self._left and not self._begin_round(config, timeout_s):
            return None
        unrolls = self._left.pop()
        for unroll in unrolls:
            if unroll.flight is not None:
                unroll.flight.ends("queue")  # the wait for its turn in the round
        return replace(self._batch(unrolls), round=self._round)

    def _begin_round(self, config: Any, timeout_s: float) -> bool:
        config = self._agreed or config
        size, wanted = config.batch_size, config.batch_size * config.minibatches
        self.queue.resize(max(config.queue_size, wanted))  # which may have been tuned
        self._wait.goes_on(wanted)
        unrolls = self.queue.take(wanted, timeout_s=timeout_s)
        if unrolls:
            self._wait.ends()
        random = np.random.default_rng([self._seed, self._updates()])
        for _ in range(config.epochs if unrolls else 0):
            order = random.permutation(len(unrolls)).tolist()
            self._left += [[unrolls[at] for at in order[first : first + size]] for first in range(0, len(order), size)]
        self._rounds += bool(unrolls)
        self._round += bool(unrolls)
        return bool(unrolls)

    def after_update(self, batch: Batch, loss: Loss | None, config: Any = None) -> None:
        """Ends the batch's round early if the loss says that it is enough."""
        self._agreed = self._agreed and config
        enough = loss is not None and loss.enough is not None and float(loss.enough) > 0
        if enough and self._left and batch.round == self._round:  # a device that runs ahead may be in the next one
            self._left.clear()
            self._cut += 1

    @property
    def awaited(self) -> str:
        """See `Experience`."""
        wanted = self._wait.long_for
        return f"collecting a round: {len(self.queue):,} of {wanted:,} unrolls" if wanted else ""

    @property
    def between_rounds(self) -> bool:
        """See `Experience`."""
        return not self._left

    def metrics(self) -> tuple[dict[str, float], dict[str, Any]]:
        """See `Experience`: the share of rounds that ended early."""
        rounds, cut = self._rounds, self._cut
        if not rounds:
            return {}, {}
        self._rounds -= rounds
        self._cut -= cut
        return {"rounds_cut": min(1.0, cut / rounds)}, {}

    def close(self) -> None:
        """See `Experience`."""
        self._left.clear()
        super().close()

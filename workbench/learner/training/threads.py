"""How many threads an update takes on a CPU: tried while the run learns.

What another thread brings depends on the network, the precision, and what environments and inference leave of the
cores: from twice the speed to half of it. No rule of the machine knows that, so a run tries, in turns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator

import torch

STRETCH_S = 2.0  # updates of one number of threads, before the other has its turn
LEAST_UPDATES = 4  # of a stretch
FIRST_S, LONGEST_S = 10.0, 600.0  # between two tries: each time twice as long
PAIRS = 5  # of stretches in a try
GAIN = 1.02  # median of the pairs from which on the other number stays
LOSS, SLOWER = 0.8, 1  # a pair below the first, or more pairs below 1 than the second, end a try early
_Course = Generator[tuple[int, float], float, None]


class Threads:
    """Torch's number of threads in the training thread, which alone calls `updated` and `interrupted`.

    A try lets stretches of updates with twice as many threads, or half as many, take turns with those of the present
    number. The other number stays if it makes more updates/s, by the median of pairs of stretches.

    Args:
        count: threads at first.
        most: threads at most; 0: `count` for good.
        tell: takes a sentence when another number stays.

    Attributes:
        count: threads, but for those of a try.
    """

    def __init__(
        self, count: int, *, most: int = 0, tell: Callable[[str], None] = print,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.count, self._most, self._tell, self._clock = count, most, tell, clock
        torch.set_num_threads(count)
        self._course = self._tries()
        self._using, self._stretch_s = next(self._course)
        self._updates, self._began = 0, -1.0

    def updated(self) -> None:
        """After each update: lets the other number have its turn if it is due."""
        if not self._most:
            return
        now = self._clock()
        if self._began < 0:  # what the first update of a stretch took belongs to the change
            self._updates, self._began = 0, now
            return
        self._updates += 1
        if now - self._began >= self._stretch_s and self._updates >= LEAST_UPDATES:
            threads, self._stretch_s = self._course.send(self._updates / (now - self._began))
            if threads != self._using:
                torch.set_num_threads(threads)
            self._using, self._began = threads, -1.0

    def interrupted(self) -> None:
        """Training stands still: the stretch begins anew after the next update."""
        self._began = -1.0

    def _tries(self) -> _Course:
        """Yields threads and seconds of the next stretch, and takes its updates/s."""
        wait_s, doubling = FIRST_S, True
        while True:
            yield self.count, wait_s
            other = min(2 * self.count, self._most) if doubling else self.count // 2
            if other not in (0, self.count):
                yield from self._try(other)
                wait_s = min(LONGEST_S, 2 * wait_s)
            doubling = not doubling

    def _try(self, other: int) -> _Course:
        gains: list[float] = []
        while len(gains) < PAIRS:
            before = yield self.count, STRETCH_S
            gains.append((yield other, STRETCH_S) / before)
            if gains[-1] < LOSS or sum(gain < 1 for gain in gains) > SLOWER:
                return
        if (gain := statistics.median(gains)) >= GAIN:
            self._tell(f"training takes {other} threads from now on: {gain:.2f} times the updates/s of {self.count}")
            self.count = other

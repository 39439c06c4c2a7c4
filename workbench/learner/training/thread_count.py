"""How many threads an update takes on a CPU: tried while the run learns.

What another thread brings depends on the network, the precision, and what environments and inference leave of the
cores: from one and a half times the speed to a small part of it. No rule of the machine knows that, so a run tries.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator

import psutil
import torch

from workbench.tables import counted

STRETCH_S = 2.0  # updates of one number of threads, before the other has its turn
LEAST_UPDATES = 3  # of a stretch
FIRST_S, LONGEST_S = 10.0, 600.0  # between two tries: twice as long after each that changed nothing
PAIRS = 5  # of stretches in a try
GAIN = 1.02  # median of the pairs from which on the other number stays
LOSS, SLOWER = 0.8, 1  # a pair below the first, or more pairs below 1 than the second, end a try early
IDLE_CORES = 0.1  # without them, another thread would live on what other runs and programs have
_Course = Generator[tuple[int, float], float, None]  # yields threads and seconds of a stretch, takes its updates/s


def idle_s() -> float:
    """Seconds that the machine's cores have been idle."""
    return float(psutil.cpu_times().idle)


class Threads:
    """Torch's number of threads in the training thread, which alone calls `updated` and `interrupted`.

    A try lets stretches of updates with twice as many threads, or half as many, take turns with those of the present
    number. The other number stays if it makes more updates/s, by the median of pairs of stretches. More are tried only
    where cores are idle. What a number brings is told where it stays, and else once.

    Args:
        count: threads at first.
        most: threads at most; 0: `count` for good.
        tell: takes a sentence.

    Attributes:
        count: threads, but for those of a try.
    """

    def __init__(
        self, count: int, *, most: int = 0, tell: Callable[[str], None] = print,
        clock: Callable[[], float] = time.monotonic, idle: Callable[[], float] = idle_s,
    ) -> None:
        self.count, self._most, self._tell, self._clock, self._idle = count, most, tell, clock, idle
        self._told: set[tuple[int, int]] = set()  # numbers that were no faster than others
        self._begin()

    def _begin(self) -> None:
        self._trying, self._course = False, self._tries()
        self._turn_to(*next(self._course))

    def _turn_to(self, threads: int, seconds: float) -> None:
        """Begin a stretch."""
        torch.set_num_threads(threads)
        self._stretch_s, self._updates, self._began = seconds, 0, -1.0

    def updated(self) -> None:
        """After each update: lets the other number have its turn if it is due."""
        if self._most < 2:
            return
        now = self._clock()
        if self._began < 0:  # what the first update of a stretch took belongs to the change
            self._began = now
            return
        self._updates += 1
        if now - self._began >= self._stretch_s and self._updates >= LEAST_UPDATES:
            self._turn_to(*self._course.send(self._updates / (now - self._began)))

    def interrupted(self) -> None:
        """Training stands still, or its speed says nothing: a try is given up."""
        if self._trying:
            self._begin()

    def _tries(self) -> _Course:
        wait_s, doubles = FIRST_S, True
        while True:
            before, began, idle = self.count, self._clock(), self._idle()
            yield self.count, wait_s
            idle_cores = (self._idle() - idle) / max(1e-9, self._clock() - began)
            twice, half = min(2 * self.count, self._most), self.count // 2
            doubles = twice > self.count if doubles else half < 1
            if not doubles or idle_cores >= IDLE_CORES:
                self._trying = True
                yield from self._try(twice if doubles else half)
                self._trying = False
                wait_s = FIRST_S if self.count != before else min(LONGEST_S, 2 * wait_s)
            if self.count == before:  # otherwise further in this direction
                doubles = not doubles

    def _try(self, other: int) -> _Course:
        gains: list[float] = []
        turn = (self.count, other)
        while len(gains) < PAIRS:
            rates = {}
            for threads in turn:
                rates[threads] = yield threads, STRETCH_S
            turn = turn[::-1]  # what becomes faster or slower meanwhile speaks for neither
            gains.append(rates[other] / rates[self.count])
            if gains[-1] < LOSS or sum(gain < 1 for gain in gains) > SLOWER:
                break
        gain, before = statistics.median(gains), self.count
        if len(gains) == PAIRS and gain >= GAIN:
            self._tell(f"training takes {counted(other, 'threads')} from now on: {gain:.2f} times the updates/s of "
                       f"{before}")
            self.count = other
        elif gain < GAIN and (before, other) not in self._told:  # else it broke off, and says little
            self._told.add((before, other))
            self._tell(f"training stays with {counted(before, 'threads')}: {other} made {gain:.2f} times the updates/s")

"""What every candidate of this folder shares: the setting of the comparison, and how a rate is measured.

One step is one decision of an agent; an Atari step is four frames. A rate counts *trained* steps only: those in batches
that an update has used. Needs nothing but Python, so that it runs in the virtual environment of each peer.
No command line: measure_one.py has it.
"""

from __future__ import annotations

import sys
import time

GAME = "pong"
ENVIRONMENT = "ALE/Pong-v5"
STICKY = 0.25  # probability that a frame repeats the last action: ALE/Pong-v5's own
ENVIRONMENTS = 32
UNROLL = 20
UPDATE = ENVIRONMENTS * UNROLL  # steps
WARM_UP_UPDATES = 10


class Meter:
    """Rate of a counter of trained steps after a warm-up, from one of its changes to another.

    The time between two changes is that of whole updates, so that a slow peer's rate is not rounded.
    """

    def __init__(self, seconds: float, *, warm_up_updates: int) -> None:
        self._seconds = seconds
        self._warm_up = warm_up_updates * UPDATE
        self._first: tuple[float, int] | None = None
        self._last = (0.0, 0)

    def see(self, trained_steps: int) -> bool:
        """Notes the counter; whether enough was measured. Counts that have not changed say nothing."""
        now = time.perf_counter()
        if trained_steps == self._last[1]:
            return False
        self._last = now, trained_steps
        print(f"{trained_steps:,} steps", file=sys.stderr, flush=True)
        if trained_steps < self._warm_up:
            return False
        self._first = self._first or self._last
        return now - self._first[0] >= self._seconds

    def result(self) -> dict[str, float]:
        """Steps per second, and the steps and seconds behind it."""
        assert self._first is not None
        seconds, steps = (last - first for last, first in zip(self._last, self._first, strict=True))
        return {"steps_per_second": steps / seconds, "steps": steps, "seconds": seconds}

"""Cores that the learner may use and that nobody uses: what more threads could have."""

from __future__ import annotations

import os
from collections import deque

import psutil

from workbench.config import hardware

_LOOKS = 30  # of a second each


class IdleCores:
    """Looks at the machine; none are idle where a container's quota forbids to use them."""

    def __init__(self) -> None:
        self._allowed = sorted(os.sched_getaffinity(0))
        self._bounded = hardware.cores() < len(self._allowed)
        self._seen: deque[float] = deque(maxlen=_LOOKS)
        psutil.cpu_percent(percpu=True)  # the first one tells of nothing

    def look(self) -> float:
        """Their number, mean of the last half minute; 0 before there is one."""
        busy = psutil.cpu_percent(percpu=True)
        self._seen.append(sum(1 - busy[core] / 100 for core in self._allowed if core < len(busy)))
        return 0.0 if self._bounded or len(self._seen) < _LOOKS else sum(self._seen) / _LOOKS

"""Counts the idle cores that the learner may use, which further threads could use."""

from __future__ import annotations

import os
from collections import deque

import psutil

from workbench.config import hardware

_SAMPLES = 30  # one per second


class IdleCores:
    """Samples the machine's load; under a container's quota no core counts as idle."""

    def __init__(self) -> None:
        self._usable = sorted(os.sched_getaffinity(0))
        self._bounded = hardware.cores() < len(self._usable)
        self._samples: deque[float] = deque(maxlen=_SAMPLES)
        psutil.cpu_percent(percpu=True)  # the first call returns zeros

    def sample(self) -> float:
        """Take a sample, and return the mean of the last half minute; 0 before that."""
        busy = psutil.cpu_percent(percpu=True)
        self._samples.append(sum(1 - busy[core] / 100 for core in self._usable if core < len(busy)))
        return 0.0 if self._bounded or len(self._samples) < _SAMPLES else sum(self._samples) / _SAMPLES

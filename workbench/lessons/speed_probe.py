"""Sizes that fit the machine: a lesson keeps its stated minutes on a slow one, with fewer frames.

Two seconds of what a small run does, stepping CartPole and multiplying small matrices, are compared with the machine on
which the lessons' minutes were measured. A core that is missing counts, too: those had two.
"""

from __future__ import annotations

import functools
import os
import statistics
import time

from workbench.config import hardware

SPEED = "WORKBENCH_LESSON_SPEED"  # a share that replaces the measured one; 1 keeps the sizes, as the tests do
_WINDOWS, _WINDOW_S = 8, 0.25
_REFERENCE_ROUNDS_PER_S = 5_700.0  # one core of an AMD EPYC (Zen 4), 2026-11-26, with nothing beside
_REFERENCE_CORES = 2
_SLOWEST = 0.05


def fit(size: int, *, least: int = 1) -> int:
    """`size` for a machine as fast as the lessons' own or faster, else proportionally less, but not below `least`.

    The machine is measured once per process, for two seconds. A size that is changed is said.
    """
    if size <= least or (share := machine_share()) >= 1:
        return size
    fitted = max(least, _two_digits(size * share))
    if fitted < size:
        print(f"This machine has {share:.0%} of the speed that the lesson was written for: {fitted:,} instead of "
              f"{size:,}.")
    return min(size, fitted)


@functools.cache
def machine_share() -> float:
    """The speed of this machine as a share of the lessons' own, from 0.05 to 1."""
    if SPEED in os.environ:
        return float(os.environ[SPEED])
    cores = min(hardware.cores(), _REFERENCE_CORES) / _REFERENCE_CORES
    return max(_SLOWEST, min(1.0, cores * _rounds_per_s() / _REFERENCE_ROUNDS_PER_S))


def _rounds_per_s() -> float:
    """Rounds of 16 steps of CartPole and a small network: the median of some windows."""
    import gymnasium
    import numpy as np

    environment, draws = gymnasium.make("CartPole-v1"), np.random.default_rng(0)
    first, second = (draws.standard_normal(shape, dtype=np.float32) for shape in ((4, 64), (64, 64)))
    seen = np.zeros((16, 4), np.float32)
    environment.reset(seed=0)
    speeds = []
    for _ in range(_WINDOWS):
        rounds, start = 0, time.perf_counter()
        while time.perf_counter() - start < _WINDOW_S:
            for row in range(16):
                seen[row], _reward, terminated, truncated, _info = environment.step(row % 2)
                if terminated or truncated:
                    environment.reset()
            np.tanh(np.tanh(seen @ first) @ second)
            rounds += 1
        speeds.append(rounds / (time.perf_counter() - start))
    return statistics.median(speeds)


def _two_digits(size: float) -> int:
    """The size, rounded to two digits."""
    return int(float(f"{size:.1e}"))

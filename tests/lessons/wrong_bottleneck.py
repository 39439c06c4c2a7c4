"""Answers to the exercises of lesson 13 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

from workbench.lessons.exercises.bottleneck import SIGNATURES
from workbench.lessons.slow_runs import SLOW

WRONG: dict[str, list[Any]] = {
    **{f"run_{number}": [*(name for name in SIGNATURES if name != slow.bottleneck), "the network"]
       for number, slow in SLOW.items()},
    "amdahl": [lambda share, factor: factor, lambda share, factor: 1 + share * (factor - 1),
               lambda share, factor: 1 / (share + (1 - share) / factor)],
    "second_actor": [2, 1.41, 1.0],
}

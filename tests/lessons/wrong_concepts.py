"""Answers to the exercises of lesson 0 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any


def _without_overlap(steps: Any, length: int) -> Any:
    return [steps[start : start + length + 1] for start in range(0, len(steps) - length, length + 1)]


def _one_step_short(steps: Any, length: int) -> Any:
    return [steps[start : start + length] for start in range(0, len(steps) - length, length)]


def _every_start(steps: Any, length: int) -> Any:
    return [steps[start : start + length + 1] for start in range(len(steps) - length)]


def _keeps_the_rest(steps: Any, length: int) -> Any:
    return [steps[start : start + length + 1] for start in range(0, len(steps) - 1, length)]


WRONG = {
    "mean_lag": [8.0, 3, 5, 20, -4],
    "unbounded": ["actors wait", "steps are lost", "nothing"],
    "stamped_late": ["too large", "right", "4"],
    "cut": [_without_overlap, _one_step_short, _every_start, _keeps_the_rest],
}

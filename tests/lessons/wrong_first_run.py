"""Answers to the exercises of lesson 1 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any


def _the_highest(history: Any, target: float) -> Any:
    return history.frames[history.value.idxmax()] if history.value.max() >= target else None


def _strictly_above(history: Any, target: float) -> Any:
    there = history[history.value > target]
    return None if there.empty else there.frames.iloc[0]


def _the_last(history: Any, target: float) -> Any:
    there = history[history.value >= target]
    return None if there.empty else there.frames.iloc[-1]


def _fails_where_it_never_was(history: Any, target: float) -> Any:
    return history.frames[history.value >= target].iloc[0]


WRONG = {
    "updates": [10_000, 4_000, 80_000, 160],
    "restart": ["stops", "pauses", "dies"],
    "reached": [_the_highest, _strictly_above, _the_last, _fails_where_it_never_was],
}

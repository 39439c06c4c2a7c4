"""Answers to the exercises of lesson 2 that are wrong in ways that students are."""

from __future__ import annotations


def _upside_down(environments: int, steps_per_s: float) -> float:
    return 1000 * steps_per_s / environments


def _seconds(environments: int, steps_per_s: float) -> float:
    return environments / steps_per_s


def _as_if_there_were_one(environments: int, steps_per_s: float) -> float:
    return 1000 / steps_per_s


WRONG = {
    "longest_wait": ["smallest", "the same", "4"],
    "short_timeout": ["fill rises, speed falls", "both rise", "both fall"],
    "round_ms": [_upside_down, _seconds, _as_if_there_were_one],
}

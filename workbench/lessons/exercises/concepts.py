"""Exercises of lesson 0."""

from __future__ import annotations

from typing import Any

from workbench.lessons.answers import choice, expect_written, number
from workbench.lessons.exercise import Exercise, Wrong

mean_lag = number(
    4.0, "the mean of (version now - stamp)", {"stamps": (7, 7, 8, 9, 9), "version now": 12},
    why="12 - 7, 12 - 7, 12 - 8, 12 - 9, 12 - 9 are 5, 5, 4, 3, 3: a mean of 4 updates.",
)

unbounded = choice(
    "lag grows", {
        "actors wait": "They wait for a queue that is full. This one never is.",
        "steps are lost": "put() keeps all of them. Where do they stay until training takes them?",
    },
    why="Actors put in more than training takes out, so every unroll waits longer than the one before.",
)

stamped_late = choice(
    "too small", {
        "too large": "The version only rises. Is the one at the unroll's end above or below those of its steps?",
        "right": "The first step of the unroll was chosen earlier. Was the version the same then?",
    },
    why="All steps get the version of the last one, the newest. The lag of the older ones disappears from the "
        "measurement, and stays in the data.",
)


def cut_into_unrolls(steps, length):  # type: ignore[no-untyped-def]
    """Unrolls of length + 1 steps each; the last step of one is the first of the next. A rest is left out."""
    return [steps[start : start + length + 1] for start in range(0, len(steps) - length, length)]


def _check_cut(answer: Any) -> None:
    for total, length in ((11, 5), (13, 5), (5, 1), (4, 5)):
        steps = list(range(total))
        unrolls = [list(unroll) for unroll in expect_written(answer(steps, length))]
        case = f"steps {steps}, length {length}\n  yours: {unrolls}\n"
        if any(len(unroll) != length + 1 for unroll in unrolls):
            raise Wrong(f"{case}An unroll of length {length} has {length} transitions, and so {length + 1} steps.")
        got = [(one, other) for unroll in unrolls for one, other in zip(unroll, unroll[1:], strict=False)]
        whole = range((total - 1) // length * length)
        expected = [(step, step + 1) for step in whole]
        if missing := [pair for pair in expected if pair not in got]:
            raise Wrong(f"{case}The transition from step {missing[0][0]} to step {missing[0][1]} is in no unroll.")
        if got != expected:
            raise Wrong(f"{case}There are {len(got)} transitions in it, where {len(expected)} are expected, each once.")


cut = Exercise(
    _check_cut, cut_into_unrolls,
    why="The step at the border ends one unroll, where its value is the bootstrap, and begins the next.",
)

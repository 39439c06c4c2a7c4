"""Exercises of lesson 15."""

from __future__ import annotations

from typing import Any

from workbench.lessons.answers import expect_close, expect_written
from workbench.lessons.exercise import Exercise, Wrong

PARTS = {"targets": "ratios in the targets of the value", "gradient": "ratios in the policy gradient",
         "epsilon": "a constant added to π inside the logarithm"}
RIGHT = {
    "V-trace": {"targets": True, "gradient": True, "epsilon": 0.0},
    "1-step": {"targets": False, "gradient": True, "epsilon": 0.0},
    "ε-correction": {"targets": False, "gradient": False, "epsilon": 1e-6},
    "no correction": {"targets": False, "gradient": False, "epsilon": 0.0},
}


def _check_corrections(answer: Any) -> None:
    given = expect_written(answer)
    for name, right in RIGHT.items():
        if name not in given:
            raise Wrong(f"{name!r} is missing.")
        for part, value in right.items():
            if part not in given[name] or given[name][part] is ...:
                raise Wrong(f"{name} does not say {part!r} yet: {PARTS[part]}.")
            if float(given[name][part]) != float(value):
                raise Wrong(f"{name} has {part} = {given[name][part]}. Read again what it does with {PARTS[part]}.")


corrections = Exercise(
    _check_corrections, RIGHT,
    why="V-trace corrects both, 1-step importance sampling only the gradient, and the other two neither.",
)


def share_of_the_push(probability, epsilon=1e-6):  # type: ignore[no-untyped-def]
    """The gradient of log(π + ε) as a share of that of log π."""
    return probability / (probability + epsilon)


def _check_push(answer: Any) -> None:
    for probability in (0.5, 1e-3, 1e-6, 1e-8):
        expect_close(expect_written(answer(probability)), probability / (probability + 1e-6),
                     "(d/dπ log(π + ε)) / (d/dπ log π)", {"π": probability, "ε": 1e-6})


push = Exercise(
    _check_push, share_of_the_push,
    why="1 / (π + ε) divided by 1 / π. For an action of one in a thousand it is 0.999: nothing is corrected before the "
        "action has all but vanished.",
)

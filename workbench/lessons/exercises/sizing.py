"""Exercises of lesson 9: accelerators for a speed, the part that is full first, what frames cost, a learner killed."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# The solutions stand in a lesson as a student would write them.

from __future__ import annotations

import math
from typing import Any

from workbench.lessons.answers import choice, compared, expect_close, expect_written
from workbench.lessons.exercise import Exercise, Wrong

FRAMES_PER_S, FRAMES_PER_STEP, STEPS_EACH, BUSY = 1_000_000, 4, 40_000, 0.8


def _check_accelerators(answer: Any) -> None:
    number = float(expect_written(answer))
    hints: dict[float, str] = {
        7: "7 would be 89% busy. A plan keeps the fullest part below 80%.",
        25: "40,000 are steps. A step of Pong is four frames.",
        32: "40,000 are steps. A step of Pong is four frames.",
    }
    if number in hints:
        raise Wrong(hints[number])
    if number != int(number):
        raise Wrong("Nobody rents a part of an accelerator: round up.")
    steps = FRAMES_PER_S / FRAMES_PER_STEP
    expect_close(number, math.ceil(steps / STEPS_EACH / BUSY), "accelerators",
                 {"steps/s": steps, "steps/s of each": STEPS_EACH, "at most busy": BUSY})


def full_first(capacities, busy):
    """The part that is full first, and the frames/s at which its share of its capacity is `busy`."""
    part = min(capacities, key=capacities.get)
    return part, busy * capacities[part]


def _check_full_first(answer: Any) -> None:
    for capacities, busy in (
        ({"cores": 1_010_432, "services": 140_550, "accelerators": 160_000, "network cards": 666_757}, 0.8),
        ({"cores": 90_000, "services": 140_550, "accelerators": 160_000}, 1.0),
        ({"cores": 500, "services": 600, "accelerators": 400}, 0.5),
    ):
        given = expect_written(answer(dict(capacities), busy))
        if not isinstance(given, tuple) or len(given) != 2:
            raise Wrong("Return two things: the name of the part, and the speed.")
        part, speed = full_first(capacities, busy)
        if given[0] != part:
            raise Wrong(f"Of {capacities} you say {given[0]!r}. All frames go through every part; which one carries "
                        "the fewest?")
        expect_close(given[1], speed, f"{part} is full first; the speed",
                     {"it carries": capacities[part], "busy": busy})


def dollars(frames_per_s, cores, accelerators, core_price, accelerator_price):
    """Dollars for a billion frames; prices are for an hour."""
    hours = 1e9 / frames_per_s / 3600
    return hours * (cores * core_price + accelerators * accelerator_price)


cost = compared(
    dollars,
    (1_000_000, 128, 12, 0.0475, 2.0), (100_000, 64, 1, 0.05, 2.0), (2_400_000, 4160, 64, 0.0475, 1.0),
    words="dollars per billion frames",
    names=("frames/s", "cores", "accelerators", "core, $/h", "accelerator, $/h"),
    why="A billion frames take 10⁹ / speed seconds, and every part is paid for them.",
)
accelerators = Exercise(
    _check_accelerators, 8,
    why="1,000,000 frames/s are 250,000 steps/s, or 6.25 accelerators; at 80% 7.8, so 8.",
)
bottleneck = Exercise(_check_full_first, full_first,
                      why="A chain of parts carries what its weakest part carries, whatever the others could.")
killed = choice(
    "all go back", {
        "the other goes on": "After each update both have the same weights, because they average their gradients. With "
                             "whom would the other one average?",
        "the run ends": "The supervisor is alive, and it starts what dies. From where can a learner go on?",
    },
    why="Gradients are averaged among a fixed number of learners, so they are one unit: all start again from the "
        "newest checkpoint. The more learners, the more often one of them dies.",
)

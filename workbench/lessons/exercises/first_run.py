"""Exercises of lesson 1."""

from __future__ import annotations

from typing import Any

import pandas as pd

from workbench.lessons.answers import choice, expect_close, expect_written, number
from workbench.lessons.exercise import Exercise, Wrong

FRAMES, BATCH, UNROLL = 80_000, 8, 20


updates = number(
    FRAMES // (BATCH * UNROLL), "frames / (unrolls in a batch x steps in an unroll)",
    {"frames": FRAMES, "batch_size": BATCH, "unroll_length": UNROLL},
    hints={FRAMES / BATCH: f"A batch has {BATCH} unrolls. How many steps is an unroll?"},
    why="An update takes 8 unrolls of 20 steps, 160 steps, and a frame of CartPole is a step: 80,000 / 160 = 500.",
)

restart = choice(
    "goes on", {
        "stops": "The run is not in the kernel: look at the drawing again.",
        "pauses": "Nothing of the run waits for the kernel: look at the drawing again.",
    },
    why="Supervisor, learner and actors are processes of their own. The kernel only holds a handle.",
)


def frames_to_reach(history, target):  # type: ignore[no-untyped-def]
    """Frames at which the return was at least `target` for the first time; None if it never was."""
    there = history[history.value >= target]
    return None if there.empty else float(there.frames.iloc[0])


def _check_frames(answer: Any) -> None:
    history = pd.DataFrame({"frames": [1_000.0, 2_000, 3_000, 4_000], "value": [20.0, 90, 50, 200]})
    for target, expected, words in ((50, 2_000.0, "the first row that is high enough counts"),
                                    (200, 4_000.0, "a return equal to the target has reached it"),
                                    (10, 1_000.0, "the first row of all may be high enough")):
        given = answer(history, target)
        if given is None and target == 200:
            raise Wrong("The last return is 200 here, and for a target of 200 None came: a return equal to the target "
                        "has reached it.")
        expect_close(expect_written(given), expected, words,
                     {"frames": history.frames, "value": history.value, "target": target})
    if answer(history, 500) is not None:
        raise Wrong(f"The return never reaches 500 here: None is expected, and {answer(history, 500)!r} came.")


reached = Exercise(
    _check_frames, frames_to_reach, why="Keep the rows that are high enough; the first of them is it, if there is one.",
)

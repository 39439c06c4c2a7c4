"""Answers to the exercises of lesson 11 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

from workbench.lessons.exercises.breaking import ANSWERS

WRONG: dict[str, list[Any]] = {
    "predictions": [{**ANSWERS, "kill the supervisor": "A"}, {**ANSWERS, "fill the disk": ...},
                    {"kill an actor": "A"}, dict.fromkeys(ANSWERS, "B")],
    "partial_unrolls": [lambda steps, length: sum(steps), lambda steps, length: len(steps) * length,
                        lambda steps, length: max(steps) % length],
    "rollback": [lambda checkpoints, frames: max(checkpoints), lambda checkpoints, frames: frames,
                 lambda checkpoints, frames: max([at for at in checkpoints if at < frames] or [0]),
                 lambda checkpoints, frames: checkpoints[-1] if checkpoints else 0],
}

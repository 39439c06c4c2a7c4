"""Answers to the exercises of lesson 9 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

from workbench.lessons.exercises.sizing import dollars

WRONG: dict[str, list[Any]] = {
    "accelerators": [7, 25, 32, 7.8125, 12],
    "bottleneck": [
        lambda capacities, busy: (max(capacities, key=capacities.get), busy * max(capacities.values())),
        lambda capacities, busy: (min(capacities, key=capacities.get), min(capacities.values())),
        lambda capacities, busy: busy * min(capacities.values()),
        lambda capacities, busy: ("cores", busy * capacities["cores"]),
    ],
    "cost": [
        lambda speed, cores, accelerators, core, accelerator: cores * core + accelerators * accelerator,
        lambda speed, *others: dollars(speed, *others) * 60,
        lambda speed, cores, accelerators, core, accelerator: dollars(speed, 0, accelerators, core, accelerator),
    ],
    "killed": ["the other goes on", "the run ends", "nothing"],
}

"""Answers to the exercises of lesson 5 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

from workbench.lessons.sealed_runs import SEALED

WRONG: dict[str, list[Any]] = {
    **{f"broken_{number}": [*(field for field in sealed.fields if field != sealed.fault), "network"]
       for number, sealed in SEALED.items()},
    "evidence": ["a", "b", "d"],
}

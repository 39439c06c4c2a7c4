"""Answers to the exercises of lesson 8 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

WRONG: dict[str, list[Any]] = {
    "value": [
        lambda steps, chance, discount: chance * discount**steps,
        lambda steps, chance, discount: discount ** (steps - 1),
        lambda steps, chance, discount: chance,
        lambda steps, chance, discount: chance * (1 - discount) * steps,
    ],
    "interval": [
        lambda games, level: 0.0,
        lambda games, level: level / games,
        lambda games, level: level ** (1 / games),
        lambda games, level: 1 - level,
    ],
    "favourite": ["sprint", "right", "dribble", "idle", "long pass"],
}

"""Answers to the exercises of lesson 14 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

import numpy as np

WRONG: dict[str, list[Any]] = {
    "elo": [lambda rating, other: 1 / (1 + 10 ** ((rating - other) / 400)),
            lambda rating, other: rating / (rating + other),
            lambda rating, other: 1 / (1 + np.exp((other - rating) / 400))],
    "response": [lambda payoff, mix: int(np.argmax(mix)), lambda payoff, mix: int(np.argmax(mix @ payoff)),
                 lambda payoff, mix: (int(np.argmax(mix)) + 1) % len(mix), lambda payoff, mix: (payoff @ mix).max()],
    "exploited": [lambda payoff, mix: float(mix @ payoff @ mix), lambda payoff, mix: float(np.max(mix) - np.min(mix)),
                  lambda payoff, mix: float(np.abs(payoff @ mix).sum())],
    "generation": ["a", "b", "d"],
}

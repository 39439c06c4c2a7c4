"""Answers to the exercises of lesson 7 that are wrong in ways that students are."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.lessons.exercises.own_game import Skier


class IntegersSeen(Skier):
    """Whole numbers, where its space says float32."""

    def seen(self) -> Any:
        return np.array([self.column, self.gate, self.rows])


class UnseededGates(Skier):
    """Gates that no seed repeats."""

    def next_gate(self) -> None:
        self.rows, self.gate = 5, int(np.random.default_rng().integers(9))


class SameGate(Skier):
    """Each gate is drawn by a generator that begins anew."""

    def next_gate(self) -> None:
        self.rows, self.gate = 5, int(np.random.default_rng(0).integers(9))


class SameGames(Skier):
    """Each game is the same, whatever its seed."""

    def reset(self, **_: Any) -> Any:
        return super().reset(seed=0)


class OneGate(Skier):
    """One gate is drawn for the whole game."""

    def next_gate(self) -> None:
        self.rows, self.gate = 5, self.gate if self.passed else int(self.np_random.integers(9))


class EightColumns(Skier):
    """No gate is in the last column."""

    def next_gate(self) -> None:
        self.rows, self.gate = 5, int(self.np_random.integers(8))


class StartsAtTheEdge(Skier):
    """The first column is 0."""

    def reset(self, **options: Any) -> Any:
        super().reset(**options)
        self.column = 0
        return self.seen(), {}


class NarrowSlope(Skier):
    """The last column cannot be reached."""

    def step(self, action: Any) -> Any:
        _, *others = super().step(action)
        self.column = min(self.column, 7)
        return self.seen(), *others


class WideGates(Skier):
    """A gate is five columns wide."""

    def step(self, action: Any) -> Any:
        gate, rows = self.gate, self.rows
        seen, _, *others = super().step(action)
        return seen, float(rows == 1 and abs(self.column - gate) <= 2), *others


class KeepsCounting(Skier):
    """Gates passed in earlier games count in this one."""

    passed = 0

    def reset(self, **options: Any) -> Any:
        before = self.passed
        found = super().reset(**options)
        self.passed = before
        return found


class NeverEnds(Skier):
    """A game without an end."""

    def step(self, action: Any) -> Any:
        seen, reward, _, _, info = super().step(action)
        return seen, reward, False, False, info


class CutOff(Skier):
    """A game that is cut off where it is over."""

    def step(self, action: Any) -> Any:
        seen, reward, over, _, info = super().step(action)
        return seen, reward, False, over, info


class AnotherGame(Skier):
    """A game that pays for every row."""

    def step(self, action: Any) -> Any:
        seen, _, over, _, info = super().step(action)
        return seen, 1.0, over, False, info


WRONG: dict[str, list[Any]] = {
    "skier": [IntegersSeen, UnseededGates, SameGate, SameGames, OneGate, EightColumns, StartsAtTheEdge, NarrowSlope,
              WideGates, KeepsCounting, NeverEnds, CutOff, AnotherGame, Skier()],
    "best": [15, 24, 9.6, 100],
    "never_moves": [9, 4.8, 5.4, 0],
    "comparable": ["returns", "values", "nothing", "frames"],
}

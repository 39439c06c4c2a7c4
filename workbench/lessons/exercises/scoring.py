"""Exercises of lesson 8: what a value promises, what won games show, and what an agent does most."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# The solutions stand in a lesson as a student would write them.

from __future__ import annotations

from typing import Any

from workbench.lessons.answers import choice, compared, expect_close, expect_written
from workbench.lessons.exercise import Exercise, Wrong


def goal_value(steps, chance, discount):
    """The value k steps before the end of a game that ends, with that chance, with a goal; k = 1: the last step."""
    return chance * discount ** (steps - 1)


value = compared(
    goal_value,
    (1, 1.0, 0.99, "at the last step, whose reward is not discounted"),
    (12, 1.0, 0.99, "twelve steps before a certain goal"),
    (50, 0.5, 0.97, "where a goal is not certain"),
    why="The reward of the last step counts whole, each step before it multiplies by the discount once.",
)


def could_lose(games, level):
    """The largest share of lost games with which so many games are all won in `level` of all cases."""
    return 1 - level ** (1 / games)


def _check_could_lose(answer: Any) -> None:
    for games, level in ((30, 0.05), (100, 0.05), (2, 0.25), (30, 0.5)):
        given = float(expect_written(answer(games, level)))
        if given == 0:
            raise Wrong("With a share of 0 all games are won, but they may be with a larger one, too. Which is the "
                        "largest?")
        expect_close(given, could_lose(games, level), "the share q with (1 − q)^games = level",
                     {"games": games, "level": level})


interval = Exercise(
    _check_could_lose, could_lose,
    why="(1 − q)^n = level. For n = 30 and 5% that is q = 9.5%, about 3/n: the rule of three.",
)
favourite = choice(
    "shot", {
        "sprint": "Sprinting shortens the way by some steps. How far is the ball from the goal, and who keeps it?",
        "right": "A player who has the ball and stands before an empty goal need not walk.",
        "dribble": "Dribbling keeps the ball away from opponents. Where are they?",
        "idle": "Standing still would let the ball be. The policy wins in a dozen steps.",
    },
    why="The goal is empty and close, so it shoots at once. Most of what a footballer can do this task never asks for, "
        "and so the policy has not learnt it.",
)

"""Exercises of lesson 14: best responses, ratings, and what a frozen opponent leads to."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# The solutions stand in a lesson as a student would write them.

from __future__ import annotations

import numpy as np

from workbench.lessons.answers import choice, compared

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def expected_score(rating, other):
    """The probability that a player with `rating` beats one with the rating `other`."""
    return 1 / (1 + 10 ** ((other - rating) / 400))


elo = compared(
    expected_score,
    (1500.0, 1500.0, "of equals"), (1900.0, 1500.0, "400 points ahead"), (1500.0, 1700.0, "200 points behind"),
    why="400 points are odds of 10 to 1. Only the difference counts, so ratings have no zero of their own.",
)


def best_response(payoff, mix):
    """The number of the action with the highest expected payoff against a mix of actions."""
    return int(np.argmax(payoff @ mix))


COORDINATION = np.array([[0.0, 3.0], [2.0, 0.0]])
response = compared(
    best_response,
    (ROCK_PAPER_SCISSORS, np.array([0.8, 0.1, 0.1]), "against much rock (0), in rock, paper, scissors"),
    (ROCK_PAPER_SCISSORS, np.array([0.1, 0.8, 0.1]), "against much paper (1), in rock, paper, scissors"),
    (ROCK_PAPER_SCISSORS, np.array([0.4, 0.25, 0.35]), "against a little more rock, in rock, paper, scissors"),
    (COORDINATION, np.array([0.5, 0.5]), "in another game (rows are yours, columns the opponent's)"),
    (COORDINATION, np.array([0.9, 0.1]), "in another game, against mostly action 0"),
    why="payoff @ mix has the mean payoff of each of your actions; take the row with the highest.",
)


def exploitability(payoff, mix):
    """What the best response gains against a mix, in a game that is fair to both."""
    return float(np.max(payoff @ mix))


exploited = compared(
    exploitability,
    (ROCK_PAPER_SCISSORS, np.array([1, 1, 1]) / 3, "of the even mix"),
    (ROCK_PAPER_SCISSORS, np.array([1.0, 0.0, 0.0]), "of always rock"),
    (ROCK_PAPER_SCISSORS, np.array([0.5, 0.3, 0.2]), "of a mix with too much rock"),
    (ROCK_PAPER_SCISSORS, np.array([0.5, 0.2, 0.3]), "of another one with too much rock"),
    why="0 means that nothing beats it: that is an equilibrium of a fair game of two players.",
)


generation = choice(
    "c", {
        "a": "Newer is better only where skill adds up. Write down what each generation plays, from 0 to 3.",
        "b": "That would be so if both played evenly. Write down what each generation plays, from 0 to 3.",
    },
    why="0 plays rock, 1 paper, 2 scissors, and 3 rock again, which loses against the paper of 1.",
)

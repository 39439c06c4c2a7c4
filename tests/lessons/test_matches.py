"""Ratings of a matrix of win rates; the matches themselves are played by lesson 14's test."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.lessons import matches


def test_ratings_come_back_from_the_rates_that_they_expect() -> None:
    ratings = np.array([-300.0, 0.0, 100.0, 200.0])
    rates = 1 / (1 + 10 ** ((ratings[None] - ratings[:, None]) / 400))
    assert matches.elo(rates) == pytest.approx(ratings, abs=1)


def test_a_circle_has_equal_ratings() -> None:
    circle = np.array([[0.5, 0.0, 1.0], [1.0, 0.5, 0.0], [0.0, 1.0, 0.5]])
    assert matches.elo(circle) == pytest.approx(np.zeros(3), abs=1e-6)


def test_somebody_who_always_wins_is_rated_finitely_and_highest() -> None:
    ratings = matches.elo(np.array([[0.5, 1.0], [0.0, 0.5]]))
    assert ratings[0] - ratings[1] == pytest.approx(400 * np.log10(99), abs=1)

"""Exercises of lesson 12: the interquartile mean, a bootstrap interval, and what results allow to say."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# The solutions stand in a lesson as a student would write them.

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.lessons.answers import compared, expect_written, table
from workbench.lessons.exercise import Exercise, Wrong
from workbench.lessons.recorded_tables import recorded


def hundred_returns() -> Any:
    """The recorded returns of 100 episodes that one policy played, [100]."""
    table = recorded("seeds-episodes").query("game == 'CartPole-v1' and arm == 'A' and seed == 0")
    return table["return"].to_numpy()


def share_within_tenth(draws: int = 20_000) -> float:
    """The share of draws of two episodes whose mean is within 10% of the mean of all 100."""
    returns = hundred_returns()
    means = np.random.default_rng(0).choice(returns, (draws, 2)).mean(1)
    return float((abs(means - returns.mean()) < 0.1 * returns.mean()).mean())


def _check_two_episodes(answer: Any) -> None:
    number, right = float(expect_written(answer)), share_within_tenth()
    if number > 1:
        raise Wrong(f"A share lies between 0 and 1, and {number:g} does not.")
    if abs(number - right) > 0.1:
        more = "fewer" if number > right else "more"
        raise Wrong(f"It is {more} than {number:.0%} of the draws. Draw twenty times by the cell above, and count.")


two_episodes = Exercise(
    _check_two_episodes, 0.32,  # of the record; tests/notebooks/test_which_is_better.py computes it
    why="The returns of single episodes scatter widely, and the mean of two of them hardly less.",
)


def interquartile_mean(scores):
    """The mean of the middle half of all scores [runs, games] together."""
    flat = np.sort(scores.ravel())
    cut = len(flat) // 4
    return flat[cut : len(flat) - cut].mean()


iqm = compared(
    interquartile_mean,
    (np.array([[0.0], [1.0], [2.0], [3.0]]), "of four runs on one game (the lowest and the highest are left out)"),
    (np.array([[3.0], [0.0], [90.0], [1.0]]), "where the runs are not in order and one is an outlier"),
    (np.array([[0.0, 10.0], [1.0, 11.0], [2.0, 12.0], [30.0, 13.0]]),
     "of two games, which are put together before sorting"),
    (np.array([[0.0], [0.0], [0.0], [1.0], [5.0], [9.0]]), "of six scores, of which ⌊6/4⌋ = 1 is left out at each end"),
    why="Outliers do not count, as in the median, but half of the runs do, so that it varies less.",
)


def bootstrap_interval(scores, statistic, resamples=2000, confidence=0.95):
    """Ends of the percentile bootstrap interval of a statistic of scores [runs, games]."""
    runs, games = scores.shape
    random, values = np.random.default_rng(), []
    for _ in range(resamples):
        rows = random.integers(runs, size=(runs, games))  # of each game its own
        values.append(statistic(scores[rows, np.arange(games)]))
    return np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])


def _check_bootstrap(answer: Any) -> None:
    levels = np.repeat([[0.0, 1.0]], 6, axis=0)
    _expect_interval(answer, levels, np.mean, "where all runs of a game score alike: there is nothing that could vary "
                     "(runs are drawn within each game, so the games keep their shares)")
    scores = np.random.default_rng(1).normal([0.3, 0.7], 0.2, size=(10, 2))
    _expect_interval(answer, scores, np.mean, "of the mean of ten runs on two games")
    _expect_interval(answer, scores, np.size, "of the number of scores: a resample has as many as the original")
    alike = scores[:, :1] + np.arange(4.0)
    _expect_interval(answer, alike, np.mean, "where a run that is good at one game is good at all four (of each game "
                     "other runs are drawn)")
    _expect_interval(answer, scores, np.max, "of the highest score")
    _expect_interval(answer, scores, np.mean, "with confidence 0.5", confidence=0.5)


def _expect_interval(answer: Any, scores: Any, statistic: Any, words: str, **confidence: float) -> None:
    ends = np.asarray(expect_written(answer(scores, statistic, **confidence)), float)
    low, high = bootstrap_interval(scores, statistic, **confidence)
    if ends.shape != (2,):
        raise Wrong(f"{words}: two numbers are needed, the low and the high end, and it returns {ends.tolist()!r:.80}.")
    if np.abs(ends - (low, high)).max() > 0.15 * (high - low) + 1e-9:
        raise Wrong(f"{words}, it differs by more than chance.\n  yours:    {ends.round(3).tolist()}\n"
                    f"  expected: about {np.round([low, high], 3).tolist()}")


bootstrap = Exercise(
    _check_bootstrap, bootstrap_interval,
    why="Drawing runs again from those that there are stands for training again. Each resample is as large as the "
        "original, runs may occur twice, and games are never mixed.",
)

CLAIMS = {"best seed": "not supported", "three seeds": "undecided", "ten seeds": "supported"}
HINTS = {
    "best seed": "the maximum grows with the number of seeds, whatever is compared; ask what the other seeds did.",
    "three seeds": "look at the interval of the probability of improvement, and whether 0.5 lies in it.",
    "ten seeds": "look at whether 0.5 lies in the interval, and at what exactly is claimed.",
}


claims = table(
    CLAIMS, HINTS, missing="There are answers missing: give each claim 'supported', 'undecided' or 'not supported'.",
    why="The best seed says nothing of the next one. Three seeds leave both orders open. In the third claim the whole "
        "interval lies above 0.5, and no more is claimed than that.",
)

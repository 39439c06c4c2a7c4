"""The sum tree against sums and draws done the slow way."""

from __future__ import annotations

import time

import numpy as np
import pytest

from workbench.errors import OutOfBounds
from workbench.replay.sum_tree import SumTree


def chi_square_is_plausible(counts: np.ndarray, probabilities: np.ndarray, *, deviations: float = 5.0) -> bool:
    """Whether Pearson's statistic lies below the normal quantile at `deviations` (Wilson and Hilferty 1931)."""
    possible = probabilities > 0
    if counts[~possible].any():
        return False
    expected = counts.sum() * probabilities[possible]
    assert expected.min() > 5, "too few draws for the test"
    statistic, freedom = ((counts[possible] - expected) ** 2 / expected).sum(), possible.sum() - 1
    spread = 2 / (9 * freedom)
    return bool((statistic / freedom) ** (1 / 3) < 1 - spread + deviations * spread**0.5)


class Fixed:
    """A generator whose draws are given; a real one cannot be brought to the edges."""

    def __init__(self, *draws: float) -> None:
        self.draws = np.array(draws)

    def random(self, count: int) -> np.ndarray:
        return np.resize(self.draws, count)


def filled(weights: np.ndarray) -> SumTree:
    tree = SumTree(len(weights))
    tree.set(np.arange(len(weights)), weights)
    return tree


@pytest.mark.parametrize("capacity", [3, 64, 100, 1000])
def test_rows_are_drawn_in_proportion_to_their_weights(capacity: int) -> None:
    random = np.random.default_rng(capacity)
    weights = random.uniform(0.2, 2.0, capacity)
    weights[2::7] = 0
    counts = np.bincount(filled(weights).sample(100_000, random), minlength=capacity)
    assert len(counts) == capacity
    assert chi_square_is_plausible(counts, weights / weights.sum())


def test_the_chi_square_test_sees_a_wrong_distribution() -> None:
    random = np.random.default_rng(0)
    weights = random.uniform(0.2, 2.0, 100)
    counts = np.bincount(filled(weights**0.9).sample(100_000, random), minlength=100)
    assert not chi_square_is_plausible(counts, weights / weights.sum())


def test_neighbouring_draws_are_independent() -> None:
    weights = np.array([1.0, 2.0, 3.0, 0.5, 0.0])
    rows = filled(weights).sample(100_000, np.random.default_rng(0))
    pairs = np.bincount(5 * rows[::2] + rows[1::2], minlength=25)
    assert chi_square_is_plausible(pairs, np.outer(weights, weights).ravel() / weights.sum() ** 2)


@pytest.mark.parametrize("capacity", [1, 2, 3, 17, 100, 128])
def test_weights_and_total_follow_thousands_of_random_changes(capacity: int) -> None:
    random = np.random.default_rng(capacity)
    tree, slow = SumTree(capacity), [0.0] * capacity
    for _ in range(3000):
        rows = random.integers(0, capacity, random.integers(0, 12))  # some come more than once
        weights = random.lognormal(0, 3, len(rows)) * (random.random(len(rows)) < 0.8)
        tree.set(rows, weights)
        for row, weight in zip(rows, weights, strict=True):
            slow[row] = weight
        assert tree.total == pytest.approx(sum(slow), rel=1e-12)
        some = random.integers(0, capacity, 5)
        assert tree.get(some).tolist() == [slow[row] for row in some]
    assert tree.get(np.arange(capacity)).tolist() == slow


def test_rounding_does_not_add_up_over_changes() -> None:
    random = np.random.default_rng(0)
    tree = SumTree(100)
    for _ in range(5000):
        tree.set(random.integers(0, 100, 4), 10.0 ** random.uniform(-12, 12, 4))
    tree.set(np.arange(100), np.full(100, 0.1))
    for row in range(100):
        tree.set([row], [0.1])
    assert tree.total == filled(np.full(100, 0.1)).total == pytest.approx(10, rel=1e-14)


def test_one_call_for_all_rows_gives_the_same_sums_as_one_call_each() -> None:
    weights = np.random.default_rng(0).lognormal(0, 3, 100)
    one_by_one = SumTree(100)
    for row, weight in enumerate(weights):
        one_by_one.set([row], [weight])
    draws = np.random.default_rng(1).random(1000)
    assert one_by_one.total == filled(weights).total
    assert (one_by_one.sample(1000, Fixed(*draws)) == filled(weights).sample(1000, Fixed(*draws))).all()


@pytest.mark.parametrize("draw", [0.0, 1 / 3, 0.5, float(np.nextafter(1, 0)), 1.0])
def test_a_row_of_weight_zero_is_not_drawn_at_any_edge(draw: float) -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        weights = 10.0 ** random.uniform(-20, 20, 13) * (random.random(13) < 0.4)
        weights[random.integers(13)] = random.choice([1e-300, 5e-324, 1.0, 0.1, 1e300])
        row = filled(weights).sample(1, Fixed(draw))[0]
        assert weights[row] > 0


def test_a_mass_at_or_beyond_the_total_means_the_last_row_that_has_weight() -> None:
    weights = np.array([0.1, 0.2, 0.3, 0.0, 0.7, 0.0, 0.0, 0.0])
    assert filled(weights).sample(2, Fixed(1.0, 1.5)).tolist() == [4, 4]


def test_a_mass_on_a_border_means_the_row_that_begins_there() -> None:
    assert filled(np.array([1.0, 0.0, 1.0, 2.0])).sample(4, Fixed(0.0, 0.25, 0.5, 0.75)).tolist() == [0, 2, 3, 3]


def test_there_is_nothing_to_draw_where_all_weights_are_zero() -> None:
    with pytest.raises(OutOfBounds, match="sum is 0"):
        SumTree(5).sample(1, np.random.default_rng(0))


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_a_weight_that_is_none_is_refused_and_changes_nothing(weight: float) -> None:
    tree = filled(np.array([1.0, 2.0]))
    with pytest.raises(OutOfBounds, match=f"weight {weight}"):
        tree.set([0, 1], [3.0, weight])
    assert tree.get([0, 1]).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("row", [-1, 5, 7])
def test_a_row_that_does_not_exist_is_refused(row: int) -> None:
    tree = SumTree(5)
    with pytest.raises(OutOfBounds, match=f"row {row} .* 0 … 4"):
        tree.set([0, row], [1.0, 1.0])
    with pytest.raises(OutOfBounds, match=f"row {row} "):
        tree.get([row])


def test_a_change_and_a_draw_in_a_thousand_times_larger_tree_take_no_thousand_times_as_long() -> None:
    def seconds(capacity: int) -> float:
        random = np.random.default_rng(0)
        tree = filled(random.random(capacity))
        rows, weights = random.integers(0, capacity, 64), random.random(64)
        best = np.inf
        for _ in range(20):
            began = time.perf_counter()
            for _ in range(20):
                tree.set(rows, weights)
                tree.sample(64, random)
            best = min(best, time.perf_counter() - began)
        return best

    assert seconds(2**20) < 100 * seconds(2**10), "logarithmic: 2, or 10 on a busy machine's caches; linear: 1024"

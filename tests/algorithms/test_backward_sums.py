"""Passes over all steps give what a loop over the steps, backwards in time, gives in Python's floats."""

import numpy as np
import pytest
import torch

from workbench.algorithms.backward_sums import backward_sums

COLUMNS = 3


def test_products_that_overflow_are_no_part_of_a_sum_of_zeros() -> None:
    terms, factors = torch.zeros(64, 1), torch.full((64, 1), 100.0)
    terms[0] = 1.0
    assert backward_sums(terms, factors)[0] == 1.0


@pytest.mark.parametrize("steps", [*range(1, 19), 31, 32, 33, 100])
def test_they_are_those_of_a_loop(steps: int) -> None:
    random = np.random.default_rng(steps)
    terms, factors = random.normal(size=(steps, COLUMNS)), random.uniform(size=(steps, COLUMNS))
    factors[random.random(factors.shape) < 0.1] = 0.0  # where episodes end
    expected, following = np.zeros((steps, COLUMNS)), [0.0] * COLUMNS
    for step in reversed(range(steps)):
        following = [float(terms[step, column]) + float(factors[step, column]) * following[column]
                     for column in range(COLUMNS)]
        expected[step] = following
    given = torch.from_numpy(terms), torch.from_numpy(factors)
    before = [one.clone() for one in given]
    torch.testing.assert_close(backward_sums(*given), torch.from_numpy(expected), rtol=1e-12, atol=1e-12)
    assert all(torch.equal(one, other) for one, other in zip(given, before, strict=True))  # not changed

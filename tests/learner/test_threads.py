"""How many threads train is tried in turns, and what is no faster does not stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

import workbench as wb
from tests.conftest import SMALL
from workbench.learner.training import threads as module
from workbench.learner.training.threads import FIRST_S, PAIRS, STRETCH_S, Threads


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The number of torch's threads belongs to the process."""
    number = torch.get_num_threads()
    yield
    torch.set_num_threads(number)


class Trained:
    """`seconds` long updates by the number of threads, on a clock of their own."""

    def __init__(self, seconds: Callable[[int], float], *, count: int, most: int) -> None:
        self.now, self.used, self.told = 0.0, list[int](), list[str]()
        self._seconds = seconds
        self.threads = Threads(count, most=most, tell=self.told.append, clock=lambda: self.now)

    def for_s(self, seconds: float) -> Trained:
        end = self.now + seconds
        while self.now < end:
            self.used.append(torch.get_num_threads())
            self.now += self._seconds(self.used[-1])
            self.threads.updated()
        return self


def test_twice_as_many_threads_stay_where_they_are_faster() -> None:
    trained = Trained(lambda threads: 0.1 / threads**0.5, count=1, most=2).for_s(FIRST_S + 3 * PAIRS * STRETCH_S)
    assert trained.threads.count == 2 and trained.used[-1] == 2
    assert trained.told == ["training takes 2 threads from now on: 1.41 times the updates/s of 1"]


def test_half_as_many_stay_where_they_are_faster() -> None:
    """A network so small that its threads only wait for each other, on many cores."""
    trained = Trained(lambda threads: 0.01 * threads, count=8, most=16).for_s(3600)
    assert trained.threads.count == 1 and len(trained.told) == 3


@pytest.mark.parametrize("factor", [1.0, 1.5, 11.0])
def test_a_slower_number_costs_little(factor: float) -> None:
    """It ends after one stretch or two, and the next try comes later each time: below 1 % of an hour."""
    trained = Trained(lambda threads: 0.1 if threads == 1 else 0.1 * factor, count=1, most=2).for_s(3600)
    assert trained.threads.count == 1 and not trained.told and 2 in trained.used
    tried_s = sum(0.1 * factor for threads in trained.used if threads == 2)
    assert tried_s * (1 - 1 / factor) < 36 and trained.used[-1] == 1


def test_a_pause_counts_for_neither() -> None:
    """An hour's pause in the first stretch of one thread would speak for two."""
    trained = Trained(lambda threads: 0.1, count=1, most=2).for_s(FIRST_S + 1)
    trained.now += 3600
    trained.threads.interrupted()
    trained.for_s(3600)
    assert trained.threads.count == 1 and not trained.told


def test_a_number_that_somebody_gave_stays() -> None:
    trained = Trained(lambda threads: 0.1 / threads, count=1, most=0).for_s(1000)
    assert set(trained.used) == {1}


def test_a_run_tries_unless_it_was_told_a_number(home: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the run's own loop, on whatever machine this is: with two cores there are two numbers."""
    monkeypatch.setattr(module, "FIRST_S", 0.0)
    monkeypatch.setattr(module, "STRETCH_S", 0.01)
    monkeypatch.setattr("workbench.config.hardware.cores", lambda: 2)
    asked: list[int] = []
    really = torch.set_num_threads
    monkeypatch.setattr(torch, "set_num_threads", lambda number: (asked.append(number), really(number))[1])
    for given, numbers in ((0, {1, 2}), (1, {1})):
        asked.clear()
        run = wb.launch("testing/catch-v0", launcher="inline", **{**SMALL, "learner_threads": given})
        run.wait(updates=60, timeout_s=300)
        run.stop(timeout_s=0)
        assert set(asked) == numbers

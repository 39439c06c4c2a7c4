"""How many threads train is tried in turns, and what is no faster does not stay."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import workbench as wb
from tests.conftest import SMALL
from workbench.config import RunConfig
from workbench.learner.build import Builder
from workbench.learner.training import thread_count as module
from workbench.learner.training.thread_count import FIRST_S, PAIRS, STRETCH_S, Threads
from workbench.metrics import MetricsWriter


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The number of torch's threads belongs to the process."""
    number = torch.get_num_threads()
    yield
    torch.set_num_threads(number)


class Trained:
    """`seconds` long updates by the number of threads, on a clock of their own."""

    def __init__(self, seconds: Callable[[int], float], *, count: int, most: int, idle_cores: float = 1.0) -> None:
        self.now, self.used, self.told = 0.0, list[int](), list[str]()
        self._seconds = seconds
        self.threads = Threads(count, most=most, tell=self.told.append, clock=lambda: self.now,
                               idle=lambda: self.now * idle_cores)

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
    """A network so small that its threads only wait for each other, on many busy cores."""
    trained = Trained(lambda threads: 0.01 * threads, count=32, most=64, idle_cores=0.0).for_s(200)
    assert trained.threads.count == 1 and len(trained.told) == 5
    assert trained.told[-1] == "training takes 1 thread from now on: 2.00 times the updates/s of 2"


def test_more_threads_leave_alone_what_others_use() -> None:
    """Another run has the other core."""
    trained = Trained(lambda threads: 0.1 / threads, count=1, most=2, idle_cores=0.05).for_s(3600)
    assert set(trained.used) == {1}


def test_what_becomes_faster_by_itself_is_no_gain() -> None:
    """While actors come up, each stretch has more updates than the one before."""
    trained = Trained(lambda threads: 0.2 / (1 + trained.now / 20), count=1, most=2)
    trained.for_s(600)
    assert 2 in trained.used and trained.threads.count == 1
    assert len(trained.told) == 1 and trained.told[0].startswith("training stays with 1 thread: 2 made ")


def test_a_try_that_another_program_disturbed_says_nothing() -> None:
    """Faster in one pair and far slower in the next: neither is known to be faster."""
    disturbed = 0.0

    def seconds(threads: int) -> float:
        return 0.1 if threads == 1 else 0.1 / 1.5 if trained.now < disturbed else 0.1 / 0.7

    trained = Trained(seconds, count=1, most=2)
    while torch.get_num_threads() == 1:
        trained.for_s(0.1)
    disturbed = trained.now + 1.5 * STRETCH_S
    trained.for_s(6 * STRETCH_S)
    assert trained.threads.count == 1 and not trained.told


@pytest.mark.parametrize("factor", [1.0, 1.5, 11.0])
def test_a_slower_number_costs_little(factor: float) -> None:
    """It ends after one stretch or two, and the next try comes later each time: about 1 % of an hour."""
    trained = Trained(lambda threads: 0.1 if threads == 1 else 0.1 * factor, count=1, most=2).for_s(3600)
    assert trained.threads.count == 1 and 2 in trained.used
    assert trained.told == [f"training stays with 1 thread: 2 made {1 / factor:.2f} times the updates/s"], "once"
    tried_s = sum(0.1 * factor for threads in trained.used if threads == 2)
    assert tried_s * (1 - 1 / factor) < 45 and trained.used[-1] == 1


def test_a_pause_counts_for_neither() -> None:
    """An hour's pause in the first stretch of one thread would speak for two."""
    trained = Trained(lambda threads: 0.1, count=1, most=2).for_s(FIRST_S + 1)
    trained.now += 3600
    trained.threads.interrupted()
    trained.for_s(3600)
    assert trained.threads.count == 1
    assert trained.told == ["training stays with 1 thread: 2 made 1.00 times the updates/s"]


def test_a_try_that_is_interrupted_leaves_the_number_of_before() -> None:
    """By a pause or, for good, by echoes."""
    trained = Trained(lambda threads: 0.1 / threads, count=1, most=2)
    while torch.get_num_threads() == 1:
        trained.for_s(0.1)
    trained.threads.interrupted()
    assert torch.get_num_threads() == 1 == trained.threads.count
    trained.for_s(FIRST_S + 3 * PAIRS * STRETCH_S)
    assert trained.threads.count == 2


def test_cores_that_become_idle_later_are_soon_used() -> None:
    trained = Trained(lambda threads: 0.1 / threads, count=1, most=2, idle_cores=0.0).for_s(1300)
    busy_until = trained.now
    trained.threads._idle = lambda: max(0.0, trained.now - busy_until)
    trained.for_s(60)
    assert trained.threads.count == 2


def test_a_run_that_is_often_paused_tries_all_the_same() -> None:
    trained = Trained(lambda threads: 0.1 / threads, count=1, most=2)
    for _ in range(100):
        trained.for_s(FIRST_S / 2)
        trained.threads.interrupted()
    assert 2 in trained.used


def test_a_number_that_somebody_gave_stays() -> None:
    trained = Trained(lambda threads: 0.1 / threads, count=1, most=0).for_s(1000)
    assert set(trained.used) == {1}


def test_the_loop_of_a_run_lets_numbers_take_turns(home: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_S", 0.0)
    monkeypatch.setattr(module, "STRETCH_S", 0.01)
    monkeypatch.setattr(Builder, "_threads", lambda *_: Threads(1, most=2, idle=time.monotonic))
    asked: list[int] = []
    really = torch.set_num_threads
    monkeypatch.setattr(torch, "set_num_threads", lambda number: (asked.append(number), really(number))[1])
    run = wb.launch("testing/catch-v0", launcher="inline", **SMALL)
    run.wait(updates=60, timeout_s=300)
    run.stop(timeout_s=0)
    assert set(asked) == {1, 2}


@pytest.mark.parametrize(("fields", "device", "learners", "count", "most"), [
    ({}, "cpu", 1, 2, 4), ({"learner_threads": 1}, "cpu", 1, 1, 0), ({}, "cuda", 1, 2, 0),
    ({"learners": 2}, "cpu", 2, 1, 0), ({"launcher": "ray"}, "cpu", 1, 2, 0), ({"launcher": "inline"}, "cpu", 1, 2, 0),
    ({"exact_resume_updates": 10, "device": "cpu"}, "cpu", 1, 2, 0),
])
def test_a_number_is_tried_where_it_decides_nothing_and_the_cores_are_the_run_s(
    fields: dict[str, Any], device: str, learners: int, count: int, most: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workbench.config.hardware.cores", lambda: 4)
    builder = Builder.__new__(Builder)
    builder._state = SimpleNamespace(config=RunConfig.build("CartPole-v1", **fields))
    builder._learners = SimpleNamespace(size=learners, here=learners)
    builder._run = SimpleNamespace(metrics=tmp_path / "metrics.sqlite")
    for found in (None, -3, 3, 64):
        if found is not None:
            with closing(MetricsWriter(builder._run.metrics)) as writer:
                writer.status({"learner_threads": found})
                writer.commit()
        threads = builder._threads(SimpleNamespace(kind=device))
        assert threads._most == most
        kept = min(found or 0, 4) if most else 0  # what the life before found, if it tried
        assert threads.count == (kept if kept > 0 else count)

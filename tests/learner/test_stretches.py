"""Exact resume, its parts: whole batches in their order, and one life of each actor in a stretch."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from workbench.errors import ConnectionLost
from workbench.learner.inference.batcher import Batcher, Request
from workbench.learner.metrics.meters import Meters
from workbench.learner.training.concurrent import Concurrent
from workbench.learner.training.exact_resume import ExactResume, Interrupted
from workbench.trajectory import StepBatch
from workbench.wire.messages import GroupStep


def request(first: int, *, run_id: int = 1, alive: bool = True, count: int = 2) -> Request:
    zeros = np.zeros(count, np.float32)
    step = GroupStep(0, 0, StepBatch(zeros[:, None], zeros, zeros.astype(np.uint8)))
    rows = np.arange(first, first + count)
    return Request(rows, run_id, step, lambda _: None, lambda: alive, time.perf_counter())


def test_a_whole_batch_waits_for_all_and_is_in_the_order_of_its_environments() -> None:
    batcher = Batcher(max_batch=2, timeout_s=0.0)
    for one in (request(4), request(0)):
        batcher.put(one)
    assert batcher.whole(6, {1}, timeout_s=0.01) == []
    late = threading.Timer(0.1, batcher.put, [request(2)])
    late.start()
    assert [one.env_ids[0] for one in batcher.whole(6, {1}, timeout_s=240)] == [0, 2, 4]
    assert batcher.whole(2, {1}, timeout_s=0.01) == []


def test_a_whole_batch_has_nothing_of_other_lives() -> None:
    batcher = Batcher(max_batch=2, timeout_s=0.0)
    for one in (request(0, run_id=7), request(0), request(2, alive=False)):
        batcher.put(one)
    assert batcher.whole(4, {1}, timeout_s=0.01) == []
    batcher.put(request(2))
    assert [one.run_id for one in batcher.whole(4, {1}, timeout_s=240)] == [1, 1]
    batcher.close()
    assert batcher.whole(0, {1}, timeout_s=240) == []


def test_an_actor_that_comes_back_inside_a_stretch_ends_the_learner() -> None:
    raised: list[BaseException] = []
    parts = SimpleNamespace(trainer=SimpleNamespace(updates=0))
    state = SimpleNamespace(config=SimpleNamespace(seed=3), parts=parts, fail=raised.append)
    stretches = ExactResume(state, streams=None, meters=Meters())
    first, other = (stretches.admit(SimpleNamespace(actor=actor, run_id=actor + 10)) for actor in (0, 1))
    assert first != other and not raised
    with pytest.raises(ConnectionLost):
        stretches.admit(SimpleNamespace(actor=0, run_id=99))
    (error,) = raised
    assert isinstance(error, Interrupted) and "actor 0 came back after update 0" in str(error)
    again = ExactResume(state, streams=None, meters=Meters()).admit(SimpleNamespace(actor=0, run_id=5))
    assert again == first, "the seed is that of the stretch"


@pytest.mark.parametrize("updates", [0, 7])
def test_each_life_of_an_actor_has_other_seeds_and_first_lives_the_same_ones(updates: int) -> None:
    """An environment may end its actor in the first steps after a reset, before there is any update."""
    parts = SimpleNamespace(trainer=SimpleNamespace(updates=updates), experience=None)
    state: Any = SimpleNamespace(parts=parts, config=SimpleNamespace(seed=3))
    order = [0, 1, 0, 0, 1]
    one, again = ([schedule.admit(SimpleNamespace(actor=actor)) for actor in order]
                  for schedule in (Concurrent(state, Meters()), Concurrent(state, Meters())))
    assert one == again and len(set(one)) == len(order)

"""A round's unrolls are each trained on once an epoch, in a new order, until the round is over or has done enough."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest
import torch

from tests.replay.test_experience import made, numbers, unroll
from workbench.algorithms import Loss
from workbench.replay import wait
from workbench.replay.epochs import Epochs


def loss(enough: float | None) -> Loss:
    return Loss(torch.zeros(()), {}, enough=None if enough is None else torch.tensor(enough))


def test_each_epoch_has_every_unroll_of_the_round_once_in_a_new_order(tmp_path: Path) -> None:
    found, config, layout = made(tmp_path, "ppo", epochs=3, minibatches=2)
    assert isinstance(found, Epochs) and found.queue.capacity == 8
    for number in range(8):
        found.queue.put(unroll(layout, number))
    orders = []
    for _ in range(3):
        order = [number for _ in range(2) for number in numbers(found.next(config, timeout_s=0.0))]
        assert sorted(order) == list(range(8))
        orders.append(tuple(order))
    assert len(set(orders)) == 3 and found.between_rounds
    assert found.next(config, timeout_s=0.0) is None


def test_the_next_round_has_unrolls_of_its_own(tmp_path: Path) -> None:
    found, config, layout = made(tmp_path, "ppo", epochs=2, minibatches=1, queue_size=100)
    for number in range(9):
        found.queue.put(unroll(layout, number))
    seen = Counter()
    while (batch := found.next(config, timeout_s=0.0)) is not None:
        seen.update(numbers(batch))
        assert len(batch.unrolls) == 4, "held until it has been trained on"
    assert seen == {number: 2 for number in range(8)}, "the ninth waits for a whole round"


def test_a_round_that_is_tuned_to_be_larger_finds_room(tmp_path: Path) -> None:
    found, config, layout = made(tmp_path, "ppo", epochs=1, minibatches=2)
    larger = dataclasses.replace(config, minibatches=4)
    assert found.next(larger, timeout_s=0.0) is None and found.queue.capacity == 16
    for number in range(16):
        found.queue.put(unroll(layout, number))
    assert len({number for _ in range(4) for number in numbers(found.next(larger, timeout_s=0.0))}) == 16


def test_a_round_that_is_tuned_back_begins_by_the_settings_of_now_and_leaves_no_longer_queue(tmp_path: Path) -> None:
    found, config, layout = made(tmp_path, "ppo", epochs=1, minibatches=2)
    larger = dataclasses.replace(config, minibatches=64)
    for number in range(8):
        found.queue.put(unroll(layout, number))
    batch = found.next(config, timeout_s=0.0)
    found.after_update(batch, loss(None), larger)
    assert found.next(larger, timeout_s=0.0) is not None, "the round that has begun"
    assert found.next(larger, timeout_s=0.0) is None and found.queue.capacity == 256
    for number in range(8):
        found.queue.put(unroll(layout, number))
    assert found.next(config, timeout_s=0.0) is not None and found.queue.capacity == 8


def test_rounds_of_several_learners_begin_by_the_settings_of_the_last_update(tmp_path: Path) -> None:
    found, config, layout = made(tmp_path, "ppo", epochs=1, minibatches=2)
    together = Epochs(found.queue, agreed=config, seed=0, updates=lambda: 0)
    larger = dataclasses.replace(config, minibatches=4)
    for number in range(8):
        found.queue.put(unroll(layout, number))
    batch = together.next(larger, timeout_s=0.0)
    assert batch is not None, "the first one by those that all learners began with"
    together.after_update(batch, loss(None), config)
    together.next(config, timeout_s=0.0)
    for number in range(8):
        found.queue.put(unroll(layout, number))
    assert together.next(larger, timeout_s=0.0) is not None, "as the others, which may not know of it yet"


def test_a_long_wait_for_a_round_is_said_and_a_pause_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(wait.time, "monotonic", lambda: now[0])
    found, config, layout = made(tmp_path, "ppo", epochs=1, minibatches=2)
    for number in range(8):
        found.queue.put(unroll(layout, number))
    for _ in range(2):
        assert found.next(config, timeout_s=0.0) is not None and found.awaited == ""
    found.queue.put(unroll(layout, 8))
    for seconds, said in ((0, ""), (1, ""), (1, ""), (1, "collecting a round: 1 of 8 unrolls"), (3600, "")):
        now[0] += seconds
        assert found.next(config, timeout_s=-1.0) is None and found.awaited == said


@pytest.mark.parametrize(("enough", "left"), [(1e-4, False), (-1e-4, True), (None, True)])
def test_a_round_ends_early_when_the_loss_says_that_it_is_enough(
    tmp_path: Path, enough: float | None, left: bool
) -> None:
    found, config, layout = made(tmp_path, "ppo", epochs=3, minibatches=2)
    for number in range(8):
        found.queue.put(unroll(layout, number))
    batch = found.next(config, timeout_s=0.0)
    found.after_update(batch, loss(enough))
    assert found.between_rounds is not left
    assert (found.next(config, timeout_s=0.0) is not None) is left
    assert found.metrics()[0] == {"rounds_cut": 0.0 if left else 1.0}
    assert found.metrics()[0] == {}

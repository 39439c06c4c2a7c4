"""The replay ratio is exact whoever runs ahead, nothing is taken in beyond it, and all of it can be saved."""

import dataclasses
import re
import threading

import numpy as np
import pytest
import torch

from workbench import algorithms
from workbench.algorithms import Loss
from workbench.config import RunConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import OutOfBounds
from workbench.replay import batch_source, replay_capacity, replayed, wait
from workbench.replay.experience import Fresh
from workbench.replay.replayed import Replayed
from workbench.replay.unroll_fields import UnrollLayout
from workbench.trajectory import Unroll

SPEC = EnvironmentSpec("vector", (3,), "float32", 2)


def made(tmp_path, algorithm="r2d2", **fields):
    settings = {"batch_size": 4, "unroll_length": 5, **fields}
    if algorithm == "r2d2":
        settings = {"burn_in": 2, "replay_size": 64, "replay_min_size": 10, "replay_ratio": 0.75, **settings}
    config = RunConfig.build("x", algorithm=algorithm, **settings).hyperparameters
    run = RunConfig.build("x", algorithm=algorithm, **settings)
    one = algorithms.build(run, spec=SPEC)
    layout = UnrollLayout(SPEC, config.unroll_length, one.overlap, one.behaviour_fields(), ((2,),))
    found = batch_source.build(one, layout, config=config, folder=tmp_path / "replay", seed=0, pin_memory=False)
    return found, config, layout


def unroll(layout, number):
    """The number-th unroll of one environment; its first observation says so."""
    random = np.random.default_rng(number)
    arrays = {
        name: random.normal(size=(layout.length, *shape)).astype(dtype) if dtype == "float32"
        else np.zeros((layout.length, *shape), dtype)
        for name, (shape, dtype) in layout.per_step.items()
    }
    arrays["observation"][:] = number
    before = {"stack_prefix": np.zeros((0, 3), np.float32), "state.0": np.full(2, number, np.float32)}
    return Unroll.of({**arrays, **before}, env_id=0, run_id=1)


def loss_of(draw):
    size = len(draw.sample.rows)
    return Loss(torch.zeros(()), {}, {}, torch.rand(size, generator=torch.Generator().manual_seed(size)))


def numbers(draw):
    return draw.observation[0, :, 0].long().tolist()


def bring(found, layout, which):
    for number in which:
        found.queue.put(unroll(layout, number))


def trained(found, config, layout, which):
    """Brings unrolls and trains as soon as they earn it; returns what was drawn, with its weights."""
    drawn = []
    for number in which:
        bring(found, layout, [number])
        while (draw := found.next(config, timeout_s=0.0)) is not None:
            drawn.append((numbers(draw), draw.weight.tolist()))
            found.after_update(draw, loss_of(draw))
    return drawn


def test_vtrace_trains_on_each_unroll_once_and_in_order(tmp_path):
    found, config, layout = made(tmp_path, "vtrace")
    assert isinstance(found, Fresh) and not found.filling and not found.arrays(config, requested=True)
    assert found.next(config, timeout_s=0.0) is None
    bring(found, layout, range(4))
    draw = found.next(config, timeout_s=0.0)
    assert numbers(draw) == [0, 1, 2, 3]
    assert draw.weight.tolist() == [1.0] * 4
    assert found.next(config, timeout_s=0.0) is None


@pytest.mark.parametrize("ratio", [0.75, 0.1, 1.0, 2.5, 8.0])
def test_the_replay_ratio_is_exact_from_the_moment_it_holds_enough(tmp_path, ratio):
    found, config, layout = made(tmp_path, replay_ratio=ratio, queue_size=1000)
    assert isinstance(found, Replayed)
    used = 0  # unrolls in batches
    for number in range(300):
        used += 4 * len(trained(found, config, layout, [number]))
        after = max(0, number + 1 - 10)  # taken in since it held replay_min_size
        assert used <= ratio * after + 1e-9 < used + 4
    assert found.metrics()[0]["replay_ratio"] == pytest.approx(used / 290)


def test_nothing_more_is_taken_in_than_a_batch_has_to_earn(tmp_path):
    found, config, layout = made(tmp_path, replay_ratio=2.0, queue_size=1000)
    bring(found, layout, range(100))
    found.next(config, timeout_s=0.0)
    assert len(found.replay) == 10 + 2 and len(found.queue) == 88


def test_a_slow_learner_holds_up_whoever_brings_unrolls(tmp_path):
    found, config, layout = made(tmp_path, queue_size=4)
    brought = []

    def bring():
        for number in range(40):
            if not found.queue.put(unroll(layout, number)):
                return
            brought.append(number)

    thread = threading.Thread(target=bring, daemon=True)
    thread.start()
    while found.next(config, timeout_s=1.0) is None:
        pass
    taken = len(found.replay)
    thread.join(0.3)
    assert thread.is_alive() and len(brought) <= taken + 4 + 1
    found.close()
    thread.join(240)
    assert not thread.is_alive()


def test_it_says_what_it_waits_for(tmp_path):
    found, config, layout = made(tmp_path)
    bring(found, layout, range(3))
    assert found.next(config, timeout_s=0.0) is None
    assert found.filling == "filling the replay: 3 of 10 unrolls before the first update"
    for number in range(3, 30):
        found.queue.put(unroll(layout, number))
        found.next(config, timeout_s=0.0)
    assert found.filling == ""


def test_it_says_what_earns_the_next_batch_where_that_takes_long(tmp_path, monkeypatch):
    found, config, layout = made(tmp_path)
    trained(found, config, layout, range(30))
    slower = dataclasses.replace(config, replay_ratio=0.25)
    while found.next(slower, timeout_s=0.0) is not None:
        pass
    assert found.awaited == "", "not at once"
    monkeypatch.setattr(wait, "_LONG_S", 0.0)
    assert re.fullmatch(r"collecting unrolls: \d of 4 uses earned \(replay_ratio\)", found.awaited)
    assert found.filling == "", "it trains"


def test_a_live_change_of_the_ratio_holds_from_then_on(tmp_path):
    found, config, layout = made(tmp_path, queue_size=1000)
    faster = RunConfig.build("x", algorithm="r2d2", batch_size=4, unroll_length=5, burn_in=2, replay_size=64,
                             replay_min_size=10, replay_ratio=4.0).hyperparameters
    trained(found, config, layout, range(50))
    trained(found, faster, layout, range(50, 150))
    assert found.metrics()[0]["replay_ratio"] == pytest.approx(4.0, rel=0.02)


def test_what_was_saved_goes_on_exactly(tmp_path):
    unbroken, config, layout = made(tmp_path / "a", queue_size=1000)
    resumed, _, _ = made(tmp_path / "b", queue_size=1000)

    trained(unbroken, config, layout, range(101))
    assert not unbroken.arrays(config), "save_replay is off"
    resumed.load({name: np.array(array) for name, array in unbroken.arrays(config, requested=True).items()})
    expected = trained(unbroken, config, layout, range(101, 200))
    assert len(expected) > 10
    assert trained(resumed, config, layout, range(101, 200)) == expected


def test_unrolls_of_a_skipped_update_are_hardly_drawn_again(tmp_path):
    found, config, layout = made(tmp_path, queue_size=1000, replay_ratio=8.0)
    spoilt = unroll(layout, 0)
    spoilt.reward[:] = 1e22  # finite, but its square is not
    found.queue.put(spoilt)
    bring(found, layout, range(1, 40))
    first = found.next(config, timeout_s=0.0)
    assert numbers(first) == [0] * 4, "its first priority is beyond all others"
    found.after_update(first, None)
    later = [found.next(config, timeout_s=0.0) for _ in range(5)]
    assert all(0 not in numbers(draw) for draw in later)


def test_it_says_that_a_full_enough_replay_has_not_earned_its_first_batch_yet(tmp_path):
    found, config, layout = made(tmp_path, replay_ratio=0.1, queue_size=1000)
    bring(found, layout, range(12))
    assert found.next(config, timeout_s=0.0) is None
    assert found.filling == "taking in the unrolls that earn the first batch"


def test_whoever_waits_for_the_training_thread_waits_no_longer_than_its_patience(tmp_path, monkeypatch):
    monkeypatch.setattr(replayed, "_PATIENCE_S", 0.0)
    found, config, layout = made(tmp_path, replay_min_size=60, queue_size=1000)
    bring(found, layout, range(50))
    assert found.next(config, timeout_s=0.0) is None
    assert len(found.queue) > 0


def test_a_smaller_replay_says_how_many_of_the_saved_unrolls_it_has_no_room_for(tmp_path):
    large, config, layout = made(tmp_path / "a", queue_size=1000)
    for number in range(60):
        large.queue.put(unroll(layout, number))
        large.next(config, timeout_s=0.0)
    small, _, _ = made(tmp_path / "b", replay_size=20)
    kept = len(large.replay)
    assert small.load({name: np.array(one) for name, one in large.arrays(config, requested=True).items()}) == kept - 20


def test_a_replay_of_automatic_size_stays_as_it_was_planned_while_it_fits(tmp_path, monkeypatch):
    free = 400_000
    monkeypatch.setattr(replay_capacity, "free_bytes", lambda config, folder: free)
    planned = made(tmp_path, replay_size=0)[0].occupancy[1]
    free = 380_000
    assert made(tmp_path, replay_size=0)[0].occupancy[1] == planned
    free = 100_000
    assert made(tmp_path, replay_size=0)[0].occupancy[1] < planned


def test_a_replay_stops_growing_before_memory_runs_out(tmp_path, monkeypatch):
    found, config, layout = made(tmp_path, queue_size=1000)
    bring(found, layout, range(60))
    monkeypatch.setattr(replay_capacity, "free_bytes", lambda config, folder: 1000)
    for _ in range(2):
        with pytest.raises(OutOfBounds, match="of memory are free, and the replay holds 0 of 64 unrolls"):
            found.next(config, timeout_s=0.0)
    monkeypatch.undo()
    assert found.next(config, timeout_s=1.0) is not None
    assert found.replay.sample(400, priority_exponent=0.0, importance_exponent=0.0).observation[0, :, 0].min() == 0.0
    assert found.replay.inserted == len(found.replay) and found._earned < 4, "no unroll was lost, and none counts twice"

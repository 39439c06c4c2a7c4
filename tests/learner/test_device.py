"""What devices do in their own ways: padding, recorded work, and where inference may run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.learner.replaying import ReplayingDevice
from tests.learner.updates import CASES, IMAGES, UNROLL, trainer_on, update, weights
from workbench.config import RunConfig
from workbench.errors import OutOfBounds
from workbench.learner.devices.choose import for_inference
from workbench.learner.devices.device import Device

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here")


@pytest.mark.parametrize(("rows", "padded"), [(1, 8), (8, 8), (9, 16), (64, 64), (65, 128)])
def test_batches_are_filled_up_to_powers_of_two(rows, padded):
    assert Device("cpu", precision="fp32").padded(rows) == rows
    assert Device("cpu", precision="fp32", pads=True).padded(rows) == padded


def test_rows_that_fill_a_batch_up_are_what_was_asked_for():
    device, given = Device("cpu", precision="fp32", pads=True), np.arange(6).reshape(3, 2)
    placed = device.place_rows(given, fill=7)
    assert placed.shape == (8, 2) and placed.dtype is torch.int64
    assert np.array_equal(placed[:3], given) and (placed[3:] == 7).all()


@pytest.mark.parametrize("name", CASES)
def test_recorded_updates_are_those_of_plain_ones(name):
    config, spec = CASES[name]
    device = ReplayingDevice()
    plain, recorded = trainer_on(Device("cpu", precision="fp32"), config, spec), trainer_on(device, config, spec)
    lost = []
    for seed in range(8):
        (expected, _), (loss, told) = (update(one, config, spec, seed=seed) for one in (plain, recorded))
        lost.append((recorded.arriving(loss), expected))
        assert not told
    assert device.replays == 5
    assert (weights(recorded) - weights(plain)).abs().max() < 1e-5
    for arrived, expected in lost[:3] + lost[-1:]:
        if expected.priorities is not None:
            assert torch.allclose(arrived().priorities, expected.priorities, rtol=1e-4)
    assert recorded.drain()[0] == pytest.approx(plain.drain()[0], rel=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_what_the_replay_learns_of_an_update_outlives_the_next_one(name):
    config, spec = CASES[name]
    plain, recorded = (trainer_on(one, config, spec) for one in (Device("cpu", precision="fp32"), ReplayingDevice()))
    known = []
    for seed in range(8):
        known.append((recorded.arriving(update(recorded, config, spec, seed=seed)[0]),
                      plain.arriving(update(plain, config, spec, seed=seed)[0])))
    for one, other in known:
        ours, theirs = one(), other()
        if theirs.priorities is None:
            continue
        assert torch.allclose(ours.priorities, theirs.priorities, rtol=1e-4)
        for mine, expected in zip(ours.next_states or (), theirs.next_states or (), strict=True):
            assert torch.allclose(mine, expected, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_update_that_is_not_finite_is_taken_back_and_told_two_later(name):
    config, spec = CASES[name]
    trainer = trainer_on(ReplayingDevice(), config, spec)
    for seed in range(5):
        update(trainer, config, spec, seed=seed)
    before = weights(trainer)
    assert update(trainer, config, spec, seed=5, nan=True)[1] == []
    assert torch.equal(weights(trainer), before)
    told = [update(trainer, config, spec, seed=seed)[1] for seed in range(6, 9)]
    assert [bool(one) for one in told] == [False, False, True] and "nan" in told[2][0]
    assert weights(trainer).isfinite().all() and not torch.equal(weights(trainer), before)


def test_a_change_of_hyperparameters_is_recorded_anew():
    config, spec = RunConfig.build("x", entropy_cost=0.0, optimizer="adam", **UNROLL), IMAGES
    device, changed = ReplayingDevice(), config.replaced(entropy_cost=0.5)
    plain, recorded = trainer_on(Device("cpu", precision="fp32"), config, spec), trainer_on(device, config, spec)
    for seed in range(10):
        for one in (plain, recorded):
            update(one, config if seed < 5 else changed, spec, seed=seed)
    assert device.replays == 4
    assert (weights(recorded) - weights(plain)).abs().max() < 1e-5


def test_inference_is_where_training_is_unless_told_otherwise():
    training = Device("cpu", precision="fp32")
    assert for_inference(RunConfig.build("x"), training) is training
    other = for_inference(RunConfig.build("x", inference_device="cpu"), training)
    assert other is not training and (other.kind, other.precision) == ("cpu", "fp32")


@pytest.mark.parametrize(("name", "says"), [("gpu", "is no device"), ("mps", "is no device"), ("cuda:99", "CUDA dev")])
def test_a_device_for_inference_that_is_not_there_is_refused_in_words(name, says):
    with pytest.raises(OutOfBounds, match=says):
        for_inference(RunConfig.build("x", inference_device=name), Device("cpu", precision="fp32"))


@needs_cuda
@pytest.mark.parametrize("name", CASES)
def test_updates_on_a_gpu_are_those_of_the_cpu_by_graphs_and_without(name):
    from workbench.learner.devices.cuda import CudaDevice

    config, spec = CASES[name]
    torch.backends.cudnn.allow_tf32 = False
    for graphs in (False, True):
        device = CudaDevice(precision="fp32", graphs=graphs)
        cpu, gpu = trainer_on(Device("cpu", precision="fp32"), config, spec), trainer_on(device, config, spec)
        with device.own_stream(ahead=False):
            for seed in range(8):
                update(cpu, config, spec, seed=seed)
                assert not update(gpu, config, spec, seed=seed)[1]
        assert (weights(gpu) - weights(cpu)).abs().max() < 1e-3

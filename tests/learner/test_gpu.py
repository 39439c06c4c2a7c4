"""A GPU does what the CPU does. These run where torch finds one; test_counting.py has it count."""

from __future__ import annotations

import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import workbench as wb
from tests import test_learning
from tests.learner.test_warm_up import warmed_up
from tests.learner.updates import CASES, trainer_on, update, weights
from workbench.learner.devices.cuda import CudaDevice
from workbench.learner.devices.device import Device
from workbench.learner.inference.published_weights import PublishedPolicy
from workbench.networks.lstm import ResettingLSTM
from workbench.trajectory import StepBatch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here")
CPU = Device("cpu", precision="fp32")


@pytest.fixture(autouse=True)
def exact_float32(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_updates_are_those_of_the_cpu(name, graphs):
    config, spec = CASES[name]
    device = CudaDevice(precision="fp32", graphs=graphs)
    cpu, gpu = trainer_on(CPU, config, spec), trainer_on(device, config, spec)
    with device.own_stream(ahead=False), warnings.catch_warnings():
        warnings.simplefilter("error")  # weights of an LSTM that lie apart are gathered at every call
        for seed in range(8):
            update(cpu, config, spec, seed=seed)
            assert not update(gpu, config, spec, seed=seed)[1]
        assert (weights(gpu) - weights(cpu)).abs().max() < 1e-3


@pytest.mark.parametrize("name", CASES)
def test_recording_updates_before_the_first_changes_nothing(name, tmp_path):
    device = CudaDevice(precision="fp32")
    with device.own_stream(ahead=False):
        trainer = warmed_up(device, name, tmp_path)
        assert len(trainer._recorder._recordings) == (2 if trainer.algorithm.values_finals else 1)
        for seed in range(4):
            assert not update(trainer, *CASES[name], seed=seed)[1]
        assert weights(trainer).isfinite().all()


def test_an_lstms_values_and_gradients_are_those_of_the_cpu():
    memory, start = ResettingLSTM(5, size=6), torch.rand(8, 3) < 0.3
    drawn = [torch.randn(shape) for shape in ((8, 3, 5), (3, 6), (3, 6), (8, 3, 6))]
    found = []
    for device in ("cpu", "cuda"):
        memory.zero_grad()
        sequence, hidden, cell, slopes = (one.clone().to(device).requires_grad_() for one in drawn)
        outputs, (_, last) = memory.to(device)(sequence, start.to(device), (hidden, cell))
        ((outputs * slopes).sum() + last.sum()).backward()
        gradients = (one.grad for one in (sequence, hidden, cell, *memory.parameters()))
        found.append([one.cpu() for one in (outputs.detach(), last.detach(), *gradients)])
    for cpu, gpu in zip(*found, strict=True):
        torch.testing.assert_close(gpu, cpu, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows", [9, 300])
def test_frames_reach_the_gpu_as_they_were_joined(rows):
    device, number = CudaDevice(precision="fp32"), np.arange(3 * rows, dtype=np.float32)
    frames = np.random.default_rng(0).integers(0, 255, (3 * rows, 1, 84, 84)).astype(np.uint8)
    groups = [StepBatch(frames[first : first + rows], number[first : first + rows], np.zeros(rows, np.uint8))
              for first in range(0, 3 * rows, rows)]
    for _ in range(20):  # memory is used again
        batch = StepBatch.joined(groups, device.row_memory)
        placed, numbers = device.fetch(device.place_rows(batch.observation, batch.reward))
        assert len(placed) == device.padded(3 * rows) and not placed[3 * rows :].any()
        assert np.array_equal(placed[: 3 * rows], frames) and np.array_equal(numbers[: 3 * rows], number)
        frames += 1


@pytest.mark.parametrize("name", CASES)
def test_no_update_waits_for_the_gpu(name):
    config, spec = CASES[name]
    device = CudaDevice(precision="fp32")
    trainer = trainer_on(device, config, spec)
    with device.own_stream(ahead=False):
        update(trainer, config, spec, seed=0)  # libraries begin
        for seed in (1, 2):
            torch.cuda.set_sync_debug_mode("error")
            try:
                update(trainer, config, spec, seed=seed)
            finally:
                torch.cuda.set_sync_debug_mode("default")


def test_two_threads_record_while_others_wait_for_the_whole_gpu_and_draw_random_numbers():
    device, failed, over = CudaDevice(precision="fp32"), [], threading.Event()
    device.tell = failed.append
    generator, others = device.generator(0), device.generator(1)

    def record(generator):
        layer = nn.Linear(64, 64).to(device.torch)
        with device.own_stream(ahead=generator is not None), torch.no_grad():
            recorder = device.recorder(generator)

            def work(settings, given):
                drawn = 0 if generator is None else torch.rand(given.shape, generator=generator, device=given.device)
                return layer(given) + drawn

            for rows in range(1, 41):
                for _ in range(5):
                    recorder.run(work, [torch.ones(rows, 64, device=device.torch)], settings=None)

    def wait():
        while not over.is_set():
            device.fetch([torch.ones(4, device=device.torch)])
            time.sleep(0.001)

    def draw():
        with device.own_stream(ahead=False):
            while not over.is_set():  # torch's own generator could not be drawn from meanwhile
                torch.rand(8, generator=others, device=device.torch)

    with ThreadPoolExecutor(4) as threads:
        beside = [threads.submit(wait), threads.submit(draw)]
        recording = [threads.submit(record, one) for one in (None, generator)]
        try:
            [one.result(120) for one in recording]
        finally:
            over.set()
        [one.result(120) for one in beside]
    assert not failed


def test_what_cannot_be_recorded_goes_on_plainly_with_its_random_numbers_and_without_growing():
    device, told = CudaDevice(precision="fp32"), []
    device.tell = told.append
    generator, alike = device.generator(3), device.generator(3)
    with device.own_stream(ahead=False):
        recorder = device.recorder(generator)

        def work(settings, given):
            drawn = torch.rand(1000, generator=generator, device=given.device)
            return drawn * given, float(given.sum())  # it looks at a value

        for _ in range(30):
            found, _ = recorder.run(work, [torch.ones(1000, device=device.torch)], settings=None)
            assert torch.equal(found, torch.rand(1000, generator=alike, device=device.torch))
        assert len(told) == 1 and "goes on without CUDA graphs" in told[0]
        dropped, memory = nn.Dropout(), set()
        for _ in range(50):
            recorder.run(work, [dropped(torch.ones(1000, device=device.torch))], settings=None)
            memory.add(torch.cuda.memory_allocated())
        assert len(memory) < 5
        other = device.recorder()  # of another kind of work
        for number in range(6):
            found = other.run(lambda _, given: given * 2, [torch.full((8,), float(number), device="cuda")],
                              settings=None)
            assert found.tolist() == [2.0 * number] * 8
    assert len(told) == 1


@pytest.mark.parametrize(("trains", "acts"), [("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cuda")])
def test_a_reader_never_sees_half_an_update(trains, acts):
    network = nn.ModuleList([nn.Linear(512, 512) for _ in range(8)]).to(trains)
    trained = [parameter.data.zero_() for parameter in network.parameters()]
    reads = CudaDevice(precision="fp32") if acts == "cuda" else CPU
    policy, torn, over = PublishedPolicy(network, version=0, device=reads), [], threading.Event()

    def read():
        with reads.own_stream(ahead=True), torch.inference_mode():
            while not over.is_set():
                with policy.reading() as (copy, version):
                    said = torch.stack([bound(one) for one in copy.parameters() for bound in (torch.min, torch.max)])
                (found,) = reads.fetch([said])
                if set(found.tolist()) != {float(version)}:
                    torn.append((version, set(found.tolist())))

    reader = threading.Thread(target=read)
    trainer = CudaDevice(precision="fp32") if trains == "cuda" else CPU
    with trainer.own_stream(ahead=False):
        reader.start()
        for version in range(1, 300):
            for one in trained:
                one.fill_(float(version))
            policy.publish(version)
        over.set()
        reader.join(120)
    assert not torn and policy.version == 299


@pytest.mark.parametrize("fields", [{"device": "cuda"}, {"device": "cuda", "inference_device": "cpu"},
                                    {"device": "cpu", "inference_device": "cuda"}])
def test_a_run_learns_while_it_is_steered(home: Path, fields):
    run = wb.launch("CartPole-v1", **{**test_learning.CARTPOLE, "total_frames": 5_000_000, **fields})
    run.wait(updates=30)
    for cost in (0.004, 0.005, 0.006):
        run.tune(entropy_cost=cost)
        run.wait(updates=run.status.updates + 20)
    run.wait(episode_return=150, seconds=200)
    assert run.status.episode_return >= 150 and not (run.events["kind"] == "error").any()
    run.stop()


def test_a_run_goes_on_on_another_kind_of_device_and_comes_back(home: Path):
    run = wb.launch("CartPole-v1", **{**test_learning.CARTPOLE, "device": "cuda"})
    for device in ("cpu", "cuda"):
        run.wait(updates=run.status.updates + 30)
        run.stop()
        before = run.status.updates
        run = run.fork(device=device)
        run.wait(updates=before + 30)
        assert not (run.events["kind"] == "error").any(), run.events
    run.stop()
    assert wb.evaluate(run, episodes=2).mean > 0

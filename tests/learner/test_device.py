"""What devices do in their own ways: padding, recorded work, and where inference may run."""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.learner import counting
from tests.learner.replaying import Copies, ReplayingDevice
from tests.learner.updates import CASES, IMAGES, UNROLL, VECTOR, batch_of, trainer_on, update, weights
from workbench import algorithms, networks
from workbench.algorithms import batch
from workbench.algorithms.adaptive_cost import AdaptiveCost
from workbench.algorithms.vtrace.agent import VTrace
from workbench.algorithms.vtrace.config import VTraceConfig
from workbench.config import RunConfig, settings
from workbench.config.own_algorithm import described
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import OutOfBounds
from workbench.learner.devices import choose, cuda
from workbench.learner.devices.choose import for_inference
from workbench.learner.devices.device import Device
from workbench.learner.training.trainer import Trainer
from workbench.trajectory import StepBatch


@pytest.mark.parametrize(("rows", "padded"), [(1, 8), (8, 8), (9, 16), (64, 64), (65, 128)])
def test_batches_are_filled_up_to_powers_of_two(rows, padded):
    assert Device("cpu", precision="fp32").padded(rows) == rows
    assert Device("cpu", precision="fp32", pads=True).padded(rows) == padded


@pytest.mark.parametrize("kind", [lambda: Device("cpu", precision="fp32", pads=True), ReplayingDevice],
                         ids=["one by one", "packed"])
@pytest.mark.parametrize("lengths", [(3, 3, 3, 3, 3), (1, 0, 9, 8, 2)])
def test_arrays_reach_the_device_whole_and_are_filled_up_with_zeros(kind, lengths):
    device, random = kind(), np.random.default_rng(0)
    arrays = [random.integers(1, 100, (rows, *shape)).astype(dtype) for rows, shape, dtype in zip(
        lengths, [(3, 5, 1), (), (2,), (), (7,)], ["uint8", "bool", "float32", "int64", "float64"], strict=True)]
    for array, placed in zip(arrays, device.place_rows(*arrays), strict=True):
        assert placed.dtype is torch.from_numpy(array).dtype
        assert placed.shape == (device.padded(len(array)), *array.shape[1:])
        assert np.array_equal(placed[: len(array)], array) and not placed[len(array) :].any()


def test_large_frames_of_several_groups_reach_a_gpu_from_where_they_were_joined(monkeypatch):
    device, spec, random = ReplayingDevice(), IMAGES, np.random.default_rng(0)
    pinned: dict[int, int] = {}  # sizes by address
    allocate = device._pinned

    def noted(size):
        memory = allocate(size)
        pinned[memory.data_ptr()] = size
        return memory

    monkeypatch.setattr(device, "_pinned", noted)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: tensor.data_ptr() in pinned)
    shapes = StepBatch.specs(spec)
    groups = [StepBatch.of({name: random.integers(1, 100, (rows, *shape)).astype(dtype)
                            for name, (shape, dtype) in shapes.items()}) for rows in (300, 1, 7)]
    batch = StepBatch.joined(groups, device.row_memory)
    rewards, frames, flags = device.place_rows(batch.reward, batch.observation, batch.flags)
    for placed, name in ((rewards, "reward"), (frames, "observation"), (flags, "flags")):
        expected = np.concatenate([getattr(group, name) for group in groups])
        assert len(placed) == 512 and np.array_equal(placed[:308], expected) and not placed[308:].any()
    assert list(pinned.values()) == [batch.observation.nbytes, 512 * (4 + 1)]  # frames are in one of them only


def test_tensors_leave_a_gpu_in_one_copy_as_they_were_when_they_were_sent():
    device = ReplayingDevice()
    tensors = [torch.rand(3, 5) > 0.5, torch.randn(4, 6).t(), torch.tensor(3.5), torch.arange(7)[::2],
               torch.zeros(0, 2), torch.randn(2, 3).double(), torch.ones(1, dtype=torch.uint8), torch.randn(3).half()]
    kept = [tensor.clone() for tensor in tensors]
    arrived = device.send(tensors)
    for tensor in tensors:
        tensor.zero_()
    assert device.sent == 1
    for tensor, expected in zip(arrived(), kept, strict=True):
        assert tensor.dtype is expected.dtype and torch.equal(tensor, expected)


def test_a_batch_reaches_a_gpu_in_one_copy_and_its_answer_leaves_in_one(monkeypatch):
    device = ReplayingDevice()
    monkeypatch.setattr(counting, "device", lambda: device)
    with counting.rig(EnvironmentSpec("testing/counting-v0", (1, 36, 36), "uint8", 3, frame_stack=4)) as running:
        inference, rows = running.inference, np.zeros(1, np.int64)
        batch = inference._blank(1)
        for final, copies in ((False, 1), (True, 2)):  # true final observations come in a copy of their own
            steps = batch if final else dataclasses.replace(
                batch, final_index=np.zeros(0, np.int64), final_observation=batch.final_observation[:0])
            device.placed = device.sent = 0
            with device.acting():
                inference._choose(rows, steps, np.zeros(1, bool), np.ones(1, bool))
            assert (device.placed, device.sent) == (copies, 1)


@pytest.mark.parametrize("name", CASES)
def test_a_batch_to_train_on_reaches_a_gpu_in_one_copy(monkeypatch, name):
    monkeypatch.setattr(batch, "_pinned", lambda size: torch.full((size,), 0xA5, dtype=torch.uint8))
    config, spec = CASES[name]
    expected, device = batch_of(config, spec, seed=3), ReplayingDevice()
    monkeypatch.setattr(algorithms, "collate", partial(batch.collate, memory=batch.BatchMemory(pinned=True)))
    packed = batch_of(config, spec, seed=3)
    placed = device.place_batch(packed)
    assert device.placed == 1
    for array in packed.arrays().values():  # what was written there since is not what came
        array.zero_()
    assert placed.arrays().keys() == expected.arrays().keys()
    for name, array in expected.arrays().items():
        there = placed.arrays()[name]
        assert there.dtype is array.dtype and torch.equal(there, array)
        assert there.data_ptr() % 64 == placed.weight.data_ptr() % 64


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
    assert (device.records, device.replays) == (2, 6)  # the first update with it is made as it is
    assert (weights(recorded) - weights(plain)).abs().max() < 1e-5


def test_a_cost_that_begins_to_adapt_while_a_run_trains_begins_outside_of_what_is_launched_again(monkeypatch):
    config, spec = RunConfig.build("x", **UNROLL), VECTOR
    device, changed, starts = ReplayingDevice(), config.replaced(target_entropy=0.5), []
    launch, start, launching = Copies.launch, AdaptiveCost._start_from, [False]

    def launched(copies):
        launching[0] = True
        launch(copies)
        launching[0] = False

    def started(cost, fixed):
        if fixed != cost._started_from:
            starts.append(launching[0])
        start(cost, fixed)

    monkeypatch.setattr(Copies, "launch", launched)
    monkeypatch.setattr(AdaptiveCost, "_start_from", started)
    trainer = trainer_on(device, config, spec)
    for seed in range(12):  # two changes of a cell, an update apart
        now = config if seed < 5 else changed if seed == 5 else changed.replaced(entropy_cost=0.02)
        update(trainer, now, spec, seed=seed)
    assert starts == [False, False] and device.records == 2


def test_a_users_own_algorithm_is_called_in_every_update(monkeypatch):
    class Own(VTrace):
        def loss(self, network, *, batch, config):
            calls.append(config.discount)
            return super().loss(network, batch=batch, config=config)

    monkeypatch.setattr(cuda, "CudaDevice", lambda name, *, precision, graphs: ReplayingDevice(graphs=graphs))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(choose, "_faster_in_bf16", lambda kind: False)
    own = described(VTraceConfig, taken=settings(RunConfig))
    config, spec, calls = RunConfig.build("x", **UNROLL), VECTOR, []
    device = choose.choose(RunConfig.build("x", algorithm="Own", own_algorithm=own, device="cuda"), spec)
    network = networks.build(config.network, spec=spec, heads=Own.heads, seed=0)
    trainer = Trainer(network, Own(config.hyperparameters, spec=spec), device, config.hyperparameters)
    for seed in range(6):
        update(trainer, config, spec, seed=seed)
    assert len(calls) == 6 and device.records == 0
    shipped = choose.choose(RunConfig.build("x", device="cuda"), spec)
    assert shipped.recorder() is not None and device.recorder() is None


@pytest.mark.parametrize("name", CASES)
def test_a_slider_that_recorded_work_does_not_read_drops_nothing(name):
    config, spec = CASES[name]
    changed = config.replaced(learning_rate=2e-4, warmup_updates=7, queue_size=9) if "r2d2" not in name else (
        config.replaced(learning_rate=2e-4, priority_exponent=0.1, target_update_period=100))
    device = ReplayingDevice()
    trainer = trainer_on(device, config, spec)
    for seed in range(8):
        update(trainer, config if seed < 5 else changed, spec, seed=seed)
    assert (device.records, device.replays) == (1, 5)


def test_work_that_cannot_be_recorded_is_done_plainly_and_told_once():
    config, spec = CASES["vtrace, images"]
    device, told = ReplayingDevice(), []
    device.broken, device.tell = "CUDA error: operation not permitted\nwhen stream is capturing", told.append
    plain, recorded = trainer_on(Device("cpu", precision="fp32"), config, spec), trainer_on(device, config, spec)
    for seed in range(6):
        for one in (plain, recorded):
            update(one, config, spec, seed=seed)
    assert (weights(recorded) - weights(plain)).abs().max() < 1e-5
    assert device.replays == 0 and told == ["goes on without CUDA graphs, and slower, since one could not be recorded: "
                                            "CUDA error: operation not permitted"]


class FakeGpu:
    """What `CudaDevice` asks of torch.cuda; notes what runs inside what."""

    def __init__(self) -> None:
        self.inside, self.overlaps, self.recorded = 0, 0, 0
        self.default_generators = [torch.Generator()]

    def current_stream(self, device=None):
        return self

    default_stream = current_stream
    device_index = 0

    @contextmanager
    def graph(self, graph, **_):
        with self.alone():
            self.recorded += 1
            yield

    @contextmanager
    def alone(self):
        self.inside += 1
        self.overlaps += self.inside > 1
        time.sleep(0.002)
        yield
        self.inside -= 1

    def synchronize(self, device=None):
        with self.alone():
            pass


def test_nothing_waits_for_the_whole_gpu_while_a_graph_is_recorded_and_one_is_at_a_time(monkeypatch):
    gpu = FakeGpu()
    for name in ("current_stream", "default_stream", "graph", "synchronize", "default_generators"):
        monkeypatch.setattr(cuda.torch.cuda, name, getattr(gpu, name), raising=False)
    monkeypatch.setattr(cuda.torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay=lambda: None))
    device = cuda.CudaDevice(precision="fp32")
    monkeypatch.setattr(device, "_pinned", lambda size: torch.empty(size, dtype=torch.uint8))
    monkeypatch.setattr(gpu, "record_event", lambda: SimpleNamespace(synchronize=lambda: None), raising=False)

    def records():
        recorder = device.recorder()
        for rows in range(1, 6):
            for _ in range(4):
                recorder.run(lambda settings, one: one, [torch.zeros(rows)], settings=None)

    with ThreadPoolExecutor(3) as threads:
        done = [threads.submit(records), threads.submit(records),
                threads.submit(lambda: [device.fetch([torch.zeros(1)]) for _ in range(20)])]
        [one.result(60) for one in done]
    assert gpu.recorded == 10 and gpu.overlaps == 0


def test_the_work_of_a_stream_is_done_when_its_thread_leaves_it(monkeypatch):
    """A run's last checkpoint reads the weights after that, on another stream."""
    gpu, told = FakeGpu(), []
    stream = SimpleNamespace(synchronize=lambda: told.append("done"))
    monkeypatch.setattr(cuda.torch.cuda, "Stream", lambda *_, **__: stream)
    monkeypatch.setattr(cuda.torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(cuda.torch.cuda, "synchronize", gpu.synchronize)
    device = cuda.CudaDevice(precision="fp32")
    with device.own_stream(ahead=False):
        assert not told
    assert told == ["done"]
    def failed():
        raise RuntimeError("CUDA error: device-side assert triggered")

    stream.synchronize = failed
    with pytest.raises(ZeroDivisionError), device.own_stream(ahead=False):
        raise ZeroDivisionError  # what names the cause is not replaced


@pytest.mark.parametrize(("version", "records"), [("2.10.0", False), ("2.11.0+cu128", True), ("2.14.0", True)])
def test_work_is_recorded_by_a_torch_that_can(monkeypatch, capsys, version, records):
    monkeypatch.setattr(choose.torch, "__version__", version)
    device = choose._of_kind("cuda", precision="fp32", graphs=True)
    assert (device.recorder() is not None) == records
    assert ("records no CUDA graphs" in capsys.readouterr().err) != records


def test_inference_is_where_training_is_unless_told_otherwise():
    training = Device("cpu", precision="fp32")
    assert for_inference(RunConfig.build("x"), training) is training
    other = for_inference(RunConfig.build("x", inference_device="cpu"), training)
    assert other is not training and (other.kind, other.precision) == ("cpu", "fp32")


@pytest.mark.parametrize(("asked", "precision"), [("auto", "fp32"), ("bf16", "bf16")])
def test_inference_elsewhere_is_in_bf16_where_the_hardware_has_it_or_it_was_asked_for(monkeypatch, asked, precision):
    training, config = Device("cpu", precision="bf16"), RunConfig.build("x", inference_device="cpu", precision=asked)
    monkeypatch.setattr(choose, "_faster_in_bf16", lambda kind: True)
    assert for_inference(config, training).precision == "bf16"
    monkeypatch.setattr(choose, "_faster_in_bf16", lambda kind: False)
    assert for_inference(config, training).precision == precision


@pytest.mark.parametrize(("name", "says"), [("gpu", "is no device"), ("mps", "is no device"), ("cuda:99", "CUDA dev")])
def test_a_device_for_inference_that_is_not_there_is_refused_in_words(name, says):
    with pytest.raises(OutOfBounds, match=says):
        for_inference(RunConfig.build("x", inference_device=name), Device("cpu", precision="fp32"))

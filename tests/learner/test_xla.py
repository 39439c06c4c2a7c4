"""The XLA device: eager's numbers, one graph for each piece of work, and nothing that waits for the device.

Where torch_xla is installed (`make test-xla`) these run on XLA's CPU device; see docs/tpu.md.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import workbench as wb
from tests import test_learning
from tests.learner import counting, test_counting
from tests.learner.updates import CASES, IMAGES, UNROLL, VECTOR, VTRACE, batch_of, trainer_on, update, weights
from workbench.config import RunConfig
from workbench.errors import MissingPackage, OutOfBounds
from workbench.learner.devices.choose import choose
from workbench.learner.devices.device import Device
from workbench.learner.inference.published_weights import PublishedPolicy
from workbench.learner.training import checkpointing
from workbench.trajectory import unroll_axis

HERE = importlib.util.find_spec("torch_xla") is not None
needs_xla = pytest.mark.skipif(not HERE, reason="torch_xla is not installed; make test-xla has it")


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("PJRT_DEVICE", "CPU")


def xla(precision: str = "fp32"):
    from workbench.learner.devices.xla import XlaDevice

    return XlaDevice(precision=precision)


@needs_xla
@pytest.mark.parametrize("name", CASES)
def test_losses_and_weights_are_those_of_eager_and_an_update_is_one_graph(name):
    config, spec = CASES[name]
    device = xla()
    eager, lazy = trainer_on(Device("cpu", precision="fp32"), config, spec), trainer_on(device, config, spec)
    compiled, adapts = None, getattr(config.hyperparameters, "target_entropy", None) is not None
    for seed in range(5):
        (expected, _), (loss, told) = (update(one, config, spec, seed=seed) for one in (eager, lazy))
        assert not told
        counters = device.counters()
        assert compiled in (None, counters), f"update {seed} was compiled anew, or read from the device"
        (found,) = device.fetch([loss.total.detach()])
        assert found == pytest.approx(float(expected.total.detach()), rel=1e-4, abs=1e-5)
        assert (weights(lazy) - weights(eager)).abs().max() < 1e-4
        means, _, samples = lazy.drain()
        assert means["loss"] == pytest.approx(float(found), rel=1e-5) and all(len(one) for one in samples.values())
        if seed >= adapts:  # the first update that adapts the entropy's cost also sets it
            compiled = device.counters()


@needs_xla
def test_parts_whose_rates_were_equal_part_without_a_new_graph():
    config, device = CASES["vmpo, an LSTM"][0], xla()
    trainer = trainer_on(device, config, VECTOR)
    for seed in range(2):
        update(trainer, config, VECTOR, seed=seed)
    compiled = device.counters()
    for seed, factor in enumerate((2.0, 0.0, 1.0), start=2):
        update(trainer, config.replaced(multiplier_rate_factor=factor), VECTOR, seed=seed)
    assert device.counters() == compiled


@needs_xla
def test_float32_products_are_as_exact_as_elsewhere() -> None:
    import torch_xla

    assert torch_xla.backends.get_mat_mul_precision() == xla().matrices == "highest"


@needs_xla
def test_graphs_are_kept_with_the_run_and_found_by_its_next_life(home, tmp_path):
    """In two processes. XLA's CPU finds them, too, but cannot read them back (a TPU can): it says so and compiles."""
    code = """
import sys
from pathlib import Path
import torch_xla.debug.metrics as metrics
from tests.learner.updates import CASES, trainer_on, update
from workbench.learner.devices.compiled_graphs import CompiledGraphs
from workbench.learner.devices.xla import XlaDevice
graphs = CompiledGraphs(Path(sys.argv[1]), compiler="torch_xla")
device = XlaDevice(precision="fp32", graphs=graphs)
config, spec = CASES["vtrace, rmsprop"]
trainer = trainer_on(device, config, spec)
update(trainer, config, spec, seed=0)
device.checkpointed()
counted = [metrics.counter_value(f"PersistentCache{name}") or 0 for name in ("Miss", "Hit", "DeserializeFailure")]
print(graphs.found, counted[0], sum(counted[1:]))
"""
    lives = [subprocess.run([sys.executable, "-c", code, str(tmp_path / "xla")], capture_output=True, text=True,
                            timeout=240) for _ in range(2)]
    assert all(life.returncode == 0 for life in lives), lives[-1].stderr[-2000:]
    (_, missed, _), (found, *later) = (map(int, life.stdout.split()) for life in lives)
    assert missed >= 2 and found == missed and list(later) == [0, missed]
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "xla").rglob("*"))


@needs_xla
def test_images_travel_as_bytes_and_are_computed_in_bf16():
    config, device = RunConfig.build("x", optimizer="adam", **UNROLL), xla("bf16")
    assert device.place_batch(batch_of(config, IMAGES, seed=0)).observation.dtype is torch.uint8
    eager, lazy = (trainer_on(one, config, IMAGES) for one in (Device("cpu", precision="fp32"), device))
    expected, found = (update(one, config, IMAGES, seed=0)[0].total.item() for one in (eager, lazy))
    assert found == pytest.approx(expected, rel=0.02), "eight bits of mantissa"
    assert found != pytest.approx(expected, rel=1e-6), "that was no bf16"


@needs_xla
@pytest.mark.parametrize("name", ["vtrace, rmsprop", "vtrace, adam, an LSTM, a target entropy", "r2d2"])
def test_an_update_that_is_not_finite_is_taken_back_on_the_device_and_told_later(name):
    config, spec = CASES[name]
    trainer = trainer_on(xla(), config, spec)
    update(trainer, config, spec, seed=0)
    state = {k: v for k, v in trainer.optimizer.state_dict()["state"][0].items()}
    before, kept = weights(trainer), [value.cpu().clone() for value in state.values()]
    assert update(trainer, config, spec, seed=1, nan=True)[1] == []
    assert torch.equal(weights(trainer), before)
    after = trainer.optimizer.state_dict()["state"][0]
    assert all(torch.equal(after[name].cpu(), old) for name, old in zip(state, kept, strict=True))
    told = [message for seed in range(2, 5) for message in update(trainer, config, spec, seed=seed)[1]]
    assert len(told) == 1 and "nan" in told[0]
    means, _, samples = trainer.drain()
    assert np.isfinite(list(means.values())).all() and not torch.equal(weights(trainer), before)
    assert all(np.isfinite(one).all() for one in samples.values())


@needs_xla
def test_two_threads_compute_at_once_and_nothing_is_compiled_anew():
    config, spec, device = VTRACE, VECTOR, xla()
    trainer = trainer_on(device, config, spec)
    policy = PublishedPolicy(trainer.network, version=0, device=device)
    observation, previous = torch.randn(1, 8, 4), torch.zeros(1, 8, dtype=torch.int64)
    begun, stop, failures, acted = threading.Event(), threading.Event(), [], []

    def act() -> None:
        try:
            while not stop.is_set():
                given = [device.place(one) for one in (observation, previous, torch.zeros(1, 8), previous > 0)]
                with device.acting():
                    with device.tracing(), policy.reading() as (network, version):
                        output, _ = network(*given, ())
                    acted.append((version, device.fetch([output.value])[0]))
                begun.set()
        except BaseException as error:
            failures.append(error)

    def train(seed: int) -> None:
        with device.tracing():
            update(trainer, config, spec, seed=seed)
            policy.publish(trainer.updates)

    train(0)
    thread = threading.Thread(target=act)
    thread.start()
    try:
        assert begun.wait(240), failures
        train(1)
        checkpointing.groups_of(trainer, torch.Generator())  # the first one compiles its copies
        compiled = device.counters()
        for seed in range(2, 40):
            train(seed)
            if seed % 5 == 0:
                kept = checkpointing.groups_of(trainer, torch.Generator())
                assert all(np.isfinite(one).all() for one in kept["model"].values())
    finally:
        stop.set()
        thread.join(240)
    assert not failures
    assert device.counters() == compiled
    assert len({version for version, _ in acted}) > 3
    last = trainer.network(*(device.place(one) for one in (observation, previous, torch.zeros(1, 8), previous > 0)), ())
    newest = [value for version, value in acted if version == acted[-1][0]]
    assert all(np.array_equal(newest[0], one) for one in newest), "a version changed while it was read"
    assert np.isfinite(last[0].value.detach().cpu().numpy()).all()


@needs_xla
def test_a_tensor_is_placed_whole_while_another_thread_ends_graphs():
    device, failures, stop = xla(), [], threading.Event()
    observation = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)

    def place() -> None:
        try:
            while not stop.is_set():
                device.place_rows(observation)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=place)
    with device.tracing():
        device.place_rows(observation)
    compiled = device.counters()
    thread.start()
    try:
        for _ in range(20_000):
            with device.tracing():
                pass
    finally:
        stop.set()
        thread.join(240)
    assert not failures
    assert device.counters() == compiled, "an empty tensor was taken along"


@needs_xla
@pytest.mark.parametrize("ends", ["terminated", "alternate"])
def test_inference_on_xla_loses_repeats_and_shifts_no_step(monkeypatch, ends):
    monkeypatch.setattr(counting, "device", xla)
    test_counting.test_no_step_is_lost_repeated_or_shifted([7, 3], ends, 5, 0, True)


@needs_xla
def test_frames_are_stacked_on_xla_as_in_training(monkeypatch):
    monkeypatch.setattr(counting, "device", xla)
    test_counting.test_frames_are_stacked_in_training_as_they_were_in_inference()


@needs_xla
def test_batches_are_split_between_the_chips_and_must_divide_by_them():
    device = xla()
    if device.chips == 1:
        pytest.skip("XLA has one device here; CPU_NUM_DEVICES=4 makes four of the CPU")
    config = RunConfig.build("x", **UNROLL)
    batch, size = device.place_batch(batch_of(config, IMAGES, seed=0)), config.hyperparameters.batch_size
    assert all(one.shape[unroll_axis(name)] == size for name, one in batch.arrays().items())
    assert _parts(batch.observation) == [1, device.chips, 1, 1, 1]
    assert _parts(batch.weight) == [device.chips]
    assert _parts(device.place_rows(np.zeros((5, 3), np.float32))[0]) == [device.chips, 1]
    assert device.padded(5) % device.chips == 0
    with pytest.raises(OutOfBounds, match=f"batch_size={size + 1} is shared by {device.chips} chips.*={size}, for"):
        device.check(config.replaced(batch_size=size + 1))


def _parts(tensor: torch.Tensor) -> list[int]:
    """Into how many parts each axis is split."""
    import torch_xla

    said = torch_xla._XLAC._get_xla_sharding_spec(tensor)
    return [int(one) for one in said.partition("[")[2].partition("]")[0].split(",")]


@needs_xla
@pytest.mark.skipif("CPU_NUM_DEVICES" in os.environ, reason="it is what this test starts")
def test_four_chips_compute_what_one_does():
    """The tests of this file up to here, in a process whose CPU is four devices: that is settled once in a process."""
    command = [sys.executable, "-m", "pytest", "-q", __file__, "-k", "not learns and not tpu and not imports"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=500,
                           env={**os.environ, "CPU_NUM_DEVICES": "4", "OMP_NUM_THREADS": "1"})
    assert ended.returncode == 0, ended.stdout[-5000:]
    assert "one device here" not in ended.stdout


@needs_xla
def test_a_run_on_xla_learns_cartpole_and_compiles_nothing_after_its_first_checkpoint(home):
    run = wb.launch("CartPole-v1", device="xla", **test_learning.CARTPOLE)
    try:
        run.wait(updates=10, timeout_s=240, progress=False)
        run.checkpoint()  # compiles its copies
        compiled = run.wait(frames=run.status.frames + 20_000, timeout_s=240, progress=False).frames
        result = test_learning.best_evaluation(run, wanted=475.0)
        assert result.mean >= 475.0, (result, run.status)
        assert run.status.device == "xla"
        for name in ("xla_compilations", "xla_fallbacks"):
            rows = run.metrics(name)
            later = rows["value"][rows["frames"] >= compiled]
            assert len(later) > 2 and later.nunique() == 1, (name, rows)
        assert run.metrics("xla_compilations")["value"].iloc[-1] > 0
        assert set(run.metrics("xla_recompilations")["value"]) == {0.0}
        assert "0 since the warm-up" in run.status.compiler and "highest" in run.status.compiler
        assert "restart" not in set(run.events["kind"])
    finally:
        run.stop()


@needs_xla
def test_a_tpu_is_asked_for_and_there_is_none():
    code = "from workbench.learner.devices.xla import XlaDevice; XlaDevice('tpu', precision='fp32')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240,
                           env={**os.environ, "TPU_SKIP_MDS_QUERY": "1"})
    assert ended.returncode == 1 and "OutOfBounds: device='tpu', but XLA" in ended.stderr, ended.stderr[-2000:]


@pytest.mark.skipif(HERE, reason="torch_xla is installed")
@pytest.mark.parametrize("kind", ["xla", "tpu"])
def test_without_torch_xla_the_error_says_how_to_get_it(kind):
    with pytest.raises(MissingPackage, match=r"needs torch_xla.*pip install .*torch-xla\[tpu\]==2"):
        choose(RunConfig.build("x", device=kind), VECTOR)


@pytest.mark.parametrize("fields", [{"learners": 2, "actors": 2}, {"inference_device": "cpu"}])
def test_what_xla_cannot_do_is_said_before_the_chip_is_taken(fields):
    with pytest.raises(OutOfBounds, match="device='xla'"):
        choose(RunConfig.build("x", device="xla", **fields), VECTOR)


def test_only_a_learner_that_is_asked_for_xla_imports_it():
    code = ("import sys, workbench, workbench.learner.learner, workbench.playing.worker.played_episode; "
            "sys.exit(any(name.partition('.')[0] == 'torch_xla' for name in sys.modules))")
    assert subprocess.run([sys.executable, "-c", code], timeout=240).returncode == 0

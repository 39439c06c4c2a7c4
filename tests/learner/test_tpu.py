"""A TPU by torch_tpu: the calls that the device makes of it, on a double, and where it is chosen. Nothing here has a
TPU."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from tests.learner.torch_tpu_double import EagerMode, TpuDouble
from tests.learner.updates import CASES, VECTOR, trainer_on, update, weights
from workbench.config import RunConfig, chosen, hardware
from workbench.errors import MissingPackage, OutOfBounds
from workbench.launchers.local import clean_environment
from workbench.learner.devices import choose, tpu
from workbench.learner.devices.compiled_graphs import CompiledGraphs
from workbench.learner.devices.device import Device
from workbench.learner.training import checkpointing

HERE = importlib.util.find_spec("torch_tpu") is not None


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> TpuDouble:
    made = TpuDouble()
    made.install(monkeypatch)
    monkeypatch.setenv(tpu.CACHE_VARIABLE, "")  # so that it is put back
    return made


class OnTheCpu(tpu.TpuDevice):
    """The device, whose tensors are the CPU's, and whose copies to the host are the double's."""

    capturable = False  # torch allows it for accelerators alone

    def __init__(self, double: TpuDouble, **more) -> None:
        super().__init__("cpu", precision="fp32", **more)
        self.double = double
        double.loaded = False  # torch itself is to go on with the CPU

    def _copies(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        copies = [torch.empty_like(tensor, requires_grad=False) for tensor in tensors]
        for copy, tensor in zip(copies, tensors, strict=True):
            self.double.copy_later(copy, tensor)
        return copies


def test_it_is_loaded_once_and_told_how_to_compute(double: TpuDouble) -> None:
    device = OnTheCpu(double)
    assert double.calls == ["load"]
    assert double.eager_mode is EagerMode.DEFER_NEVER and double.precision == "highest" == device.matrices
    assert device.pads and device.lags and device.compiles and not device.keeps_frames and device.recorder() is None
    assert tpu.TpuDevice.capturable, "its step is the same every time"
    assert device.total_memory_gb() == 16.0
    assert device.counters() == {"xla_compilations": 7.0, "xla_cached": 3.0}


def test_copies_are_under_way_together_and_one_event_waits_for_them(double: TpuDouble) -> None:
    device = OnTheCpu(double)
    tensors = [torch.arange(6.0).reshape(2, 3), torch.tensor(5), torch.ones(2, dtype=torch.bool)]
    kept = [tensor.clone() for tensor in tensors]
    arrive = device.send(tensors)
    for tensor in tensors:
        tensor.zero_()
    assert double.calls == ["load", "record"], "nobody waits yet"
    assert all(torch.equal(one, old) for one, old in zip(arrive(), kept, strict=True))
    assert double.calls == ["load", "record", "synchronize"]
    assert [array.tolist() for array in device.fetch([torch.tensor([1.5, 2.5])])] == [[1.5, 2.5]]


@pytest.mark.parametrize("name", CASES)
def test_updates_are_those_of_the_cpu(double: TpuDouble, name: str) -> None:
    config, spec = CASES[name]
    device = OnTheCpu(double)
    cpu, other = trainer_on(Device("cpu", precision="fp32"), config, spec), trainer_on(device, config, spec)
    for seed in range(4):
        expected, _ = update(cpu, config, spec, seed=seed)
        loss, told = update(other, config, spec, seed=seed)
        assert not told and float(loss.total.detach()) == pytest.approx(float(expected.total.detach()), rel=1e-4)
    assert (weights(other) - weights(cpu)).abs().max() < 1e-4
    means, _, samples = other.drain()
    assert np.isfinite(list(means.values())).all() and all(len(one) for one in samples.values())


def test_an_update_that_is_not_finite_is_taken_back_and_told_later(double: TpuDouble) -> None:
    config, spec = CASES["vtrace, rmsprop"]
    trainer = trainer_on(OnTheCpu(double), config, spec)
    update(trainer, config, spec, seed=0)
    before = weights(trainer)
    assert update(trainer, config, spec, seed=1, nan=True)[1] == [] and torch.equal(weights(trainer), before)
    told = [message for seed in range(2, 5) for message in update(trainer, config, spec, seed=seed)[1]]
    assert len(told) == 1 and "nan" in told[0]


def test_a_checkpoint_goes_from_it_to_the_cpu(double: TpuDouble) -> None:
    config, spec = CASES["vtrace, adam, an LSTM, a target entropy"]
    device = OnTheCpu(double)
    trainer = trainer_on(device, config, spec)
    update(trainer, config, spec, seed=0)
    groups = checkpointing.groups_of(trainer, device.generator(3))
    other = trainer_on(Device("cpu", precision="fp32"), config, spec)
    other.network.load_state_dict({name: torch.from_numpy(array) for name, array in groups["model"].items()})
    expected = torch.cat([one.detach().flatten() for one in trainer.network.parameters()])
    found = torch.cat([one.detach().flatten() for one in other.network.parameters()])
    assert torch.equal(found, expected) and groups["rng"]["sampling"].size


def test_what_it_compiles_is_kept_with_the_run(double: TpuDouble, tmp_path, home, monkeypatch) -> None:
    graphs = CompiledGraphs(tmp_path / "xla", compiler="torch_tpu 0.2.0")
    device = OnTheCpu(double, graphs=graphs)
    assert os.environ[tpu.CACHE_VARIABLE] == str(graphs.files)
    (graphs.files / "0.bin").write_bytes(b"compiled")
    device.checkpointed()
    again = CompiledGraphs(tmp_path / "xla", compiler="torch_tpu 0.2.0")
    OnTheCpu(double, graphs=again)
    assert again.found == 1


def test_without_a_chip_it_is_refused_before_a_tensor_would_end_the_process(monkeypatch) -> None:
    double = TpuDouble(chips=0)
    double.install(monkeypatch)
    with pytest.raises(OutOfBounds, match="torch_tpu finds no TPU here"):
        tpu.TpuDevice(precision="fp32")


@pytest.mark.skipif(HERE, reason="torch_tpu is installed")
def test_without_the_package_the_error_says_how_to_get_it() -> None:
    with pytest.raises(MissingPackage, match="A TPU can do with torch_tpu"):
        tpu.TpuDevice(precision="fp32")


@pytest.mark.parametrize("fields", [{"learners": 2, "actors": 2}, {"inference_device": "cpu"}])
def test_what_it_cannot_do_is_said_before_the_chip_is_taken(monkeypatch, fields) -> None:
    monkeypatch.setattr(hardware, "version", lambda package: "0.2.0")
    with pytest.raises(OutOfBounds, match="device='tpu'"):
        choose.choose(RunConfig.build("x", device="tpu", **fields), VECTOR)


def test_it_is_chosen_where_it_is_installed_and_a_tpu_is_there(monkeypatch, tmp_path) -> None:
    pci = tmp_path / "sys/bus/pci/devices/0000:00:05.0"
    pci.mkdir(parents=True)
    assert not hardware.has_torch_tpu({}, tmp_path)
    (pci / "vendor").write_text("0x1ae0\n")
    (pci / "device").write_text("0x0063\n")
    assert not HERE and not hardware.has_torch_tpu({}, tmp_path), "it is not installed"
    monkeypatch.setattr(hardware, "version", lambda package: "0.2.0" if package == "torch_tpu" else "")
    assert hardware.has_torch_tpu({}, tmp_path)
    assert chosen.device(has_cuda=False, has_tpu=True, environment={}) == "tpu"
    assert chosen.device("cpu", has_cuda=False, has_tpu=True, environment={}) == "cpu"
    assert chosen.device(has_cuda=False, has_tpu=True, environment={"WORKBENCH_DEVICE": "cpu"}) == "cpu"
    made = []
    monkeypatch.setattr(tpu, "TpuDevice", lambda **how: made.append(how))
    choose.choose(RunConfig.build("x", device="tpu"), VECTOR, compiled=tmp_path / "xla")
    assert made[0]["precision"] == "fp32" and made[0]["graphs"].files.parent == tmp_path / "xla"


def test_no_process_of_a_run_loads_it_by_importing_torch() -> None:
    assert clean_environment({}, [])["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "0"
    assert clean_environment({"TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}, [])["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "1"
    code = ("import sys, torch, workbench, workbench.learner.learner; "
            "sys.exit(any(name.partition('.')[0] == 'torch_tpu' for name in sys.modules))")
    ended = subprocess.run([sys.executable, "-c", code], env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert ended.returncode == 0


@pytest.mark.skipif(not HERE, reason="torch_tpu is not installed")
def test_the_double_has_nothing_that_the_package_lacks() -> None:
    """In a process of its own: what the package prints and patches stays there."""
    code = """
import inspect, sys, torch
from torch_tpu import _loader
from tests.learner.torch_tpu_double import EagerMode
assert callable(_loader.load)
real = torch.tpu
assert not inspect.signature(real._get_cache_misses).parameters and not inspect.signature(
    real._get_cache_hits).parameters
assert all(one.default is not one.empty for one in inspect.signature(real.Event).parameters.values())
assert inspect.signature(real.get_device_properties).parameters["device"].default is None
assert {one.name for one in EagerMode} <= {one.name for one in real.EagerMode}
real.eager_mode = real.EagerMode.DEFER_NEVER
assert real.eager_mode == real.EagerMode.DEFER_NEVER
from torch_tpu._internal.stream.streams import TpuEvent
assert not [one for one in list(inspect.signature(TpuEvent.record).parameters.values())[1:] if one.default is one.empty]
_loader._init_device("tpu")  # as load() does where there is a chip; no chip is opened
torch.set_float32_matmul_precision("highest")
assert torch.get_float32_matmul_precision() == "highest"
torch.autocast("tpu", torch.bfloat16)
from torch.optim.optimizer import _get_capturable_supported_devices
assert "tpu" in _get_capturable_supported_devices()
from workbench.learner.devices.tpu import TpuDevice
try:
    TpuDevice(precision="fp32")
except Exception as error:
    print(type(error).__name__, error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                           env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TPU_SKIP_MDS_QUERY": "1"})
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "OutOfBounds" in ended.stdout and importlib.metadata.version("torch_tpu").startswith("0.2")

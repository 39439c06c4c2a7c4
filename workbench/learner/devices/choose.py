"""Chooses the devices of a run's training and inference."""

from __future__ import annotations

from pathlib import Path

import torch
from packaging.version import Version

from workbench.config import RunConfig, chosen, hardware
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import OutOfBounds
from workbench.learner.devices.compiled_graphs import CompiledGraphs
from workbench.learner.devices.device import Device
from workbench.learner.devices.recording import to_log

_FIRST_THAT_RECORDS = (2, 11)  # torch


def choose(
    config: RunConfig, spec: EnvironmentSpec, *, own_network: bool = False, compiled: Path | None = None
) -> Device:
    """The device of training. Raises OutOfBounds or MissingPackage if this machine lacks the configured one.

    Args:
        compiled: the run's folder for the graphs of a device that compiles; None: they are not kept.
    """
    kind = chosen.device(config.device, has_cuda=torch.cuda.is_available(), has_tpu=hardware.has_torch_tpu())
    if kind == "cuda" and not torch.cuda.is_available():
        raise OutOfBounds("device='cuda', but torch finds no CUDA device here. Choose device='cpu' or 'auto'.")
    precision = chosen.precision(config.precision, images=spec.shows_images, own_network=own_network,
                                 bf16=_faster_in_bf16(kind))
    if kind in ("xla", "tpu"):
        return _compiling(config, kind, precision=precision, compiled=compiled)
    return _of_kind(kind, precision=precision, graphs=_recorded(config, own_network))


def _compiling(config: RunConfig, kind: str, *, precision: str, compiled: Path | None) -> Device:
    """The device of torch_tpu for a TPU where that is installed, otherwise that of torch_xla. It acquires the chip."""
    package = "torch_tpu" if kind == "tpu" and hardware.version("torch_tpu") else "torch_xla"
    _check_alone(config, kind, "one chip" if package == "torch_tpu" else "all chips of its machine")
    compiler = f"{package} {hardware.version(package)}, torch {torch.__version__}"
    graphs = None if compiled is None else CompiledGraphs(compiled, compiler=compiler)
    if package == "torch_tpu":
        from workbench.learner.devices.tpu import TpuDevice

        return TpuDevice(precision=precision, graphs=graphs)
    from workbench.learner.devices.xla import XlaDevice

    device = XlaDevice(kind, precision=precision, graphs=graphs)
    device.check(config)
    return device


def _check_alone(config: RunConfig, kind: str, driven: str) -> None:
    """Raises OutOfBounds for another learner or another device of inference, before the chip is taken.

    Args:
        driven: what one learner drives.
    """
    if config.learners > 1:
        raise OutOfBounds(f"learners={config.learners} with device={kind!r}: one learner drives {driven}. "
                          "Choose learners=1, or device='cuda' or 'cpu'.")
    if config.inference_device:
        raise OutOfBounds(f"inference_device={config.inference_device!r} with device={kind!r}: inference runs in the "
                          "process that owns the chip, on that chip. Leave it out.")


def for_inference(config: RunConfig, training: Device, *, own_network: bool = False) -> Device:
    """The device of inference: `training`, or the configured one. Raises OutOfBounds if this machine lacks it."""
    name = config.inference_device
    if not name:
        return training
    try:
        device = torch.device(name)
        number = {"cpu": 1, "cuda": torch.cuda.device_count()}[device.type]
    except (RuntimeError, KeyError):
        raise OutOfBounds(f"inference_device={name!r} is no device. Choose cpu, or a GPU such as cuda:1.") from None
    if (device.index or 0) >= number:
        raise OutOfBounds(f"inference_device={name!r}, but torch finds {number} CUDA devices here. Leave it out.")
    precision = chosen.precision(config.precision, images=training.precision == "bf16", own_network=own_network,
                                 bf16=_faster_in_bf16(device.type))
    return _of_kind(name, precision=precision, graphs=_recorded(config, own_network))


def _recorded(config: RunConfig, own_network: bool) -> bool:
    """Whether work may be recorded: the Python of a user's own network or algorithm has to run every time."""
    return not own_network and not config.own_algorithm


def _of_kind(name: str, *, precision: str, graphs: bool) -> Device:
    if not name.startswith("cuda"):
        return Device(name, precision=precision)
    from workbench.learner.devices.cuda import CudaDevice

    if graphs and Version(torch.__version__).release < _FIRST_THAT_RECORDS:
        graphs = False  # one that acts beside one that trains cannot be recorded (torch's issue 166792)
        to_log(f"torch {torch.__version__} records no CUDA graphs of several threads: it is slower than 2.11")
    return CudaDevice(name, precision=precision, graphs=graphs)


def _faster_in_bf16(kind: str) -> bool:
    capability = torch.cuda.get_device_capability() if kind == "cuda" else None
    return chosen.faster_in_bf16(kind, instructions=hardware.instructions(), maker=hardware.maker(),
                                 capability=capability)

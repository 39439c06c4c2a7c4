"""What accelerator a machine has, from its files and variables alone: a TPU belongs to the first process that asks it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# PCI ids of TPU chips, as JAX and torch_xla know them (jax/_src/hardware_utils.py).
_GOOGLE = "0x1ae0"
_CHIPS = {"0x0027": "TPU v3", "0x0056": "TPU v4", "0x005e": "TPU v4", "0x0062": "TPU v5p", "0x0063": "TPU v5e",
          "0x006f": "TPU v6e", "0x0076": "TPU 7x"}
_NVIDIA_SMI = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
_NVIDIA_S = 20.0  # the driver's first answer after a boot takes seconds


@dataclass(frozen=True)
class Runtime:
    """A machine as a learner would find it.

    Attributes:
        hosted: whether it is Colab's.
        device: "cpu", "cuda" or "tpu".
        accelerator: what it is called, with its number or memory; "" for a CPU.
        cores: that this process may use.
    """

    hosted: bool
    device: str
    accelerator: str
    cores: int

    def __str__(self) -> str:
        what = self.accelerator or "no accelerator"
        return f"{'Colab' if self.hosted else 'this machine'}: {what}, {self.cores} CPU cores"


def found(environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Runtime:
    """This machine; opens no device and loads no accelerator's library.

    Args:
        root: of the file system.
    """
    hosted = "COLAB_RELEASE_TAG" in environment or "COLAB_BACKEND_VERSION" in environment
    cores = len(os.sched_getaffinity(0))
    for device, accelerator in (("tpu", _tpu(environment, root)), ("cuda", _gpu(environment, root))):
        if accelerator:
            return Runtime(hosted, device, accelerator, cores)
    return Runtime(hosted, "cpu", "", cores)


def _tpu(environment: Mapping[str, str], root: Path) -> str:
    """What TPU there is, or ""."""
    chips = [name for path in sorted((root / "sys/bus/pci/devices").glob("*")) if (name := _chip(path))]
    nodes = [*(root / "dev").glob("accel[0-9]*"), *(root / "dev/vfio").glob("[0-9]*")] if chips else \
        [*(root / "dev").glob("accel[0-9]*")]
    number = max(len(chips), 1)
    kind = environment.get("TPU_ACCELERATOR_TYPE") or environment.get("COLAB_TPU_1VM_TYPE")
    if kind:
        return f"TPU {kind.removeprefix('TPU ')}"
    if chips:
        return f"{chips[0]}, {number} chip{'s' if number > 1 else ''}"
    return f"TPU, {len(nodes)} chips" if nodes else ""


def _chip(path: Path) -> str | None:
    try:
        vendor, device = ((path / name).read_text().strip() for name in ("vendor", "device"))
    except OSError:
        return None
    return _CHIPS.get(device) if vendor == _GOOGLE else None


def _gpu(environment: Mapping[str, str], root: Path) -> str:
    """What NVIDIA GPU there is, or ""; asks the driver, which makes no context on it."""
    if environment.get("CUDA_VISIBLE_DEVICES") == "" or not (root / "dev/nvidiactl").exists():
        return ""
    try:
        said = subprocess.run(_NVIDIA_SMI, capture_output=True, text=True, timeout=_NVIDIA_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""  # a driver that does not answer is none
    names = [f"{name.strip()}, {float(memory) / 1024:.0f} GiB" for name, memory in
             (line.rsplit(",", 1) for line in said.splitlines() if "," in line)]
    return f"{len(names)} x {names[0]}" if len(names) > 1 else "".join(names)

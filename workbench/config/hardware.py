"""The machine's hardware, from its files and variables alone: a TPU belongs to the first process that opens it.

Nothing here opens a device or loads an accelerator's library, so a notebook's kernel may call all of it. What a run
uses is decided in `config.chosen`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path("/")
# Instruction sets that decide how fast a network is on a CPU, by Linux's names on x86-64 and on Arm.
_INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "asimd", "sve", "bf16")
# PCI ids of TPU chips, from JAX and torch_xla (jax/_src/hardware_utils.py).
_GOOGLE = "0x1ae0"
_CHIPS = {"0x0027": "TPU v3", "0x0056": "TPU v4", "0x005e": "TPU v4", "0x0062": "TPU v5p", "0x0063": "TPU v5e",
          "0x006f": "TPU v6e", "0x0076": "TPU 7x"}
_NVIDIA_SMI = ("nvidia-smi", "--query-gpu=name,memory.total,compute_cap", "--format=csv,noheader,nounits")
_NVIDIA_S = 20.0  # the driver's first answer after a boot takes seconds


@dataclass(frozen=True)
class Accelerator:
    """The machine's GPUs or TPU.

    Attributes:
        device: "cuda" or "tpu".
        name: with number and memory, where they are known.
        capability: NVIDIA's compute capability of the first GPU, such as (8, 0); None: unknown.
    """

    device: str
    name: str
    capability: tuple[int, int] | None = None


def cores(root: Path = ROOT) -> int:
    """Cores that this process may use: those of its affinity, or fewer if a container has a smaller quota."""
    allowed = len(os.sched_getaffinity(0))
    return min([allowed, *(max(1, math.ceil(quota)) for quota in _quotas(root))])


def _quotas(root: Path) -> Iterator[float]:
    """The quota, in cores, of each control group around this process; none without a limit."""
    for folder in control_groups("cpu", root):
        quota = _text(folder / "cpu.max").split() or [
            _text(folder / "cpu.cfs_quota_us").strip(), _text(folder / "cpu.cfs_period_us").strip()]
        if len(quota) == 2 and all(word.isdigit() for word in quota):  # "max" and -1: no limit
            yield int(quota[0]) / int(quota[1])


def control_groups(controller: str, root: Path) -> Iterator[Path]:
    """The folders of this process's control groups, versions 2 and 1, innermost first; some may not exist.

    In a container the path may be the host's, which does not exist; the container's own group is then the last folder.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            mount, inner = root / "sys/fs/cgroup" / (controller if controllers else ""), Path(path.strip("/"))
            yield from (mount / group for group in (inner, *inner.parents))


def processor() -> str:
    """The CPU's model."""
    return _first(ROOT / "proc/cpuinfo", r"model name\s*:\s*(.+)") or platform.processor() or platform.machine()


def instructions(root: Path = ROOT) -> tuple[str, ...]:
    """The CPU's instruction sets, of those in `_INSTRUCTION_SETS`."""
    has = set(_first(root / "proc/cpuinfo", r"(?:flags|Features)\s*:\s*(.+)").split())
    return tuple(name for name in _INSTRUCTION_SETS if name in has)


def maker(root: Path = ROOT) -> str:
    """The CPU's maker as it calls itself, such as GenuineIntel or AuthenticAMD; "" where it doesn't, as on Arm."""
    return _first(root / "proc/cpuinfo", r"vendor_id\s*:\s*(.+)")


def memory_gb() -> float:
    """The machine's memory in GiB."""
    return psutil.virtual_memory().total / 2**30


def accelerator(environment: Mapping[str, str] = os.environ, root: Path = ROOT) -> Accelerator | None:
    """The TPU, or NVIDIA's GPUs by their driver, without a context on them; None if there is neither."""
    return _tpu(environment, root) or _gpu(environment, root)


def gpu_names() -> list[str]:
    """NVIDIA's GPUs from the driver's files, which is faster than `accelerator`, a call of the driver."""
    files = sorted((ROOT / "proc/driver/nvidia/gpus").glob("*/information"))
    return [name for path in files if (name := _first(path, r"Model:\s*(.+)"))]


def torch_build() -> str:
    """The version of CUDA or ROCm of the installed torch; "" if torch is for CPUs only or missing. Does not load it."""
    spec = importlib.util.find_spec("torch")
    places = (spec and spec.submodule_search_locations) or ()
    return next((_first(Path(place, "version.py"), r"(?m)^(?:cuda|hip)\b[^=\n]*=\s*'([^']+)'") for place in places), "")


def has_torch_tpu(environment: Mapping[str, str] = os.environ, root: Path = ROOT) -> bool:
    """Whether there is a TPU, and torch_tpu, which drives it; neither is opened or loaded."""
    return bool(version("torch_tpu")) and _tpu(environment, root) is not None


def version(package: str) -> str:
    """The version of an installed package, such as "0.2.0"; "" if it is not installed. Does not load it."""
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return ""


def _tpu(environment: Mapping[str, str], root: Path) -> Accelerator | None:
    chips = [name for path in sorted((root / "sys/bus/pci/devices").glob("*")) if (name := _chip(path))]
    nodes = list((root / "dev").glob("accel[0-9]*"))
    number = max(len(chips), 1)
    kind = environment.get("TPU_ACCELERATOR_TYPE") or environment.get("COLAB_TPU_1VM_TYPE")
    if kind:
        return Accelerator("tpu", f"TPU {kind.removeprefix('TPU ')}")
    if chips:
        return Accelerator("tpu", f"{chips[0]}, {number} chip{'s' if number > 1 else ''}")
    return Accelerator("tpu", f"TPU, {len(nodes)} chips") if nodes else None


def _chip(path: Path) -> str | None:
    vendor, device = (_text(path / name).strip() for name in ("vendor", "device"))
    return _CHIPS.get(device) if vendor == _GOOGLE else None


def _gpu(environment: Mapping[str, str], root: Path) -> Accelerator | None:
    if environment.get("CUDA_VISIBLE_DEVICES") == "" or not (root / "dev/nvidiactl").exists():
        return None
    try:
        answer = subprocess.run(_NVIDIA_SMI, capture_output=True, text=True, timeout=_NVIDIA_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None  # a driver that does not answer counts as missing
    lines = [line.rsplit(",", 2) for line in answer.splitlines() if line.count(",") >= 2]
    if not lines:
        return None
    name, memory, capability = (word.strip() for word in lines[0])
    gpu = f"{name}, {float(memory) / 1024:.0f} GiB"
    major, _, minor = capability.partition(".")
    return Accelerator("cuda", f"{len(lines)} x {gpu}" if len(lines) > 1 else gpu,
                       (int(major), int(minor or 0)) if major.isdigit() else None)


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text()
    return ""


def _first(path: Path, pattern: str) -> str:
    match = re.search(pattern, _text(path))
    return match.group(1).strip() if match is not None else ""

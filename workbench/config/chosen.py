"""Device, precision and threads of a run whose configuration leaves them to the machine.

Pure functions of the machine's facts. The learner has these facts from torch, `wb.machine()` from `hardware`, which
does not load torch.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

DEVICE_VARIABLE = "WORKBENCH_DEVICE"  # the default device; kernelspecs and launchers for one kind of device set it

_CPU_BF16 = frozenset(("avx512_bf16", "amx_tile"))  # those that torch's CPU kernels use
_GPU_BF16 = (8, 0)  # compute capability, since Ampere


def device(
    requested: str = "auto", *, has_cuda: bool, has_tpu: bool = False, environment: Mapping[str, str] = os.environ
) -> str:
    """The device that trains: `requested`, else the environment's, else "tpu" or "cuda" where there is one that the
    installed packages can use, else "cpu".

    Args:
        has_tpu: see `hardware.has_torch_tpu`.
    """
    if requested == "auto":
        requested = environment.get(DEVICE_VARIABLE) or "auto"
    if requested != "auto":
        return requested
    return "tpu" if has_tpu else "cuda" if has_cuda else "cpu"


def has_bf16(
    device: str, *, instructions: Collection[str] = (), capability: tuple[int, int] | None = None
) -> bool:
    """Whether the device computes in bf16.

    Args:
        instructions: of the CPU, see `hardware.instructions`.
        capability: of the GPU; None: unknown.
    """
    if device == "cuda":
        return capability is not None and capability >= _GPU_BF16
    return device in ("xla", "tpu") or not _CPU_BF16.isdisjoint(instructions)


def precision(requested: str = "auto", *, images: bool, own_network: bool, bf16: bool) -> str:
    """`requested`; else "bf16" for our own networks on images where the hardware has it, and "fp32" otherwise."""
    return requested if requested != "auto" else "bf16" if images and not own_network and bf16 else "fp32"


def training_threads(requested: int = 0, *, cores: int, learners: int = 1) -> int:
    """Threads of a learner's training on a CPU: `requested`, or half of the cores (the rest steps environments and
    infers), divided among the machine's `learners`."""
    return max(1, (requested or max(1, cores // 2)) // learners)

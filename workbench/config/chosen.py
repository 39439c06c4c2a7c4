"""Device, precision and threads of a run whose configuration leaves them to the machine.

Pure functions of the machine's facts. The learner has these facts from torch, `wb.machine()` from `hardware`, which
does not load torch.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

DEVICE_VARIABLE = "WORKBENCH_DEVICE"  # the default device; kernelspecs and launchers for one kind of device set it

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


def faster_in_bf16(
    device: str, *, instructions: Collection[str] = (), maker: str = "", capability: tuple[int, int] | None = None
) -> bool:
    """Whether networks that see images are faster in bf16 there than in fp32.

    By AVX-512 alone they are on AMD's CPUs, and slower on Intel's (benchmarks/NOTES.md), where only AMX is faster.

    Args:
        instructions: of the CPU, see `hardware.instructions`.
        maker: of the CPU, see `hardware.maker`.
        capability: of the GPU; None: unknown.
    """
    if device == "cuda":
        return capability is not None and capability >= _GPU_BF16
    by_avx = "avx512_bf16" in instructions and maker == "AuthenticAMD"
    return device in ("xla", "tpu") or "amx_tile" in instructions or by_avx


def precision(requested: str = "auto", *, images: bool, own_network: bool, bf16: bool) -> str:
    """`requested`; else "bf16" for our own networks on images where the hardware is faster in it, else "fp32"."""
    return requested if requested != "auto" else "bf16" if images and not own_network and bf16 else "fp32"


def training_threads(requested: int = 0, *, cores: int, learners: int = 1) -> int:
    """Threads of a learner's training on a CPU: `requested`, or half of the cores (the rest steps environments and
    infers), divided among the machine's `learners`."""
    return max(1, (requested or max(1, cores // 2)) // learners)

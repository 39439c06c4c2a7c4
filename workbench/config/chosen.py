"""What a run chooses where its configuration leaves it to the machine: device, precision, threads.

Pure functions on what is known of the machine. The learner calls them with what torch finds, `wb.machine()` with what
`hardware` finds without loading torch.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

DEVICE_VARIABLE = "WORKBENCH_DEVICE"  # the device where none is given; set by kernels and launchers of a kind

_CPU_BF16 = frozenset(("avx512_bf16", "amx_tile"))  # as torch's CPU kernels look for them
_GPU_BF16 = (8, 0)  # compute capability, since Ampere


def device(asked: str = "auto", *, has_cuda: bool, environment: Mapping[str, str] = os.environ) -> str:
    """What trains: as asked, as the environment says, or "cuda" where there is one, else "cpu"."""
    if asked == "auto":
        asked = environment.get(DEVICE_VARIABLE) or "auto"
    return ("cuda" if has_cuda else "cpu") if asked == "auto" else asked


def has_bf16(
    device: str, *, instructions: Collection[str] = (), capability: tuple[int, int] | None = None
) -> bool:
    """Whether the device computes in bf16.

    Args:
        instructions: of the CPU, see `hardware.instructions`.
        capability: of the GPU, None: not known.
    """
    if device == "cuda":
        return capability is not None and capability >= _GPU_BF16
    return device in ("xla", "tpu") or not _CPU_BF16.isdisjoint(instructions)


def precision(asked: str = "auto", *, images: bool, own_network: bool, bf16: bool) -> str:
    """As asked; else "bf16" for our networks that see images, where the hardware has it, and "fp32"."""
    return asked if asked != "auto" else "bf16" if images and not own_network and bf16 else "fp32"


def training_threads(asked: int = 0, *, cores: int, learners: int = 1) -> int:
    """Threads of a learner's training on a CPU: as asked, or half of the cores (the rest steps environments and
    infers); shared by so many learners of the machine."""
    return max(1, (asked or max(1, cores // 2)) // learners)

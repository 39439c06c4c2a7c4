"""What machine this is, for whoever wants to know later where a run was launched; reads files only."""

from __future__ import annotations

import os
import platform
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil


def described() -> dict[str, Any]:
    """System, processor, cores that this process may use, memory, and NVIDIA's GPUs where the driver tells them."""
    told: dict[str, Any] = {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _first(Path("/proc/cpuinfo"), r"model name\s*:\s*(.+)") or platform.processor() or
        platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": f"{psutil.virtual_memory().total / 2**30:.1f} GiB",
    }
    gpus = [_first(path, r"Model:\s*(.+)") for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))]
    return {**told, "GPUs": ", ".join(filter(None, gpus))} if any(gpus) else told


def _first(path: Path, pattern: str) -> str:
    with suppress(OSError):
        if (found := re.search(pattern, path.read_text())) is not None:
            return found.group(1).strip()
    return ""

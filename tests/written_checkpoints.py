"""Small checkpoints, and programs that write them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from workbench import checkpoints
from workbench.checkpoints import Checkpoint

GROUPS = {
    "model": {"weight": np.arange(12, dtype=np.float32).reshape(3, 4), "bias": np.ones(4, np.float32)},
    "optimizer": {"step": np.array(7, np.int64), "square": np.full((3, 4), 0.5, np.float32)},
    "rng": {"torch": np.arange(200, dtype=np.uint8)},
}


def meta(**more: Any) -> dict[str, Any]:
    """What a learner says of a checkpoint."""
    return {"steps": 250, "updates": 12, "time_s": 3.5, "episode_return": 18.25, "network": "mlp", **more}


def save(folder: Path, frames: int = 1000, *, requested: bool = False, **more: Any) -> Checkpoint:
    return checkpoints.write(folder, frames=frames, groups=at(frames), meta=meta(**more), requested=requested)


def with_replay(folder: Path, frames: int, *, requested: bool = False) -> Checkpoint:
    groups = {**at(frames), "replay": {"unrolls": np.full((40, 1000), frames, np.int32)}}
    return checkpoints.write(folder, frames=frames, groups=groups, meta=meta(), requested=requested)


def at(frames: int) -> dict[str, Any]:
    """`GROUPS` with weights of their own at so many frames; those at 1,000 as they are."""
    model = {**GROUPS["model"], "bias": np.full(4, frames / 1000, np.float32)}
    return {**GROUPS, "model": model}


def flip(path: Path, at: int) -> None:
    """Change one bit of the byte `at`."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The end of another interpreter, which ran this code."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], text=True, capture_output=True, env=environment, timeout=240
    )


WRITES_FOREVER = """
import itertools, sys
from pathlib import Path
import numpy as np
from workbench import checkpoints
for frames in itertools.count(int(sys.argv[2])):
    checkpoints.write(Path(sys.argv[1]), frames=frames, groups={"model": {"a": np.full(20_000, frames)}},
                      meta={"steps": 1, "updates": 1, "time_s": 0.0}, requested=False)
    checkpoints.prune(Path(sys.argv[1]), 3)
    print(frames, flush=True)
"""

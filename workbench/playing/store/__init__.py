"""Rollouts on disk: `<checkpoint>-seed<seed>[-...]/` with `steps.safetensors`, `frames.bin`, `rollout.json`.

Everything is written step by step, so that a game of half an hour does not fill the memory, and read as memory maps.
Frames are PNG or JPEG pictures, whichever was smaller for the first one. Nothing is pickled, and nothing needs torch.
"""

from __future__ import annotations

from workbench.playing.store.contract import spec_of
from workbench.playing.store.journal import JOURNAL, Journal, Step, read_journal
from workbench.playing.store.pictures import MIME, StoredFrames, as_jpeg, as_png
from workbench.playing.store.rollout_folder import (
    FRAMES,
    RECORD,
    RolloutWriter,
    Stored,
    is_rollout,
    read,
    replacing,
    rollout_path,
    scratch_beside,
)

__all__ = [
    "FRAMES", "JOURNAL", "MIME", "RECORD", "Journal", "RolloutWriter", "Step", "Stored", "StoredFrames", "as_jpeg",
    "as_png", "is_rollout", "read", "read_journal", "replacing", "rollout_path", "scratch_beside", "spec_of",
]  # fmt: skip

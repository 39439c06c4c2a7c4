"""Rollouts on disk: `<checkpoint>-seed<seed>[-...]/` with `steps.safetensors`, `frames.bin`, `rollout.json`.

Everything is written step by step, so that a game of half an hour does not fill the memory, and read as memory maps.
Frames are PNG or JPEG pictures, whichever was smaller for the first one. Nothing is pickled, and nothing needs torch.
"""

from __future__ import annotations

from workbench.playing.store.branch_point import BranchPoint, folder_of_branches, folder_of_parent, of_record
from workbench.playing.store.journal import JOURNAL, Journal, Step, read_journal
from workbench.playing.store.pictures import MIME, StoredFrames, as_png
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
from workbench.playing.store.stored_fields import spec_of

__all__ = [
    "FRAMES", "JOURNAL", "MIME", "RECORD", "BranchPoint", "Journal", "RolloutWriter", "Step", "Stored", "StoredFrames",
    "as_png", "folder_of_branches", "folder_of_parent", "is_rollout", "of_record", "read", "read_journal",
    "replacing", "rollout_path", "scratch_beside", "spec_of",
]  # fmt: skip

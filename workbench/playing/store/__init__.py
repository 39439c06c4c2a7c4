"""Rollouts on disk: `<checkpoint>-seed<seed>[-...]/` with `steps.safetensors`, `frames.bin`, `rollout.json`.

Everything is written as it comes, so that a game of half an hour fills no memory, and is read as memory maps. Frames
are pictures one after the other, each PNG or JPEG: whichever was smaller for the first. Nothing here is pickle, and
nothing needs torch.
"""

from __future__ import annotations

from workbench.playing.store.contract import spec_of
from workbench.playing.store.folder import (
    FRAMES,
    RECORD,
    RolloutWriter,
    Stored,
    folder_of,
    kept_in,
    read,
    replacing,
    scratch_beside,
)
from workbench.playing.store.journal import JOURNAL, Journal, Step, read_journal
from workbench.playing.store.pictures import MIME, StoredFrames, as_jpeg, as_png

__all__ = [
    "FRAMES", "JOURNAL", "MIME", "RECORD", "Journal", "RolloutWriter", "Step", "Stored", "StoredFrames", "as_jpeg",
    "as_png", "folder_of", "kept_in", "read", "read_journal", "replacing", "scratch_beside",
    "spec_of",
]  # fmt: skip

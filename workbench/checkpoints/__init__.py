"""Checkpoints on disk: `<frames, 12 digits>/` with `<group>.safetensors` per group of tensors, and `meta.json`.

`meta.json` has the SHA-256 of every file and of itself; a file is verified before it is loaded. One group, `replay`,
may be missing: it is large, and pruning keeps only the newest. Nothing here is pickle, and nothing here needs torch.
"""

from __future__ import annotations

from workbench.checkpoints.best import BEST, best, best_good, best_whole, is_collapsed, standing
from workbench.checkpoints.checkpoint import Checkpoint, at
from workbench.checkpoints.exporting import export
from workbench.checkpoints.folder import copy, drop_replays, every, held, newest, newest_good, prune, remove, write
from workbench.checkpoints.tensorfile import Tensors

__all__ = ["BEST", "Checkpoint", "Tensors", "at", "best", "best_good", "best_whole", "copy", "drop_replays", "every",
           "export", "held", "is_collapsed", "newest", "newest_good", "prune", "remove", "standing", "write"]

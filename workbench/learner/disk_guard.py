"""Whether the disk takes what a run makes; while it does not, training waits, and goes on by itself when it does.

A run whose checkpoints and metrics are not stored trains for nothing: whatever ends it loses all of that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from workbench.errors import StorageFailed

CHECKPOINT, METRICS, OLD_CHECKPOINTS, PLACE = "checkpoint", "metrics", "old checkpoints", "place"
_PATIENCE_S = {CHECKPOINT: 0.0, METRICS: 5.0, OLD_CHECKPOINTS: float("inf"), PLACE: 0.0}  # rows wait in memory a while


class Storage:
    """What was tried last of each kind, and why it failed; usable from several threads."""

    def __init__(self) -> None:
        self._refused: dict[str, tuple[str, float]] = {}  # why, and since when on the monotonic clock
        self._lock = threading.Lock()

    def store(self, kind: str, write: Callable[[], Any]) -> bool:
        """Call `write`; whether the disk took it. What is no disk's fault is raised."""
        try:
            write()
        except (StorageFailed, OSError) as error:
            with self._lock:
                _, since = self._refused.get(kind, ("", time.monotonic()))
                self._refused[kind] = (str(error), since)
            return False
        with self._lock:
            self._refused.pop(kind, None)
        return True

    @property
    def warning(self) -> str:
        """What was not stored at the last try, and why; "" if all was."""
        return " ".join(dict.fromkeys(why for why, _ in self._now()))

    @property
    def hold(self) -> str:
        """Why training waits; "" if it need not."""
        now = time.monotonic()
        with self._lock:
            long = [why for kind, (why, since) in self._refused.items() if now - since >= _PATIENCE_S[kind]]
        return f"waiting for the disk, to go on by itself: {' '.join(dict.fromkeys(long))}" if long else ""

    def _now(self) -> list[tuple[str, float]]:
        with self._lock:
            return list(self._refused.values())

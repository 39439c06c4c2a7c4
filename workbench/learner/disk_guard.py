"""Holds training while the disk refuses a run's data, and lets it go on by itself.

A run whose checkpoints and metrics are not stored trains for nothing: when it ends, all of that is lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from workbench.errors import StorageFailed

CHECKPOINT, METRICS, OLD_CHECKPOINTS, PLACE = "checkpoint", "metrics", "old checkpoints", "place"
_PATIENCE_S = {CHECKPOINT: 0.0, METRICS: 5.0, OLD_CHECKPOINTS: float("inf"), PLACE: 0.0}  # rows wait in memory a while


class DiskGuard:
    """The last attempts to store each kind of data, and why they failed. Thread-safe."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[str, float]] = {}  # reason, and time of the first failure (time.monotonic)
        self._lock = threading.Lock()

    def store(self, kind: str, write: Callable[[], Any]) -> bool:
        """Call `write`, and return whether the disk took the data. Raises errors that have other causes."""
        try:
            write()
        except (StorageFailed, OSError) as error:
            with self._lock:
                _, since = self._failures.get(kind, ("", time.monotonic()))
                self._failures[kind] = (str(error), since)
            return False
        with self._lock:
            self._failures.pop(kind, None)
        return True

    @property
    def warning(self) -> str:
        """The reasons why the last attempts failed; "" if none did."""
        with self._lock:
            return " ".join(dict.fromkeys(reason for reason, _ in self._failures.values()))

    @property
    def hold(self) -> str:
        """Why training waits; "" if it need not."""
        now = time.monotonic()
        with self._lock:
            lasting = [why for kind, (why, since) in self._failures.items() if now - since >= _PATIENCE_S[kind]]
        return f"waiting for the disk, to go on by itself: {' '.join(dict.fromkeys(lasting))}" if lasting else ""

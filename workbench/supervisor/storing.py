"""Keeps a copy of a run in its `storage` while its supervisor lives: the newest checkpoint, and all that belongs to it.

A copy that fails is an event, once for each reason, and is tried again; the run goes on meanwhile. The last checkpoint
is copied before the supervisor ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from workbench.copies import LAST_COPY_S, run_copy
from workbench.copies.storage import Storage
from workbench.rundir import RunDirectory

_EVERY_S = 5.0
_LAST_S = LAST_COPY_S - 60.0  # for the last copy, where nothing takes the machine away


class StoredCopy:
    """A thread that copies; `close` copies a last time.

    Args:
        on_failure: called with why a copy failed, once for each reason.
    """

    def __init__(self, run: RunDirectory, url: str, *, on_failure: Callable[[str], None]) -> None:
        self._run, self._url, self._on_failure = run, url, on_failure
        self._ended = threading.Event()
        self._said = ""
        self._storage: Storage | None = None  # which knows what of its uploads broke off
        self._thread = threading.Thread(target=self._copy_on, name="storage", daemon=True)
        self._thread.start()

    def close(self, within_s: float = _LAST_S) -> None:
        """Copy the last checkpoint, for at most `within_s` seconds."""
        self._ended.set()
        self._thread.join(within_s)
        if self._thread.is_alive():
            self._on_failure(f"the last checkpoint was not copied to {self._url} within {within_s:.0f} s")

    def _copy_on(self) -> None:
        """Copy whenever the checkpoints have changed: to look for a new one in storage reads the newest one whole."""
        copied: set[str] = set()
        ended = False
        while not ended:
            ended = self._ended.wait(_EVERY_S)
            folders = run_copy.folders(self._run)
            if folders != copied and self._copies(last=ended):
                copied = folders

    def _copies(self, *, last: bool) -> bool:
        """Whether the newest checkpoint is in storage now; if not, why is said once."""
        try:
            self._storage = self._storage or Storage(self._url)
            self._storage.keep(self._run)
            self._said = ""
        except Exception as error:  # SQLite and each file system have errors of their own; the thread outlives them
            why = f"{type(error).__name__}: {error}"
            if why != self._said:
                again = "" if last else ", and is tried again"
                self._on_failure(f"the newest checkpoint was not copied to storage{again}: {why}")
            self._said = why
        return not self._said

"""Keeps copies of a run while its supervisor lives: the newest checkpoint, and all that belongs to it.

They are in its `storage`, and on a hosted notebook's machine in the folder that outlives that, such as a Drive. A copy
that fails is an event, once for each reason, and is tried again; the run goes on meanwhile. The last checkpoint, and
how the run ended, are copied before the supervisor ends.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import rundir
from workbench.config import RunConfig
from workbench.copies import LAST_COPY_S, RECORD, places
from workbench.errors import StorageFailed
from workbench.rundir import RunDirectory

if TYPE_CHECKING:
    from workbench.copies.url_storage import Storage

_EVERY_S = 5.0
_CLAIM_S = 1200.0  # between two claims of a name while there is no checkpoint
_TRY_LAST_S = 30.0  # again, where storage was away when the run ended
_LAST_S = LAST_COPY_S - 60.0  # for the last copy, where nothing takes the machine away


def begin(run: RunDirectory, config: RunConfig, *, on_failure: Callable[[str], None]) -> list[StoredCopy]:
    """Begin the run's copies."""
    return [StoredCopy(run, place, on_failure=on_failure, record=run.path / RECORD if prepared else None)
            for place, prepared in places(config).items()]


def end(copies: Sequence[StoredCopy]) -> None:
    """Let each copy the last checkpoint, all in the same time."""
    until = time.monotonic() + _LAST_S
    for one in copies:
        one.ended.set()
    for one in copies:
        one.close(max(0.0, until - time.monotonic()))


class StoredCopy:
    """A thread that copies; `close` copies a last time.

    Args:
        url: of storage, or a folder.
        on_failure: called with why a copy failed, once for each reason.
        record: file to write what was copied last and what went wrong, for `colab.kept`.

    Attributes:
        ended: set once there is no checkpoint to come, and run.json says how the run ended.
    """

    def __init__(
        self, run: RunDirectory, url: str, *, on_failure: Callable[[str], None], record: Path | None = None
    ) -> None:
        self._run, self._url, self._on_failure, self._record = run, url, on_failure, record
        self._told: dict[str, Any] = {"folder": f"{url}/{run.name}", "frames": None, "time": None, "error": ""}
        # Names of the checkpoints that are in storage, and whether the run's end is; None: nothing, nor a claim.
        self._copied: tuple[set[str], bool] | None = None
        self._claim_at = math.inf
        self.ended = threading.Event()
        self._storage: Storage | None = None  # which knows what of its uploads broke off
        self._thread = threading.Thread(target=self._copy_on, name="storage", daemon=True)
        self._thread.start()

    def close(self, within_s: float = _LAST_S) -> None:
        """Copy the last checkpoint and the run's end, for at most `within_s` seconds."""
        self.ended.set()
        self._thread.join(within_s)
        if self._thread.is_alive():
            self._on_failure(f"the last checkpoint, and how the run ended, were not copied to {self._url} within "
                             f"{within_s:.0f} s")

    def _copy_on(self) -> None:
        """Copy whenever the checkpoints have changed: to look for a new one in storage reads the newest one whole.

        Before there is one, the run's name is claimed, and given back if there never is.
        """
        from workbench.copies import run_copy

        while not self.ended.wait(_EVERY_S):
            self._is_copied()
        until = time.monotonic() + (0.0 if self._told["error"] else _TRY_LAST_S)  # nobody waits for what failed before
        while not self._is_copied(last=(last := time.monotonic() + _EVERY_S > until)) and not last:
            time.sleep(_EVERY_S)
        if self._storage is not None and not run_copy.folders(self._run):
            with suppress(StorageFailed):
                self._storage.release(self._run)

    def _is_copied(self, *, last: bool = False) -> bool:
        """Whether storage has what there is now, which is copied if it has changed, or the name claimed again."""
        from workbench.copies import run_copy

        folders, now = run_copy.folders(self._run), time.monotonic()
        ended = self.ended.is_set() and bool(folders)  # without a checkpoint there is no copy to say so
        if (folders, ended) == self._copied and now <= self._claim_at:
            return True
        if self._copies(ended=ended, last=last):
            self._copied, self._claim_at = (folders, ended), math.inf if folders else now + _CLAIM_S
            return True
        return False

    def _copies(self, *, ended: bool, last: bool) -> bool:
        """Whether the newest checkpoint is in storage now; if not, why is said once."""
        from workbench.copies.url_storage import Storage

        frames, why = None, ""
        try:
            self._storage = self._storage or Storage(self._url)
            frames = self._storage.keep(self._run, ended=ended)
        except Exception as error:  # SQLite and each file system have errors of their own; the thread outlives them
            why = f"{type(error).__name__}: {error}"
        said = self._told["error"]
        self._tell({} if frames is None else {"frames": frames, "time": time.time()}, error=why)
        if why and (why != said or last):
            where, again = "storage" if "://" in self._url else self._url, "" if last else ", and is tried again"
            self._on_failure(f"the run was not copied to {where}{again}: {why}")
        return not why

    def _tell(self, progress: dict[str, Any], *, error: str) -> None:
        before, self._told = self._told, {**self._told, **progress, "error": error}
        if self._record is not None and self._told != before:
            with suppress(StorageFailed):  # a full disk, of which the supervisor tells
                rundir.write_record(self._record, self._told)

"""The process of a sweep: `python -m workbench _sweep FOLDER`.

It holds the sweep's lock, which the kernel releases however the process ends.
"""

from __future__ import annotations

import signal
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.errors import StorageFailed
from workbench.rundir import lock
from workbench.rundir.dated_lines import print_dated
from workbench.sweeping.population import Population
from workbench.sweeping.study import PBT
from workbench.sweeping.sweep_folder import SweepFolder
from workbench.sweeping.sweeper import AGAIN_S, Sweeper

_LOCK_S = 5.0  # for a process that tests the lock for a moment, or one that is ending
_TRIES = 24  # attempts to write the state to a full disk


def main(folder: str) -> int:
    """Run the sweep in `folder` until it ends, and return the exit code."""
    sweep = SweepFolder(Path(folder))
    held_lock = lock.hold(sweep.lock, wait_s=_LOCK_S)
    if held_lock is None:
        print_dated(f"{sweep.name} has a process already")
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sweep.ask_to_stop())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return _run(sweep)


def _run(sweep: SweepFolder) -> int:
    sweeper: Sweeper | None = None
    try:
        sweeper = (Population if sweep.read()["sampler"] == PBT else Sweeper)(sweep)
        _write(sweep, state="running", error=None)
        _write(sweep, **sweeper.run())
        return 0
    except Exception as error:
        with suppress(OSError):
            traceback.print_exc()
        failure: dict[str, Any] = {"state": "failed", "error": {"type": type(error).__name__, "message": str(error)}}
        written = _write(sweep, tries=1, **failure)
        if sweeper is not None:
            sweeper.stop()
        if not written:
            _write(sweep, **failure)
        return 1


def _write(sweep: SweepFolder, *, tries: int = _TRIES, **changes: Any) -> bool:
    """Change sweep.json, retrying while the disk refuses. Returns whether it was written; the log has a refusal."""
    for attempt in range(tries):
        try:
            sweep.write(**changes)
            return True
        except StorageFailed as error:
            if not attempt:
                print_dated(f"not written: {changes}: {error}")
            time.sleep(AGAIN_S if attempt < tries - 1 else 0.0)
    return False

"""The process of a sweep: `python -m workbench _sweep FOLDER`.

It holds the sweep's lock, which goes with it however it ends.
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
from workbench.sweeping.folder import SweepFolder
from workbench.sweeping.population import Population
from workbench.sweeping.study import PBT
from workbench.sweeping.sweeper import AGAIN_S, Sweeper, say

_LOCK_S = 5.0  # for whoever looks whether the sweep lives, and for one that ends
_TRIES = 24  # to write down how the sweep is, where the disk refuses it


def main(folder: str) -> int:
    """Run the sweep in `folder` until it ends. The exit code."""
    sweep = SweepFolder(Path(folder))
    held = lock.hold(sweep.lock, wait_s=_LOCK_S)
    if held is None:
        say(f"{sweep.name} has a process already")
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sweep.ask_to_stop())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return _swept(sweep)


def _swept(sweep: SweepFolder) -> int:
    sweeper: Sweeper | None = None
    try:
        sweeper = (Population if sweep.read()["sampler"] == PBT else Sweeper)(sweep)
        _write(sweep, state="running", error=None)
        _write(sweep, **sweeper.run())
        return 0
    except Exception as error:
        with suppress(OSError):
            traceback.print_exc()
        failed: dict[str, Any] = {"state": "failed", "error": {"type": type(error).__name__, "message": str(error)}}
        taken = _write(sweep, tries=1, **failed)
        if sweeper is not None:
            sweeper.stop()
        if not taken:
            _write(sweep, **failed)
        return 1


def _write(sweep: SweepFolder, *, tries: int = _TRIES, **changes: Any) -> bool:
    """Change sweep.json once the disk takes it; whether it did after some tries. If not, the log alone has it."""
    for number in range(tries):
        try:
            sweep.write(**changes)
            return True
        except StorageFailed as error:
            if not number:
                say(f"not written: {changes}: {error}")
            time.sleep(AGAIN_S if number < tries - 1 else 0.0)
    return False

"""The process of a sweep: `python -m workbench _sweep FOLDER`.

It holds the sweep's lock, which goes with it however it ends.
"""

from __future__ import annotations

import signal
import traceback
from pathlib import Path

from workbench.client.sweep_folder import SweepFolder
from workbench.client.sweep_population import Population
from workbench.client.sweep_study import PBT
from workbench.client.sweeper import Sweeper, say
from workbench.supervisor import lock

_LOCK_S = 5.0  # for whoever looks whether the sweep lives, and for one that ends


def main(folder: str) -> int:
    """Run the sweep in `folder` until it ends. The exit code."""
    sweep = SweepFolder(Path(folder))
    held = lock.hold(sweep.lock, wait_s=_LOCK_S)
    if held is None:
        say(f"{sweep.name} has a process already")
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sweep.order_to_stop.touch())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return _swept(sweep)


def _swept(sweep: SweepFolder) -> int:
    sweeper: Sweeper | None = None
    try:
        sweeper = (Population if sweep.read()["sampler"] == PBT else Sweeper)(sweep)
        sweep.write(state="running", error=None)
        sweep.write(**sweeper.run())
        return 0
    except Exception as error:
        traceback.print_exc()
        sweep.write(state="failed", error={"type": type(error).__name__, "message": str(error)})
        if sweeper is not None:
            sweeper.stop()
        return 1

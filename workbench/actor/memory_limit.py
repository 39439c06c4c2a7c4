"""The memory of an actor: environments that leak end their actor, and never the machine.

Where memory runs out the system ends an actor first, and not the learner or somebody's notebook; the supervisor starts
another. `actor_memory_limit_gb` ends one before that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from workbench.errors import EnvironmentFailed, WorkbenchError
from workbench.rundir import RunDirectory

_LOOK_S = 2.0
_FIRST_TO_GO = "500"  # of 1000: as if it took half of the machine's memory more than it does


def go_first() -> None:
    """Let the system end this process, and what it starts, before others where memory runs out."""
    with suppress(OSError):  # no Linux, or not allowed
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)


def keep_within_limit(run: RunDirectory, index: int, give_up: Callable[[WorkbenchError], object]) -> None:
    """Start the thread that calls `give_up` once this process and its children take more than the run allows."""
    threading.Thread(target=_watch, args=[run, index, give_up], name="memory", daemon=True).start()


def _watch(run: RunDirectory, index: int, give_up: Callable[[WorkbenchError], object]) -> None:
    limit_gb = 0.0
    while True:
        with suppress(WorkbenchError):  # a node without the run's storage, or a damaged file: as it was
            limit_gb = run.config().actor_memory_limit_gb
        if limit_gb and (taken_gb := memory_gb()) > limit_gb:
            give_up(EnvironmentFailed(
                f"the environments of actor {index} take {taken_gb:.2f} GB, and actor_memory_limit_gb is {limit_gb:g}. "
                "If that grows while they are stepped, they leak."))
        time.sleep(_LOOK_S)


def memory_gb() -> float:
    """GB (10**9 bytes) of this process and of all that it started."""
    process, taken = psutil.Process(), 0
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.Error):  # ended in this moment
            taken += one.memory_info().rss
    return taken / 1e9

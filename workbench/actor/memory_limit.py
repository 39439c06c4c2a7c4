"""The memory limit of an actor: environments that leak end their actor, never the machine.

When memory runs out, the kernel kills an actor first, not the learner or a notebook; the supervisor starts another.
`actor_memory_limit_gb` ends an actor before that.
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

_CHECK_S = 2.0
_OOM_SCORE = "500"  # of 1000: as if it took half of the machine's memory more than it does


def prefer_for_oom_kill() -> None:
    """Makes the kernel kill this process and its children before others when memory runs out."""
    with suppress(OSError):  # not Linux, or no permission
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)


def keep_within_limit(run: RunDirectory, index: int, give_up: Callable[[WorkbenchError], object]) -> None:
    """Starts a thread that calls `give_up` once this process and its children take more than the run's limit."""
    threading.Thread(target=_watch, args=[run, index, give_up], name="memory", daemon=True).start()


def _watch(run: RunDirectory, index: int, give_up: Callable[[WorkbenchError], object]) -> None:
    limit_gb = 0.0
    while True:
        with suppress(WorkbenchError):  # a node without the run's storage, or a damaged file: the limit stays
            limit_gb = run.config().actor_memory_limit_gb
        if limit_gb and (used_gb := memory_gb()) > limit_gb:
            give_up(EnvironmentFailed(
                f"the environments of actor {index} take {used_gb:.2f} GB, and actor_memory_limit_gb is {limit_gb:g}. "
                "If that grows with the steps, they leak."))
        time.sleep(_CHECK_S)


def memory_gb() -> float:
    """GB (10**9 bytes) of this process and all its descendants."""
    own_process, total = psutil.Process(), 0
    for process in (own_process, *own_process.children(recursive=True)):
        with suppress(psutil.Error):  # it has just ended
            total += process.memory_info().rss
    return total / 1e9

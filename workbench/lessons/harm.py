"""Harm to do to a run of one's own, to see what it survives (lesson 11).

    kill(run, "actor-0")                 # SIGKILL: also "learner" and "supervisor"
    with stopped(run, "learner"): ...    # SIGSTOP, and SIGCONT at the end
    with full_disk(run): ...             # the learner's files cannot grow; Linux

Only processes of that run are harmed: those whose command line names its directory.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil

from workbench.errors import InvalidInput, RunNotAlive
from workbench.running.handle import Run

_POLL_S = 0.2


def processes(run: Run) -> dict[str, psutil.Process]:
    """The living processes of a run of this machine: "supervisor", "learner" (others: "learner-1"), "actor-0" ..."""
    found = {}
    for one in psutil.process_iter(["cmdline", "status"]):
        command = one.info["cmdline"] or []
        role = _role(command) if str(run.path) in command and "workbench" in command else ""
        if role and one.info["status"] != psutil.STATUS_ZOMBIE:
            found[role] = one
    return dict(sorted(found.items()))


def process(run: Run, who: str) -> psutil.Process:
    """One process of the run. Raises RunNotAlive where it has none of that name on this machine now."""
    found = processes(run)
    if who not in found:
        raise RunNotAlive(f"{run.name} has no process {who!r} here now; it has {', '.join(found) or 'none'}.")
    return found[who]


def kill(run: Run, who: str) -> int:
    """SIGKILL to one process of the run; returns its id. Raises RunNotAlive where there is no such process."""
    victim = process(run, who)
    victim.kill()
    return int(victim.pid)


@contextmanager
def stopped(run: Run, who: str) -> Iterator[None]:
    """One process of the run stands still until the end of the block, as on a laptop that sleeps."""
    sleeper = process(run, who)
    sleeper.suspend()
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            sleeper.resume()


@contextmanager
def full_disk(run: Run) -> Iterator[None]:
    """No file can grow that the learner writes, as on a full disk, until the end of the block.

    Raises InvalidInput on another system than Linux.
    """
    with no_room_for(process(run, "learner").pid):
        yield


@contextmanager
def no_room_for(pid: int) -> Iterator[None]:
    """No file can grow that this process writes, as on a full disk (the error is EFBIG instead of ENOSPC).

    The limit is the process's own, so it needs no rights and touches no other file. Raises InvalidInput on another
    system than Linux, where nobody can set it from outside.
    """
    if sys.platform != "linux":
        raise InvalidInput("only Linux lets one process limit the files of another. Read on without this experiment.")
    import resource

    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


def until(check: Callable[[], Any], *, seconds: float = 60.0) -> Any:
    """The first true value of `check`, tried every 0.2 s, or its last one after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := check()) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return value


def _role(command: list[str]) -> str:
    """What a process of a run is, from its command line; "" where it is none of those that make the run."""
    entry, _, number = [*command[command.index("workbench") + 1:], "", "", ""][:3]
    learner = "learner" if number in ("", "0") else f"learner-{number}"
    return {"_supervisor": "supervisor", "_learner": learner, "_actor": f"actor-{number}"}.get(entry, "")

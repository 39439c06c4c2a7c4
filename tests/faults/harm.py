"""Harm to do to a run, each undone at the end of its `with` block, and what to ask of the run afterwards."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import workbench as wb
from tests.conftest import eventually

# A run of environments that count, as small as it gets.
COUNTING = {"actors": 2, "envs_per_actor": 2, "batch_size": 2, "unroll_length": 5, "learner_threads": 1}


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """No byte is free on the small disk mounted at `disk`."""
    ballast = disk / ".ballast"
    try:
        with suppress(OSError), open(ballast, "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        yield
    finally:
        ballast.unlink(missing_ok=True)


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """These processes stand still, as on a laptop that sleeps."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def processes(status: wb.RunStatus) -> list[int]:
    """Process ids of the supervisor, the learner and the actors, in that order."""
    pids = [status.supervisor_pid, status.learner_pid, *(actor.pid for actor in status.actors)]
    assert all(pids), pids
    return [pid for pid in pids if pid]


def complete(run: wb.Run) -> wb.RunStatus:
    """The status once every actor steps and the run trains."""
    return eventually(
        lambda: (s := run.status).state == "training" and s.updates and all(a.pid and a.steps for a in s.actors) and s,
        what="the run trains with all its actors",
    )


def messages(run: wb.Run, kind: str) -> list[str]:
    """Messages of all events of that kind, oldest first."""
    events = run.events
    return list(events[events["kind"] == kind]["message"])

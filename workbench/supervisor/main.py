"""Entry of the supervisor's process: `python -m workbench _supervisor RUN_DIR`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import psutil

from workbench.metrics import MetricsWriter
from workbench.rundir import RunDirectory, lock
from workbench.supervisor import run_record
from workbench.supervisor.hosts.host import Place, ThisMachine
from workbench.supervisor.service import serve
from workbench.supervisor.supervisor import Outcome, Supervisor
from workbench.wire.lifeline import end_with_parent


def _lock(run: RunDirectory) -> int | None:
    """The run's lock; waits for children of a dead supervisor, and kills those that do not end in time."""
    path = lock.of_supervisor(run)
    held = lock.hold(path, wait_s=lock.ORPHANS_LIVE_S)
    if held is None and not _supervisors(run):
        for orphan in _processes(run, "_learner", "_actor"):
            orphan.kill()
        held = lock.hold(path, wait_s=1.0)
    return held


def _processes(run: RunDirectory, *entries: str) -> list[psutil.Process]:
    """Processes of this user that were started as one of `entries` of this very run."""
    found = []
    for process in psutil.process_iter(["cmdline", "uids"]):
        command, uids = process.info["cmdline"] or [], process.info["uids"]
        if uids and uids.real == os.getuid() and command[1:4] == ["-P", "-m", "workbench"]:
            entry, directory = (command[4:6] + ["", ""])[:2]
            if entry in entries and directory == str(run.path) and process.pid != os.getpid():
                found.append(process)
    return found


def _supervisors(run: RunDirectory) -> list[psutil.Process]:
    return _processes(run, "_supervisor")


def _place(run: RunDirectory, held: int) -> Place:
    """Where the run's launcher wants its processes."""
    if run.config().launcher != "ray":
        return ThisMachine(run, keep_open=held)
    from workbench.supervisor.hosts.ray import RayPlace

    end_with_parent()  # Ray starts another where this one's host, or node, is lost
    return RayPlace(run)


def main(run_dir: str, starting: int | None = None) -> int:
    """Supervise the run in `run_dir` until it ends. The exit code.

    Args:
        starting: descriptor of `start.lock`, which whoever starts this process has handed on; so nobody takes the run
            for dead if that one is killed meanwhile.
    """
    run = RunDirectory(Path(run_dir))
    held = _lock(run)
    if starting is not None:
        os.close(starting)
    if held is None:
        print(f"{run.name} has a supervisor already", file=sys.stderr)
        return 1
    supervisor = Supervisor(run, MetricsWriter(run.metrics, wait_s=run_record.WAIT_S), place=_place(run, held))

    def on_signal(number: int, _: FrameType | None) -> None:
        outcome = Outcome("stopped", f"stopped by {signal.Signals(number).name}")
        threading.Thread(target=supervisor.end, args=[outcome]).start()  # a lock taken here could be this thread's own

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    serve(run, supervisor)
    return 0

"""Entry of the supervisor's process: `python -m workbench _supervisor RUN_DIR`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType

import psutil

from workbench.errors import RunNotFound, StorageFailed
from workbench.metrics import MetricsWriter
from workbench.rundir import RunDirectory, lock
from workbench.supervisor import run_record
from workbench.supervisor.endings import Outcome
from workbench.supervisor.hosts.host import Place, ThisMachine
from workbench.supervisor.service import serve
from workbench.supervisor.supervisor import Supervisor
from workbench.wire import child_group
from workbench.wire.lifeline import Lifeline

_LOOK_S = 2.0  # after the run's folder


def _lock(run: RunDirectory) -> int | None:
    """The descriptor of the run's lock; None if the run has another supervisor.

    Orphans of a dead supervisor hold the lock until they end; those that do not end in time are killed, and so is what
    environments started whose processes were killed. Shared storage keeps the lock of a machine that is lost, for a
    lease.
    """
    path = lock.of_supervisor(run)
    descriptor = lock.hold(path, wait_s=lock.ORPHANS_LIVE_S)
    if descriptor is None and not lock.processes(run, "_supervisor"):
        for orphan in lock.processes(run, "_learner", "_actor"):
            if orphan.is_running():  # and no other process that has its pid
                child_group.kill(orphan.pid)  # with what its environment started
            with suppress(psutil.Error):  # it has ended
                orphan.kill()
        descriptor = lock.hold(path, wait_s=1.0)
        if descriptor is None:
            print(lock.of_lost_machine(path), file=sys.stderr, flush=True)
            descriptor = lock.hold(path, wait_s=lock.LEASE_S)
    if descriptor is not None:
        lock.end_left_behind(run)
    return descriptor


def _place(run: RunDirectory, lock_descriptor: int) -> Place:
    """The place of the run's processes, by its launcher."""
    if run.config().launcher != "ray":
        return ThisMachine(run, keep_open=lock_descriptor)
    from workbench.supervisor.hosts.ray import RayPlace

    Lifeline()  # Ray starts another supervisor when the host or node of this one is lost
    return RayPlace(run)


def _watch(supervisor: Supervisor, place: Place) -> None:
    """Listen for whoever may take the run's machines back. What few runs need is imported for those alone."""
    if spot := supervisor.config.spot:
        from workbench.supervisor.machines import lost_machines, spot_notices

        spot_notices.watch(spot, on_notice=partial(lost_machines.taken_back, supervisor),
                           on_silence=lambda text: supervisor.event("error", text))
    if supervisor.config.launcher == "ray":
        from workbench.supervisor.hosts.ray import RayPlace
        from workbench.supervisor.machines import lost_machines, ray_metrics, ray_notices

        assert isinstance(place, RayPlace)
        ray_notices.watch(place, on_drain=partial(lost_machines.drained, supervisor), say=supervisor.event)
        ray_metrics.report(supervisor.status, run=supervisor.run.name)


def _end_once_deleted(supervisor: Supervisor, lock_descriptor: int) -> None:
    """End the run when its folder is deleted, since nobody could find its processes any more."""
    missing = 0  # looks in a row: one may fall into a moment in which another process puts files in place
    while missing < 2:
        time.sleep(_LOOK_S)
        missing = missing + 1 if not _has_links(lock_descriptor) and not _is_there(supervisor.run) else 0
    supervisor.end(Outcome("stopped", "its folder was deleted", timeout_s=0))


def _has_links(descriptor: int) -> bool:
    """Whether the file is in a folder still, also one that was moved; False, too, where NFS calls it stale."""
    try:
        return os.fstat(descriptor).st_nlink > 0
    except OSError:
        return False


def _is_there(run: RunDirectory) -> bool:
    try:
        run.read()
    except RunNotFound:
        return False
    except StorageFailed:
        pass
    return True


def main(run_dir: str, starting: str | None = None) -> int:
    """Supervise the run in `run_dir` until it ends; returns the exit code.

    Args:
        starting: descriptor of `start.lock`, inherited from the launching process; so the run does not look dead if
            that process is killed before this one has the supervisor's lock.
    """
    run = RunDirectory(Path(run_dir)).that_is_there()
    lock_descriptor = _lock(run)
    if starting is not None:
        os.close(int(starting))
    if lock_descriptor is None:
        print(f"{run.name} has a supervisor already, here or on another machine", file=sys.stderr)
        return 1
    writer = MetricsWriter(run.metrics, wait_s=run_record.WAIT_S)
    place = _place(run, lock_descriptor)
    supervisor = Supervisor(run, writer, place=place)

    def on_signal(number: int, _: FrameType | None) -> None:
        outcome = Outcome("stopped", f"stopped by {signal.Signals(number).name}", ended_by="signal")
        threading.Thread(target=supervisor.end, args=[outcome]).start()  # this thread may hold the lock already

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _watch(supervisor, place)
    threading.Thread(target=_end_once_deleted, args=[supervisor, lock_descriptor], daemon=True).start()
    serve(run, supervisor)
    return 0

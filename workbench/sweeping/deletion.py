"""Deletes a sweep: moves its folder, and on request its runs before it, to `$WORKBENCH_HOME/trash`."""

from __future__ import annotations

import re
from pathlib import Path

from workbench import rundir
from workbench.errors import RunAlive
from workbench.rundir import RunDirectory, lock
from workbench.running import deletion
from workbench.sweeping.folder import SweepFolder


def delete(folder: SweepFolder, *, runs: bool) -> Path:
    """Move a sweep that has ended to the trash, and return its new path. See `Sweep.delete`.

    Raises RunNotFound, RunAlive or StorageFailed, and then leaves the sweep in place.
    """
    folder.read()
    with lock.held(folder.start_lock, wait_s=lock.LOOK_S) as acquired:  # prevents a start meanwhile
        if not acquired or lock.is_held(folder.lock):
            raise RunAlive(f"{folder.name} was not deleted: it goes on. Stop it first: "
                           f"wb.attach_sweep({folder.name!r}).stop(), or workbench sweeps {folder.name} --stop.")
        own_runs = runs_of(folder) if runs else []
        alive = [run.name for run in own_runs if lock.is_alive(run)]
        if alive:
            raise RunAlive(f"{folder.name} was not deleted: its runs {', '.join(alive)} live. Stop them first: "
                           f"wb.attach({alive[0]!r}).stop().")
        for run in own_runs:
            deletion.delete(run)
        return deletion.moved(folder.path, rundir.trash())


def runs_of(folder: SweepFolder) -> list[RunDirectory]:
    """The existing runs of a sweep, by number; without their forks."""
    runs = {int(path.parent.name.rpartition("-")[2]): RunDirectory(path.parent)
            for path in (rundir.home() / "runs").glob(f"{folder.name}-*/run.json")
            if re.fullmatch(r"[0-9]+", path.parent.name.removeprefix(f"{folder.name}-"))}
    return [runs[number] for number in sorted(runs) if folder.owns(runs[number])]

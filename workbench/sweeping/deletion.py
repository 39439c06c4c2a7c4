"""Deleting a sweep: its folder goes to `$WORKBENCH_HOME/trash`, and if so asked its runs before it."""

from __future__ import annotations

import re
from pathlib import Path

from workbench import rundir
from workbench.errors import RunAlive
from workbench.rundir import RunDirectory, lock
from workbench.running import deletion
from workbench.sweeping.folder import SweepFolder


def delete(folder: SweepFolder, *, runs: bool) -> Path:
    """Move a sweep that has ended to the trash; where it is then. See `Sweep.delete`.

    Raises RunNotFound, RunAlive or StorageFailed; the sweep is where it was then.
    """
    folder.read()
    with lock.held(folder.start_lock, wait_s=lock.LOOK_S) as mine:  # so that nobody starts it meanwhile
        if not mine or lock.is_held(folder.lock):
            raise RunAlive(f"{folder.name} was not deleted: it goes on. Stop it first: "
                           f"wb.attach_sweep({folder.name!r}).stop(), or workbench sweeps {folder.name} --stop.")
        own = runs_of(folder) if runs else []
        alive = [run.name for run in own if lock.is_alive(run)]
        if alive:
            raise RunAlive(f"{folder.name} was not deleted: its runs {', '.join(alive)} live. Stop them first: "
                           f"wb.attach({alive[0]!r}).stop().")
        for run in own:
            deletion.delete(run)
        return deletion.moved(folder.path, rundir.trash())


def runs_of(folder: SweepFolder) -> list[RunDirectory]:
    """The runs of a sweep that are still there, by number; not their forks."""
    found = {int(path.parent.name.rpartition("-")[2]): RunDirectory(path.parent)
             for path in (rundir.home() / "runs").glob(f"{folder.name}-*/run.json")
             if re.fullmatch(r"[0-9]+", path.parent.name.removeprefix(f"{folder.name}-"))}
    return [found[number] for number in sorted(found) if folder.owns(found[number])]

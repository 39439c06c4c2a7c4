"""A sweep on disk: `$WORKBENCH_HOME/sweeps/<name>/`, which belongs to its owner alone (0700).

`sweep.json` (what to search and how, and the state, rewritten atomically), `study.sqlite` (Optuna's study: every
trial), `code/` (code typed in a cell, as a run has it), `sweep.log`, two locks, and `stop` after a request to stop.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from workbench import checkpoints, rundir
from workbench.config import RunConfig
from workbench.errors import RunAlive, RunExists, RunNotFound, StorageFailed
from workbench.rundir import Parent, RunDirectory, lock, read_record, write_atomically, write_record
from workbench.rundir.files import check_fields
from workbench.rundir.record_folder import RecordFolder
from workbench.running import deletion

_FIELDS: dict[str, tuple[type, ...]] = {  # of sweep.json, all required, with the types of their values
    "created": (float, int), "state": (str,), "error": (dict, NoneType), "config": (dict,), "space": (dict,),
    "trials": (int,), "parallel": (int,), "metric": (str,), "goal": (str,), "sampler": (str,), "seed": (int,),
    "parent": (dict, NoneType), "lives": (int,),
}  # fmt: skip
_ALSO: dict[str, tuple[type, ...]] = {  # of some sweeps
    "members": (int,), "generations": (int,), "pruner": (str,), "preset": (str, NoneType), "reason": (str,),
    "network": (bool, str)}
_END_S = 10.0  # for the process of a sweep that has ended to be gone


@dataclass(frozen=True)
class SweepFolder(RecordFolder):
    """The paths of one sweep."""

    kind = "sweep"

    @property
    def study(self) -> Path:
        return self.path / "study.sqlite"

    @property
    def log(self) -> Path:
        return self.path / "sweep.log"

    @property
    def order_to_stop(self) -> Path:
        """A file that exists after a request to stop the sweep."""
        return self.path / "stop"

    def ask_to_stop(self) -> None:
        """Ask the sweep to end. A link in the place of that file is replaced, not written through.

        Raises StorageFailed if it cannot be written.
        """
        try:
            write_atomically(self.order_to_stop, b"")
        except OSError as error:
            raise StorageFailed(f"cannot write {self.order_to_stop}: {error.strerror}. Move it away.") from None

    @property
    def lock(self) -> Path:
        """The file that the sweep's process holds locked."""
        return self.path / "lock"

    @property
    def start_lock(self) -> Path:
        """The file that a process holds locked while it starts, stops or deletes the sweep."""
        return self.path / "start.lock"

    @property
    def alive(self) -> bool:
        """Whether the sweep has a process or is being started; reads only files."""
        return lock.is_held(self.lock) or lock.is_held(self.start_lock)

    def run(self, number: int) -> RunDirectory:
        """The directory of a trial's run, which may not exist yet."""
        return RunDirectory(rundir.home() / "runs" / f"{self.name}-{number}")

    def owns(self, run: RunDirectory, *, of: int | None = None) -> bool:
        """Whether this sweep created the run, and not another caller under the same name.

        Args:
            of: number of the trial whose run this one forks: a new fork names only its parent, not yet its sweep.

        Raises RunNotFound, StorageFailed.
        """
        sweep, parent = run.read().get("sweep"), run.parent()
        if sweep is not None:
            return bool(sweep == self.name)
        return of is not None and parent is not None and parent["run"] == self.run(of).name

    def parent(self) -> Parent | None:
        """The checkpoint that all runs begin with: the sweep's own copy, since the original may be pruned."""
        parent: Parent | None = self.read().get("parent")
        copy = checkpoints.newest(self.checkpoints)
        return {**parent, "checkpoint": str(copy.path)} if parent and copy else parent

    def config(self) -> RunConfig:
        """The configuration that all runs share."""
        return RunConfig.from_json(self.read()["config"])

    def read(self) -> dict[str, Any]:
        """sweep.json. Raises RunNotFound, or StorageFailed if it is damaged."""
        try:
            record = read_record(self.record)
            check_fields(record, _FIELDS | _ALSO, self.record, needed=_FIELDS)
            return {"error": None, "parent": None, **record}
        except FileNotFoundError:
            raise RunNotFound(f"{self.path} is gone: there is no sweep in it. wb.sweeps() lists the sweeps.") from None
        except StorageFailed as error:
            raise StorageFailed(f"{error} Put a copy of it back, or move {self.path} away: the sweep's runs are not "
                                "affected.") from None

    def write(self, /, **changes: Any) -> None:
        """Change fields of sweep.json atomically. Only one process writes at a time: the sweep's own while it lives.

        Raises StorageFailed if it cannot be written.
        """
        write_record(self.record, {**(self.read() if self.record.exists() else {}), **changes})


def folder() -> Path:
    """The folder of all sweeps."""
    return rundir.home() / "sweeps"


def create(
    name: str, record: Mapping[str, Any], code: Mapping[str, bytes], prepare: Callable[[SweepFolder], object]
) -> SweepFolder:
    """Create a sweep's folder in one step, with `code` by file name, what `prepare` adds, and sweep.json.

    Raises RunExists, HomeNotWritable, or what `prepare` raises, and then leaves nothing.
    """
    path = folder() / name
    namesake = next((rundir.home() / "runs").glob(f"{name}-[0-9]*"), None)
    if namesake is not None and not path.exists():
        raise RunExists(f"there is a run {namesake.name!r}, a name that a sweep {name!r} would use. Choose another.")
    try:
        with rundir.made_at_once(path, "sweep") as hidden:
            sweep = SweepFolder(hidden)
            sweep.code.mkdir(mode=0o700)
            for file, data in code.items():
                write_atomically(sweep.code / file, data)
            prepare(sweep)
            sweep.write(name=name, **record)
        return SweepFolder(path)
    except FileExistsError:
        raise RunExists(f"there is a sweep {name!r} already. Choose another name, or go on with it: "
                        f"wb.attach_sweep({name!r}).resume().") from None


def find(name: str | Path) -> SweepFolder:
    """The sweep of a name or folder. Raises RunNotFound with the nearest name."""
    return SweepFolder.find(name, folder())


def listed() -> tuple[list[SweepFolder], dict[SweepFolder, str]]:
    """All readable sweeps in the home, newest first; and those with a damaged sweep.json, with the error's text."""
    return SweepFolder.listed(folder())


def delete(folder: SweepFolder, *, runs: bool) -> Path:
    """Move a sweep that has ended to the trash, and return its new path. See `Sweep.delete`.

    Raises RunNotFound, RunAlive or StorageFailed, and then leaves the sweep in place.
    """
    folder.read()
    with lock.held(folder.start_lock, wait_s=lock.LOOK_S) as acquired:  # prevents a start meanwhile
        if not acquired or not is_at_rest(folder):
            raise RunAlive(f"{folder.name} was not deleted: it goes on. Stop it first: "
                           f"wb.attach_sweep({folder.name!r}).stop().")
        own_runs = runs_of(folder) if runs else []
        alive = [run.name for run in own_runs if lock.is_alive(run)]
        if alive:
            raise RunAlive(f"{folder.name} was not deleted: its runs {', '.join(alive)} live. Stop them first: "
                           f"wb.attach({alive[0]!r}).stop().")
        for run in own_runs:
            deletion.delete(run)
        return deletion.moved(folder.path, rundir.trash())


def is_at_rest(folder: SweepFolder) -> bool:
    """Whether a sweep has no process. One that has just ended is waited for until its process is gone."""
    deadline = time.monotonic() + _END_S
    while lock.is_held(folder.lock):
        if folder.read()["state"] not in rundir.ENDED or time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def runs_of(folder: SweepFolder) -> list[RunDirectory]:
    """The existing runs of a sweep, by number; without their forks."""
    runs = {int(path.parent.name.rpartition("-")[2]): RunDirectory(path.parent)
            for path in (rundir.home() / "runs").glob(f"{folder.name}-*/run.json")
            if re.fullmatch(r"[0-9]+", path.parent.name.removeprefix(f"{folder.name}-"))}
    return [runs[number] for number in sorted(runs) if folder.owns(runs[number])]

"""A sweep on disk: `$WORKBENCH_HOME/sweeps/<name>/`, which belongs to its owner alone (0700).

`sweep.json` (what to search and how, and the state, rewritten atomically), `study.sqlite` (Optuna's study: every
trial), `code/` (what was typed in a cell, as a run has it), `sweep.log`, two locks, and `stop` while it is asked to
end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from workbench import checkpoints, rundir
from workbench.config import RunConfig
from workbench.errors import HomeNotWritable, RunExists, RunNotFound, WorkbenchError, nearest
from workbench.rundir import Parent, RunDirectory, lock, read_record, write_atomically, write_record
from workbench.rundir.files import check_fields

_FIELDS: dict[str, tuple[type, ...]] = {  # of sweep.json, all needed, with what a value of each may be
    "created": (float, int), "state": (str,), "error": (dict, NoneType), "config": (dict,), "space": (dict,),
    "trials": (int,), "parallel": (int,), "metric": (str,), "goal": (str,), "sampler": (str,), "seed": (int,),
    "parent": (dict, NoneType), "lives": (int,),
}  # fmt: skip


@dataclass(frozen=True)
class SweepFolder:
    """The paths of one sweep."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def record(self) -> Path:
        return self.path / "sweep.json"

    @property
    def study(self) -> Path:
        return self.path / "study.sqlite"

    @property
    def log(self) -> Path:
        return self.path / "sweep.log"

    @property
    def code(self) -> Path:
        """Code typed in a cell, by value; the sweep copies it into its runs and never loads it."""
        return self.path / "code"

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoint is kept whose weights all runs begin with, if they do."""
        return self.path / "checkpoints"

    @property
    def order_to_stop(self) -> Path:
        """A file that is there while the sweep is asked to end."""
        return self.path / "stop"

    def ask_to_stop(self) -> None:
        """Ask the sweep to end. A link in the place of that file is replaced, not written through."""
        write_atomically(self.order_to_stop, b"")

    @property
    def lock(self) -> Path:
        """What the sweep's process holds locked."""
        return self.path / "lock"

    @property
    def start_lock(self) -> Path:
        """What whoever starts that process holds locked."""
        return self.path / "start.lock"

    @property
    def alive(self) -> bool:
        """Whether the sweep has a process, or is being given one; reads only files."""
        return lock.is_held(self.lock) or lock.is_held(self.start_lock)

    def run(self, number: int) -> RunDirectory:
        """The run of the trial of that number, which may not be there yet."""
        return RunDirectory(rundir.home() / "runs" / f"{self.name}-{number}")

    def owns(self, run: RunDirectory, *, of: int | None = None) -> bool:
        """Whether the run of a trial was made by this sweep, and is not somebody else's of that name.

        Args:
            of: number of the trial that this one's run is a fork of; a fork that is just made says no more than that.

        Raises RunNotFound, StorageFailed.
        """
        sweep, parent = run.read().get("sweep"), run.parent()
        if sweep is not None:
            return bool(sweep == self.name)
        return of is not None and parent is not None and parent["run"] == self.run(of).name

    def parent(self) -> Parent | None:
        """What all runs begin with: the sweep's own copy, as whoever wrote the checkpoint may prune it meanwhile."""
        told: Parent | None = self.read().get("parent")
        kept = checkpoints.every(self.checkpoints)
        return {**told, "checkpoint": str(kept[-1].path)} if told and kept else told

    def config(self) -> RunConfig:
        """The configuration that all runs have in common."""
        return RunConfig.from_json(self.read()["config"])

    def read(self) -> dict[str, Any]:
        """sweep.json. Raises RunNotFound, or StorageFailed if it is damaged."""
        try:
            record = read_record(self.record)
            check_fields(record, _FIELDS, self.record, needed=_FIELDS)
            return {"error": None, "parent": None, **record}
        except FileNotFoundError:
            raise RunNotFound(f"{self.path} is gone: there is no sweep in it. wb.sweeps() lists the sweeps.") from None

    def write(self, **changes: Any) -> None:
        """Change fields of sweep.json atomically. One process does so at a time: the sweep's while it lives.

        Raises StorageFailed if it cannot be written.
        """
        write_record(self.record, {**(self.read() if self.record.exists() else {}), **changes})


def folder() -> Path:
    """Where all sweeps are."""
    return rundir.home() / "sweeps"


def create(
    name: str, record: Mapping[str, Any], code: Mapping[str, bytes], prepare: Callable[[SweepFolder], object]
) -> SweepFolder:
    """A new sweep's folder with `code` by file name, what `prepare` adds, and sweep.json: all of it at once.

    Raises RunExists, HomeNotWritable, or what `prepare` raises, and then leaves nothing.
    """
    sweep = SweepFolder(folder() / name)
    taken = next((rundir.home() / "runs").glob(f"{name}-[0-9]*"), None)
    if taken is not None:
        raise RunExists(f"there is a run {taken.name!r}, a name that a sweep {name!r} would use. Choose another one.")
    try:
        with rundir.made_at_once(folder() / name) as hidden:
            sweep = SweepFolder(hidden)
            sweep.code.mkdir(mode=0o700)
            for file, data in code.items():
                write_atomically(sweep.code / file, data)
            prepare(sweep)
            sweep.write(name=name, **record)
        return SweepFolder(folder() / name)
    except FileExistsError:
        raise RunExists(f"there is a sweep {name!r} already. Choose another name, or go on with it: "
                        f"wb.attach_sweep({name!r}).resume().") from None
    except WorkbenchError:
        raise
    except OSError as error:
        raise HomeNotWritable(f"cannot create the sweep {name!r} in {folder()}: {error.strerror}. Set "
                              "WORKBENCH_HOME to a folder that can be written and has room.") from None


def find(name: str | Path) -> SweepFolder:
    """The sweep of that name or folder. Raises RunNotFound with the nearest name."""
    if not isinstance(name, str | Path):
        raise RunNotFound(f"{name!r:.100} is no sweep's name or folder. wb.sweeps() lists the sweeps.")
    with suppress(OSError, RuntimeError):  # too long for a name, no such user, a working directory that was deleted
        for path in (folder() / name, Path(name).expanduser().absolute()):
            if (path / "sweep.json").exists():
                return SweepFolder(path)
    near = nearest(name, (path.parent.name for path in folder().glob("[!.]*/sweep.json")))
    raise RunNotFound(f"there is no sweep {str(name)!r} in {folder()}.{near} wb.sweeps() lists the sweeps.")


def every() -> list[SweepFolder]:
    """All sweeps in the home, newest first; without those whose sweep.json is damaged."""
    return listed()[0]


def listed() -> tuple[list[SweepFolder], dict[SweepFolder, str]]:
    """All sweeps in the home, newest first; and those whose sweep.json is damaged, with what is wrong with it."""
    return rundir.newest_first(SweepFolder(path.parent) for path in folder().glob("[!.]*/sweep.json"))

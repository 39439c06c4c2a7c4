"""A run on disk: the paths of its files, its token, and run.json, rewritten atomically.

`$WORKBENCH_HOME/runs/<name>/` (default `~/.workbench`) is its owner's alone (0700). Every process of a run starts with
this directory and reads everything else from it.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Protocol, TypedDict, runtime_checkable

from workbench.config import RunConfig
from workbench.errors import AccessDenied, RunExists, RunNotFound, StorageFailed, UnknownName, WorkbenchError
from workbench.rundir.files import check_fields, check_stays, own, read_record, whose, write_atomically, write_record
from workbench.rundir.making import hidden_beside, made_at_once
from workbench.rundir.record_folder import RECORD_NAME, RecordFolder
from workbench.rundir.sockets import socket_address

__all__ = [
    "BY_HAND", "ENDED", "NOT_FINITE", "REMOTE", "OfRun", "Parent", "RunDirectory", "around", "checked_record",
    "code_beside", "create", "every", "find", "gone", "hidden_beside", "home", "made_at_once", "of_checkpoint",
    "parent_of", "read_record", "trash", "write_atomically", "write_record",
]

ENDED = ("stopped", "finished", "failed")  # states in run.json of a run that is over
BY_HAND = "paused by hand"  # `paused` in run.json; any other reason is the learner's own, after which nobody resumes it
NOT_FINITE = "updates in a row were not finite"  # part of the learner's own reason for a pause after such updates
REMOTE = "remote.json"  # of the copy of a run that lives on another machine; see `copies.remote_copy`
_FIELDS: dict[str, tuple[type, ...]] = {  # of run.json, with the types of their values
    "created": (float, int), "state": (str,), "name": (str,), "config": (dict,), "supervisor_pid": (int, NoneType),
    "error": (dict, NoneType), "parent": (dict, str, NoneType), "preset": (str, NoneType), "code": (dict,),
    "versions": (dict,), "machine": (dict,), "lives": (int,), "sweep": (str, NoneType),
    "config_before": (dict, NoneType), "paused": (str, NoneType), "ended_by": (str, NoneType),
    "mended": (int,), "holders": (list,), "mirrored": (int, float), "claimed": (int, float),
}  # fmt: skip
_REMOTE_ADDRESS = re.compile(r"ray://[A-Za-z0-9.:_\[\]-]{1,300}//?[A-Za-z0-9./_-]{1,1000}", re.ASCII)
_TOKEN = re.compile(r"[0-9a-f]{64}")
_LONGEST_TOKEN = 64  # bytes


def home() -> Path:
    """The workbench's home: $WORKBENCH_HOME, or ~/.workbench."""
    return Path(os.environ.get("WORKBENCH_HOME") or Path.home() / ".workbench").expanduser().absolute()


def trash() -> Path:
    """The folder of deleted runs, each a directory that can be moved back to `runs`."""
    return home() / "trash"


def gone(path: Path) -> RunNotFound:
    """The error for a run whose directory was removed."""
    return RunNotFound(f"{path} is gone: the run was deleted. Look for it in {trash()}; wb.runs() lists the runs.")


class Parent(TypedDict):
    """The checkpoint from which a run starts, as in run.json.

    Attributes:
        checkpoint: folder of the checkpoint; it may have been deleted since.
        take: the network's weights alone, or all (a fork): also algorithm, random numbers and counters.
        optimizer: whether to take the optimizer's state.
        replay: whether to take the replay.
        run: name of the run that wrote the checkpoint; None: unknown.
    """

    checkpoint: str
    take: Literal["weights", "all"]
    optimizer: bool
    replay: bool
    run: str | None


def parent_of(
    checkpoint: Path, *, take: Literal["weights", "all"], optimizer: bool = False, replay: bool = False
) -> Parent:
    """The record of a run that starts from the checkpoint in that folder."""
    run = around(checkpoint)
    name = run.path.name if checkpoint.parent == run.checkpoints else None
    return {"checkpoint": str(checkpoint), "take": take, "optimizer": optimizer, "replay": replay, "run": name}


def of_checkpoint(checkpoint: Path) -> RunDirectory | None:
    """The run in whose directory the checkpoint in that folder lies; None for an exported one."""
    run = around(checkpoint)
    return run if checkpoint.parent == run.checkpoints and run.record.exists() else None


def around(checkpoint: Path) -> RunDirectory:
    """The directory two above a checkpoint's folder. Unless it has a record it is no run, and its code is nobody's."""
    return RunDirectory(checkpoint.parent.parent)


def code_beside(checkpoint: Path) -> Path | None:
    """The folder of the code that was typed in cells for the run around a checkpoint; None for an exported one."""
    run = around(checkpoint)
    return run.code if run.record.exists() else None


@dataclass(frozen=True)
class RunDirectory(RecordFolder):
    """The paths of one run."""

    created: float = field(default=0.0, compare=False, repr=False)  # of the one run that is meant; 0: any that is there
    kind = "run"

    @property
    def name(self) -> str:
        """The run's name; of a copy of a run on another machine, the address by which `wb.attach` finds that run."""
        return self.origin or self.path.name

    @property
    def is_copy(self) -> bool:
        """Whether this is the copy of a run on another machine: to read, and never to go on with."""
        return os.path.lexists(self.path / REMOTE)

    @property
    def origin(self) -> str:
        """Of such a copy, the run's address, "ray://HOST:PORT/NAME"; "" of a run of this machine."""
        try:
            address = str(read_record(self.path / REMOTE).get("address"))
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except StorageFailed:
            address = ""
        return address if _REMOTE_ADDRESS.fullmatch(address) else f"ray://unknown/{self.path.name}"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.sqlite"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def opponent(self) -> RunDirectory:
        """A small run directory: a copy of the opponent's checkpoint and code; see `policies.frozen_opponent`."""
        return RunDirectory(self.path / "opponent")

    @property
    def beginning(self) -> Path:
        """A folder with a copy of the checkpoint whose weights the run starts from, which may be pruned meanwhile."""
        return self.path / "beginning"

    @property
    def rollouts(self) -> Path:
        return self.path / "rollouts"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def trackers(self) -> Path:
        """How far each tracker has been given the run's history; see `trackers.history_sender`."""
        return self.path / "trackers"

    @property
    def compiled(self) -> Path:
        """What the compiler of a TPU or another XLA device has compiled; see `learner.devices.compiled_graphs`."""
        return self.path / "xla"

    @property
    def certificate(self) -> Path:
        """The certificate of a run that listens beyond its machine; see `wire.certificates`."""
        return self.path / "tls" / "certificate.pem"

    @property
    def certificate_key(self) -> Path:
        return self.path / "tls" / "key.pem"

    @property
    def endpoints(self) -> Path:
        """Addresses of servers that listen beyond their machine, one file each; see `wire.endpoints`."""
        return self.path / "endpoints"

    @property
    def rendezvous(self) -> Path:
        """The file by which several learners find each other; each of their lives has a new one."""
        return self.path / "rendezvous"

    def replay(self, rank: int = 0) -> Path:
        """The folder of the replay of the learner of that rank, if it is on disk."""
        return self.path / (f"replay-{rank}" if rank else "replay")

    @property
    def supervisor_address(self) -> str:
        return socket_address(self.path, "control.sock")

    def learner_address(self, rank: int = 0) -> str:
        """The address of the learner of that rank on its own machine."""
        return socket_address(self.path, f"learner-{rank}.sock" if rank else "learner.sock")

    def memory_socket(self, rank: int = 0) -> str:
        """The path of the socket where actors ask the learner of that rank for memory to share."""
        return socket_address(self.path, f"memory-{rank}.sock" if rank else "memory.sock").removeprefix("unix:")

    @property
    def owner(self) -> str:
        """The directory's owner, such as "alice's"; "" for the user's own directory, and for none."""
        with suppress(FileNotFoundError):
            uid = self.path.stat().st_uid
            return "" if uid == os.geteuid() else whose(uid)
        return ""

    def check_own(self) -> None:
        """Raises AccessDenied for another user's run, which can be read, but not steered."""
        if owner := self.owner:
            raise AccessDenied(f"{self.path} is {owner}: you can look at it, and start a run of your own from one of "
                               "its checkpoints (wb.launch(..., checkpoint=...)), but not steer it.")

    def token(self) -> str:
        """The run's token, which every RPC must carry. Raises AccessDenied if it is not this user's alone."""
        check_stays(self.path.parent)
        path = self.path / "token"
        token = own(path, largest=_LONGEST_TOKEN, secret=True).decode(errors="replace")
        if not _TOKEN.fullmatch(token):
            raise AccessDenied(f"{path} holds no token of a run, which has 64 hexadecimal digits. It was not sent.")
        return token

    def new_token(self) -> None:
        """Give the run a token that nobody knows, whoever made its files. Raises OSError."""
        write_atomically(self.path / "token", secrets.token_hex(32).encode())

    def read(self) -> dict[str, Any]:
        """run.json. Raises RunNotFound, or StorageFailed if it is damaged, or a field is of another type."""
        try:
            record = read_record(self.record)
        except FileNotFoundError:
            if not self.path.exists():
                raise gone(self.path) from None
            remedy = self._without_record or "wb.runs() lists the runs."
            raise RunNotFound(f"{self.path} is not a run: it has no run.json. {remedy}") from None
        except StorageFailed as error:
            if isinstance(error.__context__, OSError):
                raise
            raise StorageFailed(f"{error} {self._without_record}".strip()) from None
        record = checked_record(record, self.record)
        if self.created and record["created"] != self.created:
            raise RunNotFound(f"{self.path} is another run now: the one that was meant was deleted. Look for it in "
                              f"{trash()}; wb.attach({self.name!r}) takes the new one.")
        return record

    @property
    def _without_record(self) -> str:
        """What to do where run.json cannot be read; "" without a checkpoint."""
        left: list[Path] = []
        with suppress(OSError):  # deleted meanwhile
            left = sorted(self.checkpoints.glob("[0-9]*"))
        if not left:
            return ""
        return ("Put back a copy of it. Or move the folder away and bring the run back from its copy in storage, if it "
                "has one: wb.resume(URL). Or launch a new run from its weights: "
                f"wb.launch(..., checkpoint={str(left[-1])!r}).")

    @property
    def lost_record(self) -> bool:
        """Whether it is what is left of a run: checkpoints, without run.json."""
        return not self.record.exists() and bool(self._without_record)

    @classmethod
    def listed(cls, parent: Path) -> tuple[list[RunDirectory], dict[RunDirectory, str]]:
        """As of any records; what is left of a run without its record is damaged."""
        whole, damaged = super().listed(parent)
        return whole, damaged | {run: "it has no run.json" for path in parent.glob("[!.]*/checkpoints")
                                 if (run := cls(path.parent)).lost_record}

    def write(self, /, **changes: Any) -> dict[str, Any]:
        """Change fields of run.json atomically: by the supervisor alone, while it lives. Raises StorageFailed."""
        data = {**(self.read() if self.record.exists() else {}), **changes}
        write_record(self.record, data)
        return data

    def check_place(self) -> None:
        """Raises StorageFailed if the directory of a live run was moved or deleted, also if another is there now."""
        try:
            self.read()
        except RunNotFound:
            raise StorageFailed(f"{self.path} is gone: it was moved or deleted while the run is alive. Move it back, "
                                "or stop the run, and resume it where its directory is now.") from None

    def that_is_there(self) -> RunDirectory:
        """The same for this run alone: what is read and written is refused once another run has the path. Raises
        RunNotFound, StorageFailed."""
        return replace(self, created=self.read()["created"])

    def config(self) -> RunConfig:
        """The present configuration, live changes included. Raises StorageFailed if there is none, UnknownName for what
        another version of the workbench has written."""
        record = self.read()
        if "config" not in record:
            raise StorageFailed(f"{self.record} is damaged: it has no config. Put back a copy of the file.")
        try:
            return RunConfig.from_json(record["config"])
        except UnknownName as error:
            version = record.get("versions", {}).get("rl-workbench", "unknown")
            raise UnknownName(f"{self.record} was written by version {version!s:.20} of rl-workbench, and has what is "
                              f"not known here: {error}") from None

    @property
    def before_mending(self) -> Path:
        """What the run was before it got mended code that has not trained, beside that; see `rundir.untried`."""
        return self.code / ".untried" / "before.json"

    def parent(self) -> Parent | None:
        """The checkpoint from which the run started; None: it started from nothing."""
        parent = self.read().get("parent")
        return parent_of(Path(parent), take="weights") if isinstance(parent, str) else parent or None


def checked_record(record: dict[str, Any], path: Path) -> dict[str, Any]:
    """run.json, with its fields checked. Raises StorageFailed."""
    check_fields(record, _FIELDS, path)
    return {"created": 0.0, "state": "stopped", **record}


def create(
    name: str, record: dict[str, Any], *, code: Mapping[str, bytes] | None = None,
    prepare: Callable[[RunDirectory], object] = lambda run: None,
) -> RunDirectory:
    """A new run's directory with token, `code` by file name, what `prepare` adds, and run.json: all of it at once.

    `prepare` gets the directory while it is still hidden. Raises RunExists, HomeNotWritable, AccessDenied if others
    could put another run in its place, or what `prepare` raises; no file remains then.
    """
    folder = home() / "runs"
    check_stays(folder)
    try:
        with made_at_once(folder / name, "run") as hidden:
            run = RunDirectory(hidden)
            _fill(run, code or {})
            prepare(run)
            run.write(name=name, **record)
        return RunDirectory(folder / name)
    except FileExistsError:
        is_run = RunDirectory(folder / name).record.exists()
        there, remedy = ((f"a run {name!r}", f", or go on with it: wb.attach({name!r})") if is_run
                         else (f"a folder {folder / name}, which is no run since it has no run.json,",
                               ", or move that folder away"))
        raise RunExists(f"there is {there} already. Choose another name{remedy}.{_freeing(folder / name)}") from None


def _freeing(path: Path) -> str:
    """How to free the name of a run that failed, in a sentence; "" of another run."""
    with suppress(WorkbenchError):
        if RunDirectory(path).read()["state"] == "failed":
            return f" That run failed: wb.attach({path.name!r}).delete() frees its name."
    return ""


def _fill(run: RunDirectory, code: Mapping[str, bytes]) -> None:
    for folder in (run.checkpoints, run.logs, run.tensorboard, run.code):
        folder.mkdir(mode=0o700)
    run.new_token()
    for file, data in code.items():
        write_atomically(run.code / file, data)


@runtime_checkable
class OfRun(Protocol):
    """A handle of a run, which can be used in place of its name: `Run`."""

    @property
    def directory(self) -> RunDirectory: ...


def find(name: str | Path | OfRun) -> RunDirectory:
    """The run of that name, directory or handle. Raises RunNotFound with the nearest name."""
    if isinstance(name, str) and name.startswith("ray://"):
        raise RunNotFound(f"{name[:300]!r} is on a cluster: wb.attach(...) and wb.resume(...) give a handle of it.")
    if isinstance(name, str) and "://" in name:
        raise RunNotFound(f"{name[:300]!r} is no run, but the place of a copy, if one is there: "
                          f"wb.resume({name[:300]!r}) brings it here and goes on with it.")
    try:
        return name.directory if isinstance(name, OfRun) else RunDirectory.find(name, home() / "runs")
    except RunNotFound:
        if RECORD_NAME.fullmatch(str(name)) and (home() / "sweeps" / str(name) / "sweep.json").exists():
            it = f"wb.attach_sweep({str(name)!r})"
            raise RunNotFound(f"{str(name)!r} is a sweep, no run. Look at it: {it}; end it: {it}.stop().") from None
        if RECORD_NAME.fullmatch(str(name)) and (home() / "runs" / str(name)).is_dir():
            RunDirectory(home() / "runs" / str(name)).read()  # which says what is left of it
        raise


def every() -> list[RunDirectory]:
    """All runs in the home, newest first, without those whose run.json is damaged or is being deleted."""
    return listed()[0]


def listed() -> tuple[list[RunDirectory], dict[RunDirectory, str]]:
    """All runs in the home, newest first; and those whose run.json is damaged, with the error."""
    return RunDirectory.listed(home() / "runs")

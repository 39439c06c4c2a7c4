"""The copy of a run that lives on another machine: an ordinary run's directory to read, kept up to date in pieces.

    $WORKBENCH_HOME/remote/<digest>/<name>/    remote.json says whose copy it is; the digest is of path and creation

The run's record, history, logs, code and checkpoints (without a replay) come from `ask`, a call to the machine that
has them. What arrives is checked as a stranger's: names, sizes, types, digests. What the user makes with the copy
(rollouts, evaluations) lies in it beside that, and is never touched; nor are checkpoints that a person asked for and
that the run has lost. One process at a time writes a copy; it holds `following.lock`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from workbench import checkpoints, rundir
from workbench.checkpoints import Checkpoint
from workbench.checkpoints.checkpoint import LARGEST_META, META
from workbench.copies import served_files
from workbench.errors import CheckpointCorrupt, InvalidInput, RunNotFound, StorageFailed, WorkbenchError
from workbench.metrics import copied_rows, schema
from workbench.rundir import RunDirectory, files, sealed, untried
from workbench.rundir.record_folder import RECORD_NAME, identity

Ask = Callable[..., Any]  # ask(method, **arguments)

_TAIL_BYTES = 256 * 1024  # of a log that was not followed from its beginning
_LARGEST_LOG = 16 * 2**20  # of the copy of a log; a longer one begins anew with its tail
_LOGS_AT_ONCE = 20
_MOST_ASKS = 100_000  # for the pieces of one file, or of one history
_NEVER = object()
_SPARE_BYTES = 2**28  # of the disk that stay free


def folder_of(path: str, created: object) -> Path:
    """Where this machine keeps the copy of the run at that path of its machine. Raises InvalidInput for odd names."""
    name = path.rpartition("/")[2]
    if not RECORD_NAME.fullmatch(name):
        raise InvalidInput(f"the run at {path!r:.300} has a name that no copy can have. Rename its folder there.")
    return rundir.home() / "remote" / identity(path, created) / name


class RemoteCopy:
    """Keeps one copy up to date. From any thread.

    Args:
        address: by which `wb.attach` finds the run, "ray://HOST:PORT/NAME".
        path: of the run on its machine.
        record: its run.json now.
        ask: a call to that machine: "record", "history", "checkpoints", "code", "logs", "piece".

    Attributes:
        directory: of the copy.
        alive: whether the run had a supervisor when its machine was asked last.
        problem: why some checkpoint was not copied, or ""; the status of the copy has it as its warning.
    """

    def __init__(self, address: str, path: str, record: dict[str, Any], ask: Ask) -> None:
        self.directory = RunDirectory(folder_of(path, record.get("created")))
        self.alive, self.problem = False, ""
        self._address, self._path = address, path
        self._record: dict[str, Any] | None = None
        self._ask = ask
        self._guard, self._guard_of_checkpoints = threading.RLock(), threading.RLock()
        self._metrics: sqlite3.Connection | None = None
        self._log_ends: dict[str, int] = {}
        self._code_of: object = _NEVER  # lives and settings of the run whose code it has
        self._token = b""

    def begin(self) -> None:
        """Make the folder, for this user alone, with a token of its own. Raises StorageFailed."""
        copy = self.directory
        try:
            for folder in (copy.path, copy.checkpoints, copy.logs, copy.code):
                files.make_private(folder)
            files.check_unlinked(copy.path)
            if not (copy.path / "token").exists():
                copy.new_token()
            self._token = self._token_now()
            rundir.write_record(copy.path / rundir.REMOTE, {"address": self._address, "path": self._path})
        except OSError as error:
            raise StorageFailed(f"cannot write {copy.path}: {error.strerror}. Make room there.") from None

    def update(self) -> bool:
        """Copy what is new but for checkpoints of a live run; returns whether the run is alive.

        The record is written last: it is never newer than the rest, and says that the run has ended when its last
        checkpoint is here. Raises what `ask` raises; StorageFailed, InvalidInput for what no run sends; RunNotFound
        once somebody has removed the copy.
        """
        self._check_place()
        with self._guard, _written(self.directory.path):
            record, self.alive = self._record_now()
            self._copy_history()
            settings = (record.get("lives"), record.get("config"))
            if settings != self._code_of:  # those of mended code come with it, once it has trained
                self._copy_code()
                self._code_of = settings
            self._copy_logs()
            if self.alive:
                self._write(record)
                return True
        self.copy_checkpoints()
        with self._guard:
            self._write(record)
        return self.alive

    @property
    def is_there(self) -> bool:
        """Whether the copy's folder is the one that `begin` made or found: its token is no other's."""
        try:
            return self._token_now() == self._token
        except OSError:
            return False

    def _token_now(self) -> bytes:
        return files.content(self.directory.path / "token", largest=1024)

    def _check_place(self) -> None:
        """Raises RunNotFound if the folder was removed: an open history would go on growing in no folder."""
        if not self.is_there:
            raise RunNotFound(f"{self.directory.path}, the copy of {self._address}, was removed. "
                              f"wb.attach({self._address!r}) makes another one.")

    def _write(self, record: dict[str, Any]) -> None:
        if record != self._record:
            rundir.write_record(self.directory.record, record)
            self._record = record

    def _record_now(self) -> tuple[dict[str, Any], bool]:
        """The run's record, and whether it is alive. Raises StorageFailed, RunNotFound for another run's record."""
        now = self._ask("record")
        if not isinstance(now, dict) or not isinstance(now.get("record"), dict) or type(now.get("alive")) is not bool:
            raise StorageFailed(f"{self._address} sent no record of a run.")
        record = rundir.checked_record(now["record"], Path(self._path) / "run.json")
        if folder_of(self._path, record["created"]) != self.directory.path:
            raise RunNotFound(f"{self._address} is gone: another run lies in its place. Its copy stays in "
                              f"{self.directory.path}; wb.attach({self._address!r}) finds the other one.")
        return record, now["alive"]

    # --- history ----------------------------------------------------------------------------------------------------

    def _copy_history(self) -> None:
        for _ in range(_MOST_ASKS):
            since = copied_rows.marks(self.directory.metrics)
            answer = self._ask("history", since=since)
            if not isinstance(answer, dict):
                raise StorageFailed(f"{self._address} sent no history.")
            if answer.get("anew"):
                self._forget_history()
                continue
            copied_rows.add(self._connection(), self.directory.metrics, self._warned(answer))
            if not answer.get("more"):
                return

    def _warned(self, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer, where a checkpoint was not copied with that as the warning of its status, if that has none."""
        with suppress(KeyError, TypeError, ValueError, AttributeError, RecursionError):  # `copied_rows.add` says so
            age_s, text = answer["status"]
            status = files.decoded(text)
            if self.problem and not status.get("warning"):
                return {**answer, "status": [age_s, json.dumps({**status, "warning": self.problem})]}
        return answer

    def _connection(self) -> sqlite3.Connection:
        if self._metrics is None:
            self._metrics = schema.open_for_writing(self.directory.metrics)
        return self._metrics

    def _forget_history(self) -> None:
        """Begin it anew: the run's own was replaced."""
        self.close()
        for suffix in ("", "-wal", "-shm", "-journal"):
            self.directory.metrics.with_name(f"{self.directory.metrics.name}{suffix}").unlink(missing_ok=True)

    def close(self) -> None:
        """Close the history."""
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None

    # --- code and logs ----------------------------------------------------------------------------------------------

    def _copy_code(self) -> None:
        for name, digest in _mapping(self._ask("code")).items():
            path = served_files.path_in(self.directory.path, name, served_files.CODE)
            if path.exists() and _digest(path) == digest:
                continue
            data = b"".join(self._pieces(name, largest=sealed.LARGEST))
            if hashlib.sha256(data).hexdigest() == digest:  # else it was replaced meanwhile, and comes again
                files.make_private(path.parent)
                rundir.write_atomically(path, data)

    def _copy_logs(self) -> None:
        changed = [(name, size) for name, size in _mapping(self._ask("logs")).items()
                   if type(size) is int and size != self._log_ends.get(name)]
        for name, size in changed[:_LOGS_AT_ONCE]:
            path = served_files.path_in(self.directory.path, name, served_files.LOG)
            end = self._log_ends.get(name)
            goes_on = end is not None and end < size <= end + _TAIL_BYTES
            begin = end if goes_on and end is not None else max(0, size - _TAIL_BYTES)
            data, _ = served_files.bytes_of(self._ask("piece", name=name, offset=begin))
            if goes_on and path.exists() and path.stat().st_size + len(data) <= _LARGEST_LOG:
                with files.to_append(path) as file:
                    file.write(data)
            else:
                rundir.write_atomically(path, data)
            self._log_ends[name] = begin + len(data)

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def copy_checkpoints(self, *, most: int | None = None) -> None:
        """Copy the checkpoints that are new, the newest first, and remove automatic ones that the run has pruned.

        `most`: look at so many alone. Raises what `ask` raises, InvalidInput for names that lead elsewhere, and
        RunNotFound once somebody has removed the copy; `problem` says what else went wrong.
        """
        self._check_place()
        with self._guard_of_checkpoints:
            there, problem = _mapping(self._ask("checkpoints")), ""
            self._tidy()
            for name, digest in list(reversed(there.items()))[:most]:
                try:
                    self._copy_checkpoint(name, digest)
                except (StorageFailed, CheckpointCorrupt) as error:  # the others, and the history, do not wait for it
                    problem = str(error)
            self.problem = problem
            for checkpoint in checkpoints.every(self.directory.checkpoints):
                if f"checkpoints/{checkpoint.path.name}" not in there and not checkpoint.requested:
                    with suppress(OSError):
                        checkpoints.remove(checkpoint.path)

    def _tidy(self) -> None:
        """Remove what a process that was killed, or a connection that broke, left of a checkpoint; one that was to be
        replaced, and was not, comes back."""
        for folder in (self.directory.checkpoints, self.directory.opponent.checkpoints):
            for former in sorted(folder.glob(".former-*")):
                if not (target := former.with_name(former.name.removeprefix(".former-"))).exists():
                    with suppress(OSError):
                        former.rename(target)
            for kind in ("copying", "former", "removing"):
                for rest in folder.glob(f".{kind}-*"):
                    shutil.rmtree(rest, ignore_errors=True)

    def copied_checkpoint(self, path: object) -> Path:
        """The copy of a checkpoint by its path on the run's machine, fetched now. Raises StorageFailed."""
        name = f"checkpoints/{str(path).rpartition('/')[2]}"
        target = served_files.path_in(self.directory.path, name, served_files.CHECKPOINT)
        with self._guard_of_checkpoints:
            self._copy_checkpoint(name, str(_mapping(self._ask("checkpoints")).get(name)))
        if not target.exists():
            raise StorageFailed(f"{path} was written and has gone since: the run pruned it. Ask for another one.")
        return target

    def _copy_checkpoint(self, name: str, digest: str) -> None:
        target = served_files.path_in(self.directory.path, name, served_files.CHECKPOINT)
        if target.exists() and _digest(target / META) == digest:
            return
        hidden = target.with_name(f".copying-{target.name}")
        shutil.rmtree(hidden, ignore_errors=True)
        try:
            self._fetch(name, hidden, target)
        except (StorageFailed, CheckpointCorrupt):
            shutil.rmtree(hidden, ignore_errors=True)
            if _mapping(self._ask("checkpoints")).get(name) == digest:
                raise
            return  # it was pruned meanwhile, or written again: the next look is new
        former = target.with_name(f".former-{target.name}")
        with _written(self.directory.path):
            shutil.rmtree(former, ignore_errors=True)
            if target.exists():
                target.rename(former)
            hidden.rename(target)
        shutil.rmtree(former, ignore_errors=True)

    def _fetch(self, name: str, hidden: Path, target: Path) -> None:
        """Fetch a checkpoint into a hidden folder. Raises StorageFailed, CheckpointCorrupt."""
        with _written(self.directory.path):
            files.make_private(hidden)
            meta = b"".join(self._pieces(f"{name}/{META}", largest=LARGEST_META))
            rundir.write_atomically(hidden / META, meta)
            self._fill(checkpoints.at(hidden), name, target)

    def _fill(self, checkpoint: Checkpoint, name: str, former: Path) -> None:
        """Fetch the files of a checkpoint whose meta.json is here, but for its replay, and verify them."""
        before = {}
        with suppress(InvalidInput, CheckpointCorrupt):
            before = checkpoints.at(former).files
        wanted = {file: facts for file, facts in checkpoint.files.items() if file != served_files.REPLAY_FILE}
        needed = sum(facts["size_bytes"] for facts in wanted.values())
        if needed > shutil.disk_usage(checkpoint.path).free - _SPARE_BYTES:
            raise StorageFailed(f"a checkpoint of {needed:,} bytes was not copied to {former.parent}: that disk is "
                                "full. Free space there.")
        for file, facts in wanted.items():
            if before.get(file) == facts and (former / file).exists():
                shutil.copyfile(former / file, checkpoint.path / file)
                continue
            with files.to_append(checkpoint.path / file) as output:
                for data in self._pieces(f"{name}/{file}", largest=facts["size_bytes"]):
                    output.write(data)
        checkpoint.verify(replay=False)

    def _pieces(self, name: str, *, largest: int) -> Any:
        """The data of a file, piece by piece. Raises StorageFailed if it has more than `largest` bytes."""
        offset = 0
        for _ in range(_MOST_ASKS):
            data, size = served_files.bytes_of(self._ask("piece", name=name, offset=offset))
            offset += len(data)
            if size > largest or offset > largest:
                raise StorageFailed(f"{name} was to be copied, and has more than {largest:,} bytes.")
            yield data
            if offset >= size or not data:
                return


@contextmanager
def _written(copy: Path) -> Iterator[None]:
    """For a block that writes the copy. Raises StorageFailed where the disk refuses."""
    try:
        yield
    except WorkbenchError:
        raise
    except OSError as error:
        raise StorageFailed(f"cannot write {copy}: {error.strerror}. Make room there, or make it writable; the copy "
                            "then goes on by itself.") from None


def _mapping(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise StorageFailed(f"a list of files was sent that is none: {answer!r:.100}.")
    return answer


def _digest(path: Path) -> str:
    """SHA-256 of a file; "" of one that is not there."""
    try:
        with files.opened(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def served(run: RunDirectory, alive: Callable[[RunDirectory], bool]) -> dict[str, Callable[..., Any]]:
    """The calls behind `ask`, on the machine that has the run; `alive`: whether it has a supervisor now."""

    def record() -> dict[str, Any]:
        lives = alive(run)  # before run.json, which a supervisor writes before it goes
        return {"alive": lives, "record": {**run.read(), "config": untried.tried_config(run).to_json()}}

    def history(since: dict[str, Any]) -> dict[str, Any]:
        try:
            return copied_rows.rows_since(run.metrics, since)
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidInput(f"since={since!r:.100} are no marks of a history: {error!r:.100}.") from None

    def piece(name: str, offset: int) -> dict[str, Any]:
        return served_files.piece(run, name, offset)

    return {"record": record, "history": history, "piece": piece, "code": lambda: served_files.code_of(run),
            "logs": lambda: served_files.logs_of(run), "checkpoints": lambda: served_files.checkpoints_of(run)}

"""A run's copy at any URL that fsspec knows: s3://bucket/folder, gs://bucket/folder, /nfs/folder.

    <url>/<name>/metrics.sqlite, code/*, run.json
    <url>/<name>/checkpoints/<folder>/*          its meta.json last of all: a checkpoint is there when that is

Object storage neither renames nor locks, but it shows an object when it is whole, so the order of writing is enough:
a reader sees a checkpoint with all its files, or none. What is read back is verified by its checksums all the same.
A folder of this machine's file system is written and read as a Drive's is, by `run_copy`, through no link.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path, PurePosixPath
from typing import Any

from workbench import checkpoints, rundir
from workbench.checkpoints import Checkpoint
from workbench.checkpoints.checkpoint import META
from workbench.copies import call_to_restore, folder_of, restored_run, run_copy
from workbench.errors import AccessDenied, CheckpointCorrupt, InvalidInput, MissingPackage, RunNotFound, StorageFailed
from workbench.metrics import holds_nothing
from workbench.rundir import RunDirectory
from workbench.rundir.record_folder import RECORD_NAME

PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}  # by scheme
_LISTED_AGAIN = 3  # times


def is_url(text: object) -> bool:
    """Whether it names a copy in storage, such as "s3://bucket/runs/pong", and no run of this machine."""
    return isinstance(text, str) and "://" in text and not text.startswith("ray://")


class Storage:
    """The folder at a URL. Raises MissingPackage or InvalidInput where fsspec cannot open it."""

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem

        self.url = url.rstrip("/")
        self.folder = folder_of(url)
        scheme = url.partition("://")[0]
        try:
            self._files, root = url_to_fs(self.url) if self.folder is None else (LocalFileSystem(), str(self.folder))
        except ImportError:
            package = PACKAGES.get(scheme, f"fsspec[{scheme}]")
            raise MissingPackage(f"storage={url!r} needs {package}. Install it: pip install {package}") from None
        except ValueError as error:
            raise InvalidInput(f"storage={url!r} is no URL that fsspec knows: {error}.") from None
        except (TypeError, AttributeError) as error:  # its class wants arguments that no URL has
            raise InvalidInput(f"storage={url!r} is no folder that can be written: {scheme}://, {error}.") from None
        except Exception as error:  # some connect at once, and each has errors of its own
            raise self._away(error) from None
        self._root = root.rstrip("/")
        self._mount: Path | None = None  # of the folder, when it was first written to
        self._broken: set[str] = set()  # folders of checkpoints whose upload was begun and has not ended

    @property
    def place(self) -> tuple[type, str]:
        """What is the same for all URLs of one folder."""
        return type(self._files), self._root

    def check_copy(self, run: RunDirectory) -> bool:
        """Raises StorageFailed if what is kept under the run's name is another run's, or another machine's by now;
        where it is not the run's own storage, also if it cannot be reached, and RunNotFound if nothing is there.
        Returns whether the run is kept there."""
        own = run.config().storage
        try:
            record = self.known(run.name)
        except (StorageFailed, RunNotFound):
            if own and Storage(own).place == self.place:  # its own need not answer now
                return False
            raise
        run_copy.check_same(run, record, f"{self.url}/{run.name}")
        return True

    def check_free(self, run: RunDirectory) -> None:
        """Raises StorageFailed if the run may not be copied: storage cannot be reached, or has that name from another
        run or machine."""
        run_copy.check_same(run, self._record(run.name), f"{self.url}/{run.name}")

    def has(self, name: str) -> bool:
        """Whether a run of that name is there, be it only a claim. Raises StorageFailed."""
        with self._asked():
            try:
                self._files.info(self._at(name, "run.json"))  # its `exists` may take any error for a file that is gone
            except FileNotFoundError:
                return False
        return True

    def catch_up(self, run: RunDirectory) -> str:
        """As `restored_run.catch_up`, from what is kept there."""
        if self.folder is not None:
            run_copy.check_own(self.folder / run.name)
            with self.named(str(self.folder)):
                return restored_run.catch_up(run, RunDirectory(self.folder / run.name), self.url)
        with self.brought() as into:
            with self._asked():
                self._bring_descriptions(run.name, self._whole(run.name), into)
            if restored_run.has_all(run, checkpoints.every(into)):
                return ""
        with self.brought() as into:
            lost = [run.metrics, run.trackers] if holds_nothing(run.metrics) else []
            for part in [run.checkpoints, *lost]:
                self.fetch(f"{run.name}/{part.name}", into)
            return restored_run.catch_up(run, RunDirectory(into / run.name), self.url)

    def keep(self, run: RunDirectory, *, ended: bool = False) -> int | None:
        """Copy what `run_copy.copy` copies, and return what it returns; before there is a checkpoint, claim the name.

        Args:
            ended: see `run_copy.copy`.

        Raises StorageFailed, or what `run_copy.copy` raises; what was there before then remains.
        """
        if self.folder is not None:
            self._check_mounted(self.folder)
        found = run_copy.to_copy(run)
        if not found:
            self._claim(run)
            return None
        if self.folder is not None:
            return run_copy.copy(run, self.folder, found, ended=ended)
        missing = [one for one in found if not self._has(run.name, one)]
        if not missing and not ended:
            return None
        self.check_free(run)
        with tempfile.TemporaryDirectory(prefix="rl-workbench-") as staging:
            run_copy.write(run, Path(staging) / run.name, missing)
            self._clear(run.name)
            copied = [one.path.name for one in missing]
            for folder in copied:
                self._delete(run.name, folder)  # usually there is none of that name
            self._broken.update(copied)
            self._upload(Path(staging) / run.name, self._at(run.name))
            self._broken.difference_update(copied)
        self._prune(run, [one.path.name for one in found])
        return found[-1].frames

    def _claim(self, run: RunDirectory) -> None:
        """Write the run's record alone where there is none, or its own of before.

        Raises StorageFailed where its name is another run's.
        """
        if self.folder is not None:
            run_copy.check_own(self.folder / run.name)
        record = self._record(run.name)
        run_copy.check_same(run, record, f"{self.url}/{run.name}")
        if record is None or "claimed" in record:
            with self._asked(), tempfile.TemporaryDirectory(prefix="rl-workbench-") as staging:
                rundir.write_record(Path(staging) / "run.json", run_copy.claim(run))
                self._upload(Path(staging), self._at(run.name))

    def release(self, run: RunDirectory) -> None:
        """Give the name of a run back that has ended without a checkpoint. Raises StorageFailed."""
        record = self._record(run.name)
        if record is not None and "claimed" in record and record.get("created") == run.read().get("created"):
            with self._asked():
                self._files.rm_file(self._at(run.name, "run.json"))
            if self.folder is not None:
                with suppress(OSError):  # there is something else in it
                    (self.folder / run.name).rmdir()

    def taken(self, name: str) -> str:
        """Why a new run cannot have that name there, as where what is there cannot be read; "" where it can."""
        with suppress(StorageFailed):
            if (record := self._record(name)) is None:
                return ""
            if "claimed" in record:
                return (f"{self.url} keeps the name {name!r} for a run that has no checkpoint yet. If its machine is "
                        f"gone, delete {self.url}/{name}")
        return f"{self.url} has a run {name!r}. Go on with it: {call_to_restore(self.url, name)}"

    def _check_mounted(self, folder: Path) -> None:
        """Raises StorageFailed where the disk of the folder was taken away: another one would get the copy."""
        self._mount = self._mount or next(path for path in (folder, *folder.parents) if os.path.ismount(path))
        if not os.path.ismount(self._mount):
            raise StorageFailed(f"{self._mount} is mounted no more, on which {folder} was. Mount it again.")

    @contextmanager
    def brought(self) -> Iterator[Path]:
        """An empty folder for what comes from there, which errors call by the URL."""
        with tempfile.TemporaryDirectory(prefix="rl-workbench-") as folder, self.named(folder):
            yield Path(folder)

    @contextmanager
    def named(self, folder: str) -> Iterator[None]:
        """Lets errors about what is in `folder` call it by the URL."""
        try:
            yield
        except (AccessDenied, CheckpointCorrupt, StorageFailed) as error:
            raise type(error)(str(error).replace(folder, self.url)) from None

    def fetch(self, name: str, into: Path) -> None:
        """Copy what is kept of that run, or a folder of it, "pong/checkpoints", to `into`/`name`. Raises StorageFailed.
        """
        with self._asked():
            for _ in range(_LISTED_AGAIN):  # what was listed may be pruned by who writes there
                with suppress(FileNotFoundError):
                    return self._fetch(name, into / name)
            self._fetch(name, into / name)

    def _fetch(self, name: str, target: Path) -> None:
        shutil.rmtree(target, ignore_errors=True)
        source = self._at(name)
        self._files.invalidate_cache()
        for path in self._files.find(source):
            relative = PurePosixPath(path).relative_to(source)
            if ".." in relative.parts:
                raise StorageFailed(f"{self.url} has an object with '..' in its name: {path!r:.100}. Delete it.")
            (target / relative).parent.mkdir(parents=True, exist_ok=True)
            self._files.get_file(path, str(target / relative))

    def names(self) -> list[str]:
        """Names of the runs that are kept there."""
        with self._asked():
            records = self._files.glob(f"{escape(self._root)}/*/run.json")
            return sorted(PurePosixPath(path).parent.name for path in records)

    def _at(self, *parts: str) -> str:
        return "/".join([self._root, *parts])

    def known(self, name: str) -> dict[str, Any]:
        """run.json of a run that is kept. Raises RunNotFound with the nearest name."""
        if (record := self._record(name)) is None:
            raise run_copy.not_there(name, f"at {self.url}", self.names())
        return record

    def _record(self, name: str) -> dict[str, Any] | None:
        """run.json of the copy of that name; None if there is none, or a claim that is left."""
        with self.brought() as folder:
            copied = RunDirectory(folder / name)
            copied.path.mkdir()
            with self._asked():
                try:
                    self._files.get_file(self._at(name, "run.json"), str(copied.record))
                except FileNotFoundError:
                    return None
            try:
                record = copied.read()
                return None if run_copy.is_left(record) and not self._whole(name) else record
            except StorageFailed as error:
                anew = " If it is the copy of the run that is here, delete it there: then it is written anew."
                raise StorageFailed(f"{error}{anew if restored_run.is_here(name) else ''}") from None

    def _whole(self, name: str) -> set[str]:
        """Folders of the checkpoints that are kept whole."""
        with self._asked():
            found = self._files.glob(f"{escape(self._at(name))}/checkpoints/*/{META}")
        return {PurePosixPath(path).parent.name for path in found}

    def _clear(self, name: str) -> None:
        """Delete what uploads of this object have left that broke off, so that they cannot fill the storage."""
        for folder in sorted(self._broken):
            there = self._at(name, "checkpoints", folder)
            with suppress(Exception):  # each file system has errors of its own
                try:
                    self._files.info(f"{there}/{META}")  # its `exists` may take any error for a file that is gone
                except FileNotFoundError:
                    self._files.rm(there, recursive=True)
                self._broken.discard(folder)

    def _upload(self, folder: Path, target: str) -> None:
        """Every file, the one by which a reader knows that the others are whole after them."""
        paths = [path for path in folder.rglob("*") if path.is_file()]
        with self._asked():
            for path in sorted(paths, key=lambda path: (path.name == META, path.name == "run.json", path)):
                there = "/".join([target, *path.relative_to(folder).parts])
                self._files.makedirs(there.rpartition("/")[0], exist_ok=True)
                self._files.put_file(str(path), there)

    def _prune(self, run: RunDirectory, copied: list[str]) -> None:
        """Delete all but the newest checkpoints and the best one, as their descriptions there tell. The last of
        `copied` is the newest, whatever the clock of a machine before this one says."""
        with self.brought() as into:
            try:
                self._bring_descriptions(run.name, there := self._whole(run.name), into)
            except Exception:  # each file system has errors of its own; what cannot be read now is no older for it
                return
            described = checkpoints.every(into)
        best = checkpoints.best(described)
        in_order = [one.path.name for one in described]  # what has no good description is older
        kept = [*sorted(there.difference(in_order)), *in_order]
        kept.sort(key=lambda folder: folder == copied[-1])
        for folder in kept[: -run_copy.KEPT]:
            if folder not in copied and (best is None or folder != best.path.name):
                self._delete(run.name, folder)

    def _bring_descriptions(self, name: str, folders: Iterable[str], into: Path) -> None:
        """Put the descriptions of these checkpoints into `into`, and nothing else of them."""
        for folder in folders:
            (into / folder).mkdir()
            self._files.get_file(self._at(name, "checkpoints", folder, META), str(into / folder / META))

    def _delete(self, name: str, folder: str) -> None:
        """Delete a checkpoint if it is there: the file by which it counts as whole, then the others."""
        there = self._at(name, "checkpoints", folder)
        with suppress(Exception):  # each file system has errors of its own
            self._files.rm_file(f"{there}/{META}")
            self._broken.add(folder)
            self._files.rm(there, recursive=True)
            self._broken.discard(folder)

    def _has(self, name: str, checkpoint: Checkpoint) -> bool:
        """Whether that checkpoint is there, and not another machine's of the same number of frames."""
        folder = checkpoint.path.name
        if folder not in self._whole(name):
            return False
        with self._asked():
            files = self._described(name, folder).get("files")
        return isinstance(files, dict) and run_copy.are_of(checkpoint, files)

    def _described(self, name: str, folder: str) -> dict[str, Any]:
        """The description of the checkpoint in that folder; {} if it is none."""
        text = self._files.cat_file(self._at(name, "checkpoints", folder, META))
        with suppress(ValueError, RecursionError):
            return described if isinstance(described := json.loads(text), dict) else {}
        return {}

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Asks storage as it is now; raises StorageFailed for what goes wrong there."""
        self._files.invalidate_cache()
        try:
            yield
        except StorageFailed:
            raise
        except Exception as error:  # each file system has errors of its own
            raise self._away(error) from None

    def _away(self, error: Exception) -> StorageFailed:
        return StorageFailed(f"storage at {self.url} cannot be used now: {type(error).__name__}: {error}. Check the "
                             "URL, the network, and the credentials in the environment.")


def restored(url: str, *, trust_code: bool = False) -> str:
    """Copies the run at `url`, "s3://bucket/folder/name", to this machine, or, to one that is here, checkpoints that it
    has lost. Returns its name.

    Raises RunNotFound with the nearest name, CheckpointCorrupt without a whole checkpoint, AccessDenied for code that
    was typed in a cell unless `trust_code`, StorageFailed, also where another run of that name is here.
    """
    folder, _, name = url.rstrip("/").rpartition("/")
    if not is_url(f"{folder}/") or not RECORD_NAME.fullmatch(name):
        raise InvalidInput(f"{url!r} names no run: give the storage and the run's name, such as 's3://bucket/runs/pong'.")
    storage = Storage(folder)
    if restored_run.is_here(name):
        run = rundir.find(name)
        if storage.check_copy(run) and (said := restored_run.caught_up_at_rest(run, storage.catch_up)):
            print(said)
        return name
    storage.known(name)
    if storage.folder is not None:
        with storage.named(str(storage.folder)):
            return restored_run.restored(name, storage.folder, trust_code=trust_code)
    with storage.brought() as into:
        storage.fetch(name, into)
        return restored_run.restored(name, into, trust_code=trust_code)

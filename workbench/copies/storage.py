"""A run's copy at any URL that fsspec knows: s3://bucket/folder, gs://bucket/folder, /nfs/folder.

    <url>/<name>/metrics.sqlite, code/*, run.json
    <url>/<name>/checkpoints/<folder>/*          its meta.json last of all: a checkpoint is there when that is

Object storage neither renames nor locks, but it shows an object when it is whole, so the order of writing is enough:
a reader sees a checkpoint with all its files, or none. What is read back is verified by its checksums all the same.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from workbench import checkpoints, rundir
from workbench.checkpoints.checkpoint import META
from workbench.copies import run_copy
from workbench.errors import InvalidInput, MissingPackage, StorageFailed
from workbench.rundir import RunDirectory

PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}  # by scheme


def is_url(text: object) -> bool:
    """Whether it names a copy in storage, such as "s3://bucket/runs/pong", and no run of this machine."""
    return isinstance(text, str) and "://" in text and not text.startswith("ray://")


class Storage:
    """The folder at a URL. Raises MissingPackage or InvalidInput where fsspec cannot open it."""

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs

        self.url = url.rstrip("/")
        scheme = url.partition("://")[0] if "://" in url else "file"
        try:
            self._files, root = url_to_fs(self.url)
        except ImportError:
            package = PACKAGES.get(scheme, f"fsspec[{scheme}]")
            raise MissingPackage(f"storage={url!r} needs {package}. Install it: pip install {package}") from None
        except ValueError as error:
            raise InvalidInput(f"storage={url!r} is no URL that fsspec knows: {error}.") from None
        self._root = str(root).rstrip("/")

    @property
    def place(self) -> tuple[type, str]:
        """What is the same for all URLs of one folder."""
        return type(self._files), self._root

    def check_copy(self, run: RunDirectory) -> None:
        """Raises StorageFailed if what is kept under the run's name is another run's, or cannot be reached; RunNotFound
        if nothing is."""
        run_copy.check_same(run, self._known(run.name), f"{self.url}/{run.name}")

    def keep(self, run: RunDirectory) -> int | None:
        """Copy the run's newest good checkpoint, and all that belongs to it. Returns its frames; None if it was there.

        Raises StorageFailed, or what `run_copy.copy` raises; what was there before then remains.
        """
        newest, _ = checkpoints.newest_good(run.checkpoints, replay=False)
        if newest is None or newest.path.name in self._whole(run.name):
            return None
        run_copy.check_same(run, self._record(run.name), f"{self.url}/{run.name}")
        with tempfile.TemporaryDirectory(prefix="rl-workbench-") as staging:
            frames = run_copy.copy(run, Path(staging))
            self._upload(Path(staging) / run.name, self._at(run.name))
        self._prune(run)
        return frames

    def fetch(self, name: str, into: Path) -> None:
        """Copy what is kept of that run to `into`/`name`. Raises RunNotFound with the nearest name, StorageFailed."""
        self._known(name)
        target, source = into / name, self._at(name)
        self._files.invalidate_cache()
        try:
            for path in self._files.find(source):
                relative = PurePosixPath(path).relative_to(source)
                if ".." in relative.parts:
                    raise StorageFailed(f"{self.url} has an object with '..' in its name: {path!r:.100}. Delete it.")
                (target / relative).parent.mkdir(parents=True, exist_ok=True)
                self._files.get_file(path, str(target / relative))
        except StorageFailed:
            raise
        except Exception as error:
            raise self._failed(error) from None

    def names(self) -> list[str]:
        """Names of the runs that are kept there."""
        self._files.invalidate_cache()
        try:
            return sorted(PurePosixPath(path).parent.name for path in self._files.glob(f"{self._root}/*/run.json"))
        except Exception as error:
            raise self._failed(error) from None

    def _at(self, *parts: str) -> str:
        return "/".join([self._root, *parts])

    def _known(self, name: str) -> dict[str, Any]:
        """run.json of a run that is kept. Raises RunNotFound with the nearest name."""
        if (record := self._record(name)) is None:
            raise run_copy.not_there(name, f"at {self.url}", self.names())
        return record

    def _record(self, name: str) -> dict[str, Any] | None:
        """run.json of the copy of that name; None if there is none."""
        with tempfile.TemporaryDirectory(prefix="rl-workbench-") as folder:
            copied = RunDirectory(Path(folder))
            try:
                self._files.invalidate_cache()
                self._files.get_file(self._at(name, "run.json"), str(copied.record))
            except FileNotFoundError:
                return None
            except Exception as error:  # each file system has errors of its own
                raise self._failed(error) from None
            return copied.read()

    def _whole(self, name: str) -> set[str]:
        """Folders of the checkpoints that are kept whole."""
        self._files.invalidate_cache()
        try:
            found = self._files.glob(self._at(name, "checkpoints", "*", META))
        except Exception as error:
            raise self._failed(error) from None
        return {PurePosixPath(path).parent.name for path in found}

    def _upload(self, folder: Path, target: str) -> None:
        """Every file, the one by which a reader knows that the others are whole after them."""
        paths = [path for path in folder.rglob("*") if path.is_file()]
        try:
            for path in sorted(paths, key=lambda path: (path.name == META, path.name == "run.json", path)):
                there = "/".join([target, *path.relative_to(folder).parts])
                self._files.makedirs(there.rpartition("/")[0], exist_ok=True)
                self._put(path, there)
        except Exception as error:
            raise self._failed(error) from None

    def _put(self, path: Path, there: str) -> None:
        """One file, which appears there whole: where it is a plain file system, beside and renamed."""
        if "file" not in self._files.protocol:
            self._files.put_file(str(path), there)
            return
        folder, _, name = there.rpartition("/")
        beside = f"{folder}/.writing-{name}"
        self._files.put_file(str(path), beside)
        Path(beside).replace(there)

    def _prune(self, run: RunDirectory) -> None:
        """Delete all but the newest checkpoints and the best one; the file first by which they count as whole."""
        kept = sorted(self._whole(run.name))
        local = checkpoints.every(run.checkpoints)
        best = checkpoints.best([one for one in local if one.path.name in kept])
        for folder in kept[: -run_copy.KEPT]:
            if best is None or folder != best.path.name:
                there = self._at(run.name, "checkpoints", folder)
                with suppress(Exception):  # each file system has errors of its own
                    self._files.rm_file(f"{there}/{META}")
                    self._files.rm(there, recursive=True)

    def _failed(self, error: BaseException) -> StorageFailed:
        return StorageFailed(f"storage at {self.url} cannot be used now: {type(error).__name__}: {error}. Check the "
                             "URL, the network, and the credentials in the environment.")


def restored(url: str, *, trust_code: bool = False) -> str:
    """Copies the run at `url`, "s3://bucket/folder/name", to this machine, unless it is here already. Returns its name.

    Raises RunNotFound with the nearest name, CheckpointCorrupt without a whole checkpoint, AccessDenied for code that
    was typed in a cell unless `trust_code`, StorageFailed, also where another run of that name is here.
    """
    folder, _, name = url.rstrip("/").rpartition("/")
    if run_copy.is_here(name):
        run = rundir.find(name)
        own, asked = run.config().storage, Storage(folder)
        if not own or Storage(own).place != asked.place:  # its own need not answer now
            asked.check_copy(run)
        return name
    with tempfile.TemporaryDirectory(prefix="rl-workbench-") as into:
        Storage(folder).fetch(name, Path(into))
        return run_copy.restored(name, into, trust_code=trust_code)

"""A folder with a record in it, such as a run's or a sweep's: found by name, and listed with the others of its kind."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from workbench.errors import RunNotFound, StorageFailed, nearest

RECORD_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)  # of a run or sweep


def identity(path: str | Path, created: object) -> str:
    """16 digits that no other run has: by its path on its machine, and the time of its creation."""
    return hashlib.sha256(f"{path} {created!r}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class RecordFolder(ABC):
    """A folder that holds a record: `<kind>.json`, which says when it was created."""

    path: Path
    kind: ClassVar[str]  # "run" or "sweep"

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def record(self) -> Path:
        return self.path / f"{self.kind}.json"

    @property
    def checkpoints(self) -> Path:
        """Of a run; of a sweep, with a copy of the one whose weights all of its runs begin with, if any."""
        return self.path / "checkpoints"

    @property
    def demonstrations(self) -> Path:
        """The file of the episodes that the run, or each run of the sweep, learns from: `replay.demonstration_file`."""
        return self.path / "demonstrations" / "steps.safetensors"

    @property
    def code(self) -> Path:
        """What was typed in a cell, by value. Only this user's own processes load it; a sweep copies it into its runs.
        """
        return self.path / "code"

    @abstractmethod
    def read(self) -> dict[str, Any]:
        """The record. Raises RunNotFound, StorageFailed."""

    @classmethod
    def find(cls, name: str | Path, parent: Path) -> Self:
        """The folder of that name in `parent`, or at that path. Raises RunNotFound with the nearest name."""
        remedy = f"wb.{cls.kind}s() lists the {cls.kind}s."
        if not isinstance(name, str | Path):
            raise RunNotFound(f"{name!r:.100} is not the name or folder of a {cls.kind}. {remedy}")
        with suppress(OSError, RuntimeError):  # name too long, unknown user, deleted working directory
            for folder in (cls(parent / name), cls(Path(name).expanduser().absolute())):
                if folder.record.exists():
                    return folder
        hint = nearest(name, (folder.name for folder in cls._every(parent)))
        of_this_name = re.compile(re.escape(str(name)) + r"-\d{8}-\d{6}(-\d+)?")
        if deleted := [path for path in parent.parent.glob("trash/*") if of_this_name.fullmatch(path.name)]:
            hint += f" One of this name lies in the trash: {max(deleted)}."
        raise RunNotFound(f"there is no {cls.kind} {str(name)!r:.300} in {parent}.{hint} {remedy}")

    @classmethod
    def listed(cls, parent: Path) -> tuple[list[Self], dict[Self, str]]:
        """Those in `parent` with a readable record, newest first; and those with a damaged one, with its error. None
        that are being created or deleted."""
        created, damaged = {}, {}
        for folder in cls._every(parent):
            try:
                created[folder] = folder.read()["created"]
            except RunNotFound:
                continue
            except StorageFailed as error:
                damaged[folder] = str(error)
        return sorted(created, key=created.__getitem__, reverse=True), damaged

    @classmethod
    def _every(cls, parent: Path) -> list[Self]:
        return [cls(path.parent) for path in parent.glob(f"[!.]*/{cls.kind}.json")]  # hidden ones are being created

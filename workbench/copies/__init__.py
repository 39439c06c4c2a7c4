"""Copies of a run beyond its machine: all that it needs to go on, in a folder or in object storage, and back."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from workbench.config import RunConfig
from workbench.errors import InvalidInput, StorageFailed
from workbench.rundir import RunDirectory

FOLDER = "WORKBENCH_MIRROR"  # variable with the folder to which runs of the launcher "colab" are copied
RECORD = "mirror.json"  # of a run: what was copied there last
LAST_COPY_S = 660.0  # of a run that has ended: a minute more than its supervisor takes


def folder_of(place: str) -> Path | None:
    """The folder of this machine's file system that a path or a file:// URL names; None for other URLs.

    Raises InvalidInput for what can be no path.
    """
    scheme, is_url, path = place.partition("://")
    if is_url and scheme not in ("file", "local"):
        return None
    if "\0" in place:
        raise InvalidInput(f"storage={place!r:.200} can be no folder: there is a NUL in it.")
    try:
        return Path(path if is_url else place).expanduser().absolute()  # "::" in it means something to fsspec alone
    except RuntimeError as error:  # ~nobody
        raise InvalidInput(f"storage={place!r:.200} can be no folder: {error}") from None


def absolute(place: str) -> str:
    """A place as it is recorded: a path from the root, since a run may be resumed in another working directory.

    Raises InvalidInput for a URL with one slash, which would be such a path, and for the memory of one process.
    """
    if place.startswith("memory://"):
        raise InvalidInput(f"storage={place!r} is the memory of one process, and ends with it. Give a folder or a URL.")
    if re.match(r"[a-z][a-z0-9+]+:/(?!/)", place):
        raise InvalidInput(f"storage={place!r} has one slash where a URL has two: {place.replace(':/', '://', 1)!r}.")
    if not place or (folder := folder_of(place)) is None:
        return place
    scheme, is_url, _ = place.partition("://")
    return f"{scheme}://{folder}" if is_url else str(folder)


def check_writable(folder: Path, instead: str) -> None:
    """Make the folder. Raises StorageFailed if it cannot be written; `instead` is what to do then."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()  # under a name that nobody could have put there
    except OSError as error:
        raise StorageFailed(f"cannot write {folder}: {error.strerror}. {instead}") from None


def places(config: RunConfig) -> dict[str, bool]:
    """The folders and URLs to which a run is copied, and of each whether it is the prepared folder of "colab"."""
    folder = os.environ.get(FOLDER, "") if config.launcher == "colab" else ""
    storage = "" if folder and folder_of(config.storage) == Path(folder).absolute() else config.storage
    return {place: place == folder for place in (storage, folder) if place}


def of_its_copy(config: RunConfig) -> str:
    """The end of a phrase about what a run's copies have; "" of a run without one."""
    return f"of its copy in {' and '.join(kept)}" if (kept := places(config)) else ""


def place_of_copy(directory: RunDirectory) -> str:
    """The place in which the run in this directory is a copy; "" of a run that is none."""
    return next((place for place in places(directory.config()) if (folder := folder_of(place)) is not None
                 and directory.path.resolve() == (folder / directory.name).resolve()), "")


def call_to_restore(place: str, name: str) -> str:
    """The call that goes on with the copy of a run at a URL or in a folder; by its bare path it would train there."""
    return f"wb.resume('{'' if '://' in place else 'file://'}{place}/{name}')"

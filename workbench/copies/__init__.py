"""Copies of a run beyond its machine: all that it needs to go on, in a folder or in object storage, and back."""

from __future__ import annotations

import os
from pathlib import Path

from workbench.config import RunConfig

FOLDER = "WORKBENCH_MIRROR"  # variable with the folder to which runs of the launcher "colab" are copied
RECORD = "mirror.json"  # of a run: what was copied there last
LAST_COPY_S = 660.0  # of a run that has ended: a minute more than its supervisor takes


def folder_of(place: str) -> Path | None:
    """The folder of this machine's file system that a path or a file:// URL names; None for other URLs."""
    scheme, is_url, path = place.partition("://")
    if is_url and scheme not in ("file", "local"):
        return None
    return Path(path if is_url else place).expanduser().absolute()  # "::" in it means nothing, other than to fsspec


def places(config: RunConfig) -> dict[str, bool]:
    """The folders and URLs to which a run is copied, and of each whether it is the prepared folder of "colab"."""
    folder = os.environ.get(FOLDER, "") if config.launcher == "colab" else ""
    storage = "" if folder and folder_of(config.storage) == Path(folder).absolute() else config.storage
    return {place: place == folder for place in (storage, folder) if place}


def call_to_restore(place: str, name: str) -> str:
    """The call that goes on with the copy of a run at a URL or in a folder; by its bare path it would train there."""
    return f"wb.resume('{'' if '://' in place else 'file://'}{place}/{name}')"

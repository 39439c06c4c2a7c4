"""Copies of a run beyond its machine: all that it needs to go on, in a folder or in object storage, and back."""

from __future__ import annotations

import os
from pathlib import Path

from workbench.config import RunConfig

FOLDER = "WORKBENCH_MIRROR"  # variable with the folder to which runs of the launcher "colab" are copied
RECORD = "mirror.json"  # of a run: what was copied there last
LAST_COPY_S = 660.0  # of a run that has ended: a minute more than its supervisor takes


def places(config: RunConfig) -> dict[str, bool]:
    """The folders and URLs to which a run is copied, and of each whether it is the prepared folder of "colab"."""
    folder = os.environ.get(FOLDER, "") if config.launcher == "colab" else ""
    storage = config.storage
    if folder and "://" not in storage.removeprefix("file://"):
        storage = storage if Path(storage.removeprefix("file://")).absolute() != Path(folder).absolute() else ""
    return {place: place == folder for place in (storage, folder) if place}


def call_to_resume(place: str, name: str) -> str:
    """The call that goes on with the copy of a run at a URL or in a folder; by its bare path it would train there."""
    return f"wb.resume('{'' if '://' in place else 'file://'}{place}/{name}')"

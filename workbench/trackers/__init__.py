"""Services that a run's history is sent to, such as Weights & Biases: one contract, one folder for each.

Every folder here is a tracker: `<name>/` is named as the package that it imports, which the extra `<name>` installs.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil

from workbench import imports
from workbench.errors import MissingPackage, UnknownName
from workbench.trackers.contract import Tracker

TRACKERS = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))

__all__ = ["TRACKERS", "Tracker", "by_name", "named"]


def named(track: str) -> tuple[str, ...]:
    """The trackers in "wandb,mlflow"; () for "". Raises UnknownName with the nearest one."""
    names = tuple(dict.fromkeys(name.strip() for name in track.split(",") if name.strip()))
    for name in names:
        if name not in TRACKERS:
            raise UnknownName.among("tracker", name, TRACKERS)
    return names


def check_installed(track: str) -> None:
    """Raises UnknownName, or MissingPackage with the command that installs what the tracker needs."""
    for name in named(track):
        needed = getattr(importlib.import_module(f"{__name__}.{name}"), "PACKAGE", name)
        if importlib.util.find_spec(needed) is None:
            raise MissingPackage(f"track={name!r} needs {needed}, which is not installed: {imports.pip_install(name)}")


def by_name(name: str) -> Tracker:
    """The tracker of that name. Raises UnknownName with the nearest one."""
    named(name)
    tracker: Tracker = getattr(importlib.import_module(f"{__name__}.{name}"), f"{name.capitalize()}Tracker")()
    return tracker

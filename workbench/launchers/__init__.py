"""Where a run's supervisor is started: one contract, one module per place."""

from __future__ import annotations

from workbench.errors import UnknownName
from workbench.launchers.contract import Launched, Launcher
from workbench.launchers.local import LocalLauncher

LAUNCHERS: dict[str, type[Launcher]] = {"local": LocalLauncher}

__all__ = ["LAUNCHERS", "Launched", "Launcher", "by_name"]


def by_name(name: str) -> Launcher:
    """The launcher of that name. Raises UnknownName with the nearest one."""
    if name not in LAUNCHERS:
        raise UnknownName.among("launcher", str(name), LAUNCHERS)
    return LAUNCHERS[name]()

"""Where a run's supervisor is started: one contract, one folder per place."""

from __future__ import annotations

import importlib
import pkgutil

from workbench.config import RunConfig
from workbench.errors import InvalidInput, UnknownName
from workbench.launchers.contract import Launched, Launcher, Resources

# Every folder here is one: `<name>/`, with the class `<Name>Launcher`, made without arguments, in its `__init__`. It is
# loaded when it is asked for, and without a folder there is one launcher less.
LAUNCHERS = tuple(sorted(one.name for one in pkgutil.iter_modules(__path__) if one.ispkg))

__all__ = ["LAUNCHERS", "Launched", "Launcher", "Resources", "by_name", "checked"]


def by_name(name: str) -> Launcher:
    """The launcher of that name. Raises UnknownName with the nearest one."""
    if name not in LAUNCHERS:
        raise UnknownName.among("launcher", str(name), LAUNCHERS)
    made: Launcher = getattr(importlib.import_module(f"{__name__}.{name}"), f"{name.capitalize()}Launcher")()
    return made


def checked(launcher: Launcher, config: RunConfig) -> Launcher:
    """The launcher, which can start a run of that configuration. Raises what `Launcher.check` raises."""
    if config.address is not None and config.launcher != "ray":
        raise InvalidInput(f"address={config.address!r} is of a Ray cluster, and launcher={config.launcher!r} uses "
                           "none. Give launcher='ray', or leave the address out.")
    launcher.check(config)
    return launcher

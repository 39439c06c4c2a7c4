"""Where a run's supervisor is started: one contract, one module per place."""

from __future__ import annotations

import importlib

from workbench.config import RunConfig
from workbench.errors import InvalidInput, UnknownName
from workbench.launchers.contract import Launched, Launcher, Resources

# By name, the class that is made without arguments; its module is loaded when it is asked for.
LAUNCHERS: dict[str, str] = {
    "colab": "workbench.launchers.colab:ColabLauncher",
    "inline": "workbench.launchers.inline:InlineLauncher",
    "local": "workbench.launchers.local:LocalLauncher",
    "ray": "workbench.launchers.ray:RayLauncher",
}

__all__ = ["LAUNCHERS", "Launched", "Launcher", "Resources", "by_name", "checked"]


def by_name(name: str) -> Launcher:
    """The launcher of that name. Raises UnknownName with the nearest one."""
    if name not in LAUNCHERS:
        raise UnknownName.among("launcher", str(name), LAUNCHERS)
    module, _, kind = LAUNCHERS[name].partition(":")
    made: Launcher = getattr(importlib.import_module(module), kind)()
    return made


def checked(launcher: Launcher, config: RunConfig) -> Launcher:
    """The launcher, which can start a run of that configuration. Raises what `Launcher.check` raises."""
    if config.address is not None and config.launcher != "ray":
        raise InvalidInput(f"address={config.address!r} is of a Ray cluster, and launcher={config.launcher!r} uses "
                           "none. Give launcher='ray', or leave the address out.")
    launcher.check(config)
    return launcher

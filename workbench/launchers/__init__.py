"""Where a run's supervisor is started: one contract, one folder per place."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
from contextlib import suppress

from workbench import imports, trackers
from workbench.config import RunConfig, hardware
from workbench.config.chosen import DEVICE_VARIABLE
from workbench.errors import InvalidInput, OutOfBounds, StorageFailed, UnknownName
from workbench.launchers.contract import Launched, Launcher

# Every folder here is a launcher: `<name>/`, with the class `<Name>Launcher` in its `__init__`, loaded on first
# use. A folder can be deleted, and with it its launcher.
LAUNCHERS = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))

__all__ = ["LAUNCHERS", "Launched", "Launcher", "by_name", "checked"]


def by_name(name: str) -> Launcher:
    """The launcher of that name. Raises UnknownName with the nearest one."""
    if name not in LAUNCHERS:
        raise UnknownName.among("launcher", str(name), LAUNCHERS)
    launcher: Launcher = getattr(importlib.import_module(f"{__name__}.{name}"), f"{name.capitalize()}Launcher")()
    return launcher


def checked(launcher: Launcher, config: RunConfig) -> Launcher:
    """The launcher, if it can start a run of that configuration.

    Raises what `Launcher.check` and `Storage` raise, OutOfBounds for a GPU that the torch of this machine cannot use,
    and MissingPackage for an XLA device without a package that drives it, or for a tracker without its own.
    """
    if config.address is not None and config.launcher != "ray":
        raise InvalidInput(f"address={config.address!r} is of a Ray cluster, and launcher={config.launcher!r} uses "
                           "none. Give launcher='ray', or leave the address out.")
    if config.device == "cuda" and config.launcher != "ray" and not hardware.torch_build():
        of_kernel = os.environ.get(DEVICE_VARIABLE) == "cuda"
        given, other = (f" by {DEVICE_VARIABLE} of this kernel", "another kernel") if of_kernel else ("", "'auto'")
        raise OutOfBounds(f"device='cuda'{given}, but the torch that is installed here is built for CPUs alone. "
                          f"Install a build for your GPU, or choose device='cpu' or {other}.")
    trackers.check_installed(config.track)
    if config.storage:
        from workbench.copies.url_storage import Storage

        with suppress(StorageFailed):  # opened, and not asked: a run that is here goes on without it
            Storage(config.storage)
    launcher.check(config)
    if config.device in ("xla", "tpu") and config.launcher != "ray" and not _drives(config.device):
        raise imports.missing_xla(config.device)
    return launcher


def _drives(device: str) -> bool:
    """Whether a package is installed that drives this device of XLA."""
    packages = ["torch_xla", "torch_tpu"] if device == "tpu" else ["torch_xla"]
    return any(importlib.util.find_spec(package) is not None for package in packages)

"""Families of environments beside Gymnasium's, and the packages that single ids need.

A family is a folder here, whose name is the prefix of its environments' names. Its `__init__` has FAMILY, the other
fields of `Family`; its `family.py` is the adapter (see `Adapter`), which is loaded on first use.
"""

from __future__ import annotations

import importlib
import importlib.util
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from workbench import imports
from workbench.environments.contract import Show, VectorEnvironment
from workbench.errors import MissingPackage


class Adapter(Protocol):
    """The module `family.py` of a family."""

    def names(self) -> tuple[str, ...]:
        """Every known name, without making any; some families know theirs before the package is installed."""

    def check(self, name: str, options: Mapping[str, Any]) -> object:
        """Cheap; its result is the family's own. Raises UnknownName for the name or an option, OutOfBounds for a value.
        """

    def make(
        self, name: str, *, num_envs: int, seed: int, threads: int, options: Mapping[str, Any], show: Show
    ) -> VectorEnvironment:
        """Returns `num_envs` environments of that name."""


@dataclass(frozen=True)
class Family:
    """A family's description, available without loading its adapter.

    Attributes:
        prefix: of its environments' names.
        title: a short description.
        packages: alternatives; any one of them is enough.
        extra: the extra of this distribution that installs the usual package.
        remedy: what to do where there is no such extra.
    """

    prefix: str
    title: str
    packages: tuple[str, ...]
    extra: str = ""
    remedy: str = ""

    @property
    def install(self) -> str:
        """The command that installs the usual package."""
        return self.remedy or imports.pip_install(self.extra)

    @property
    def installed(self) -> bool:
        """Whether one of its packages is installed."""
        return any(importlib.util.find_spec(package) is not None for package in self.packages)

    def adapter(self, name: str) -> Adapter:
        """The adapter, for making `name`. Raises MissingPackage."""
        if not self.installed:
            raise MissingPackage(f"environment {name!r} needs {self.packages[0]}, which is not installed: "
                                 f"{self.install}")
        return self.adapter_module()

    def adapter_module(self) -> Adapter:
        """The adapter, for its names; it loads even if the package is not installed."""
        return cast(Adapter, importlib.import_module(f"workbench.environments.{self.prefix.rstrip('/')}.family"))


def _families() -> tuple[Family, ...]:
    """A Family for every folder here that has a `family.py`."""
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/family.py"))
    return tuple(Family(f"{name}/", **importlib.import_module(f"{__package__}.{name}").FAMILY) for name in folders)


FAMILIES = _families()


def family_of(name: str) -> Family | None:
    """The family of environment `name`; None if it is Gymnasium's or the user's own."""
    return next((family for family in FAMILIES if name.startswith(family.prefix)), None)


@dataclass(frozen=True)
class Package:
    """A package that some of Gymnasium's ids, or some names of a family, need.

    Attributes:
        starts: prefixes of such names, or of the modules of their entry points.
        package: its import name.
        requirement: its pip requirement.
        extra: the extra of this distribution that installs it, if there is one.
        brings_ids: whether importing it registers its ids with Gymnasium.
    """

    starts: tuple[str, ...]
    package: str
    requirement: str = ""
    extra: str = ""
    brings_ids: bool = False

    @property
    def install(self) -> str:
        """The command that installs it."""
        return imports.pip_install(self.extra) if self.extra else shlex.join(["pip", "install", self.requirement])

    @property
    def installed(self) -> bool:
        """Whether it can be imported."""
        return importlib.util.find_spec(self.package) is not None


PACKAGES = (
    Package(("ALE/", "ale_py"), "ale_py", "ale-py"),
    Package(("gymnasium.envs.box2d",), "Box2D", "gymnasium[box2d]"),
    Package(("gymnasium.envs.mujoco",), "mujoco", extra="mujoco"),
    Package(("gymnasium.envs.phys2d", "gymnasium.envs.tabular"), "jax", "gymnasium[jax]"),
    Package(("MiniGrid-", "BabyAI-", "minigrid"), "minigrid", extra="minigrid", brings_ids=True),
    Package(("pettingzoo/atari/",), "multi_agent_ale_py", "pettingzoo[atari]"),
    Package(("pettingzoo/butterfly/pistonball",), "pymunk", "pettingzoo[butterfly]"),
    Package(("pettingzoo/sisl/multiwalker",), "Box2D", "pettingzoo[sisl]"),
    Package(("pettingzoo/sisl/pursuit",), "scipy", "pettingzoo[sisl]"),
)


def package_of(key: str) -> Package | None:
    """The package that an environment's name, or an entry point, needs beside its family's; None if there is none."""
    return next((package for package in PACKAGES if key.startswith(package.starts)), None)


def lacking(name: str) -> bool:
    """Whether `name` cannot be reset: MiniGrid 3.2.0's wheel lacks the patterns of its MiniGrid-WFC-* levels."""
    spec = importlib.util.find_spec("minigrid") if name.startswith("MiniGrid-WFC-") else None
    folders = (spec and spec.submodule_search_locations) or ()
    return any(not Path(folder, "envs", "wfc", "patterns").exists() for folder in folders)


def importing(name: str) -> bool:
    """Imports the package that registers the id `name` with Gymnasium. Returns False if no installed package does."""
    package = package_of(name)
    if package is None or not package.brings_ids or not package.installed:
        return False
    importlib.import_module(package.package)
    return True

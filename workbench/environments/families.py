"""Families of environments beside Gymnasium's: one adapter each, found by how a name begins and loaded when asked for;
and the packages that Gymnasium's own ids, or single names of a family, need.

A family is a folder here: its `__init__` has FAMILY, the fields of `Family` but its prefix, which is the folder's name;
its `family.py` is the adapter, a module with

    names() -> tuple[str, ...]          every name that is known here, without making any; some need no package for it
    check(name, options) -> None        cheap; raises UnknownName (for the name or an option), OutOfBounds
    make(name, *, num_envs, seed, threads, options, show) -> VectorEnvironment
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
    """The module of a family."""

    def names(self) -> tuple[str, ...]:
        """Every name that is known here, installed or not: see `Family.installed`."""
        ...

    def check(self, name: str, options: Mapping[str, Any]) -> None:
        """Whether the name and its options are right."""
        ...

    def make(
        self, name: str, *, num_envs: int, seed: int, threads: int, options: Mapping[str, Any], show: Show
    ) -> VectorEnvironment:
        """The environments."""
        ...


@dataclass(frozen=True)
class Family:
    """What is known of a family without loading its adapter.

    Attributes:
        prefix: how its names begin.
        title: what it is, in words.
        packages: any one of them is enough.
        extra: of this distribution, that installs the usual one.
        remedy: what to do instead where there is no such extra.
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
        """Whether a package that it needs is there."""
        return any(importlib.util.find_spec(package) is not None for package in self.packages)

    def adapter(self, name: str) -> Adapter:
        """The adapter, to make `name`. Raises MissingPackage."""
        if not self.installed:
            raise MissingPackage(f"environment {name!r} needs {self.packages[0]}, which is not installed: "
                                 f"{self.install}")
        return self.adapter_module()

    def adapter_module(self) -> Adapter:
        """The adapter, to ask for its names; it loads whether its package is installed or not."""
        return cast(Adapter, importlib.import_module(f"workbench.environments.{self.prefix.rstrip('/')}.family"))


def _families() -> tuple[Family, ...]:
    """Every folder here that has a `family.py`: what its `__init__` tells as FAMILY, without its adapter."""
    here = Path(__file__).parent
    found = sorted(one.parent.name for one in here.glob("*/family.py"))
    return tuple(Family(f"{name}/", **importlib.import_module(f"{__package__}.{name}").FAMILY) for name in found)


FAMILIES = _families()


def family_of(name: str) -> Family | None:
    """The family that `name` belongs to; None: it is Gymnasium's or a user's own."""
    return next((family for family in FAMILIES if name.startswith(family.prefix)), None)


@dataclass(frozen=True)
class Package:
    """A package without which some of Gymnasium's ids, or some of a family's names, cannot be made.

    Attributes:
        starts: how a name begins, or its entry point's module.
        package: by which name it is imported.
        requirement: what pip installs for it.
        extra: of this distribution, that installs it, where there is one.
        brings_ids: whether its ids are in Gymnasium's registry only once it was imported.
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
        """Whether it is there."""
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
    """The package that a name, or an entry point, needs; None: nothing but its family's is known to be needed."""
    return next((one for one in PACKAGES if key.startswith(one.starts)), None)


def lacking(name: str) -> bool:
    """Whether the id `name` is one that cannot be reset: MiniGrid 3.2.0's wheel came without the pictures that its
    MiniGrid-WFC-* levels are drawn after."""
    found = importlib.util.find_spec("minigrid") if name.startswith("MiniGrid-WFC-") else None
    places = (found and found.submodule_search_locations) or ()
    return any(not Path(place, "envs", "wfc", "patterns").exists() for place in places)


def importing(name: str) -> bool:
    """Imports the package that brings the id `name` into Gymnasium's registry; False where none does, or it is not
    installed."""
    needed = package_of(name)
    if needed is None or not needed.brings_ids or not needed.installed:
        return False
    importlib.import_module(needed.package)
    return True

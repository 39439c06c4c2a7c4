"""Families of environments beside Gymnasium's: one adapter each, found by how a name begins and loaded when asked for.

An adapter is a module with

    names() -> tuple[str, ...]          every name it has, without making any; () where its package is not installed
    check(name, options) -> None        cheap; raises UnknownName (for the name or an option), OutOfBounds
    make(name, *, num_envs, seed, threads, options, show) -> VectorEnvironment
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from workbench.environments.contract import Show, VectorEnvironment
from workbench.errors import MissingPackage


class Adapter(Protocol):
    """The module of a family."""

    def names(self) -> tuple[str, ...]:
        """Every name it has."""
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
        install: the command that installs the usual one.
    """

    prefix: str
    title: str
    packages: tuple[str, ...]
    install: str

    @property
    def installed(self) -> bool:
        """Whether a package that it needs is there."""
        return any(importlib.util.find_spec(package) is not None for package in self.packages)

    def adapter(self, name: str) -> Adapter:
        """The adapter, to make `name`. Raises MissingPackage."""
        if not self.installed:
            raise MissingPackage(f"environment {name!r} needs {self.packages[0]}, which is not installed: "
                                 f"{self.install}")
        return cast(Adapter, importlib.import_module(f"workbench.environments.{self.prefix.rstrip('/')}"))


FAMILIES = (
    Family("football/", "Google Research Football", ("envpool", "gfootball"), 'pip install "rl-workbench[football]"'),
    Family("vizdoom/", "ViZDoom, first-person", ("vizdoom",), 'pip install "rl-workbench[doom]"'),
    Family("dmlab/", "DeepMind Lab, first-person", ("deepmind_lab",),
           "build it from github.com/google-deepmind/lab; there is no wheel"),
    Family("pettingzoo/", "PettingZoo's parallel environments", ("pettingzoo",),
           'pip install "rl-workbench[multi-agent]"'),
)


def family_of(name: str) -> Family | None:
    """The family that `name` belongs to; None: it is Gymnasium's or a user's own."""
    return next((family for family in FAMILIES if name.startswith(family.prefix)), None)

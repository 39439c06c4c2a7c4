"""Environments behind one contract: Atari, football, first-person worlds, any Gymnasium id, what is typed in a cell.

`workbench.environments()` lists them: every family with how many there are and, where something is missing, the command
that installs it; `workbench.environments("football/")` those of one, `workbench.environments("maze")` those whose names
have that in them.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

from workbench.environments.contract import VectorEnvironment
from workbench.environments.registry import (
    atari_game,
    check_name,
    check_processes,
    check_wrappable,
    make,
    make_configured,
    register_environment,
    registered_factory,
)

if TYPE_CHECKING:
    from workbench.environments.catalogue import EnvironmentRow, FamilyRow
    from workbench.tables import Table

__all__ = [
    "VectorEnvironment",
    "atari_game",
    "check_name",
    "check_processes",
    "check_wrappable",
    "make",
    "make_configured",
    "register_environment",
    "registered_factory",
]


class _Environments(types.ModuleType):
    """This package, which can be called: importing it anywhere sets `workbench.environments` to it, so that a function
    of that name would be there or not by what was imported before."""

    def __call__(self, pattern: str | None = None) -> Table[FamilyRow] | Table[EnvironmentRow]:
        """What there is, see `catalogue.environments`."""
        from workbench.environments.catalogue import environments

        return environments(pattern)

    def __reduce__(self) -> tuple[Any, ...]:
        """By its name, as pickle does with any module: code typed in a cell may refer to it."""
        return importlib.import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Environments

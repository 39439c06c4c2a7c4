"""Environments behind one contract: Atari, football, first-person worlds, any Gymnasium id, classes typed in a cell.

`workbench.environments()` lists all families, with the command that installs a missing one;
`workbench.environments("football/")` lists one family, `workbench.environments("maze")` all names with that word.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

from workbench.environments.contract import VectorEnvironment
from workbench.environments.registration import (
    atari_game,
    check_name,
    check_options,
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
    "check_options",
    "check_processes",
    "check_wrappable",
    "make",
    "make_configured",
    "register_environment",
    "registered_factory",
]


class _Environments(types.ModuleType):
    """This package as a callable. Importing it anywhere sets `workbench.environments` to it, so a function of that
    name would exist or not depending on earlier imports."""

    def __call__(self, pattern: str | None = None) -> Table[FamilyRow] | Table[EnvironmentRow]:
        """The table of environments, see `catalogue.environments`."""
        from workbench.environments.catalogue import environments

        return environments(pattern)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles it by name, as any module: code typed in a cell may refer to it."""
        return importlib.import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Environments

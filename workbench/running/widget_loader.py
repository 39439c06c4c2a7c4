"""Loads a widget's module when something is shown, so that handles need no ipywidgets."""

from __future__ import annotations

import importlib
from types import ModuleType

from workbench.errors import MissingPackage


def widget(name: str) -> ModuleType:
    """The module `workbench.widgets.<name>`. Raises MissingPackage where ipywidgets or anywidget is not installed."""
    try:
        return importlib.import_module(f"workbench.widgets.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("workbench"):
            raise
        what = name.rpartition(".")[2]
        raise MissingPackage(f"the {what} needs {error.name}. Install it: pip install {error.name}") from None

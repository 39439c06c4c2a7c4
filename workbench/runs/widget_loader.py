"""The one door from handles up to the widgets: they are loaded in the moment in which something is shown."""

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
        raise MissingPackage(f"the {name} needs {error.name}. Install it: pip install {error.name}") from None

"""Live views of a run in a notebook, over ipywidgets and Altair; nothing is loaded from the internet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.widgets.panel import RunPanel, Steerable
    from workbench.widgets.still import Still


def panel(run: Steerable) -> RunPanel | Still:
    """The live panel of a run; without ipywidgets, its state and charts as they are now."""
    try:
        from workbench.widgets.panel import RunPanel
    except ImportError:
        from workbench.widgets.still import Still

        return Still(run)
    return RunPanel(run)

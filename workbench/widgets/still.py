"""A run's state and charts as they are at the moment of showing, for a kernel without ipywidgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.rundir import RunDirectory
from workbench.widgets import picture, snapshot

if TYPE_CHECKING:
    from workbench.widgets.panel import Steerable

REMEDY = "Live panel: pip install ipywidgets"


class Still:
    """A picture of a run, read anew each time that it is shown."""

    def __init__(self, run: Steerable) -> None:
        self._directory = RunDirectory(run.path)

    def __repr__(self) -> str:
        now = snapshot.read(self._directory, series=False)
        return f"{picture.text(now)}\n{REMEDY}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundle = picture.bundle(snapshot.read(self._directory))
        return {**bundle, "text/plain": f"{bundle['text/plain']}\n{REMEDY}"}

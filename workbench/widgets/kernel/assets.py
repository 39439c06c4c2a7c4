"""The browser half of the widgets, in `static/`: built from widgets/src by `node widgets/build.mjs`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def text(name: str) -> str:
    """The text of a file in `static/`, such as "charts.js"; read once per process."""
    return files("workbench.widgets").joinpath("static", name).read_text(encoding="utf-8")

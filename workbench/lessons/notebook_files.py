"""The lessons' notebooks and figures: inside the wheel, or beside the package in a checkout."""

from __future__ import annotations

from pathlib import Path

FIRST = "01-first-run.ipynb"


def folder() -> Path:
    """Where the notebooks are; their figures are in `figures/` beneath it."""
    package = Path(__file__).parents[1]
    packaged = package / "notebooks"
    return packaged if packaged.exists() else package.parent / "notebooks"


def every() -> list[Path]:
    """Paths of all notebooks: the lessons by number, then the appendices."""
    return sorted(folder().glob("*.ipynb"))


def figures() -> list[Path]:
    """Paths of the drawings that the notebooks show."""
    return sorted((folder() / "figures").glob("*.svg"))

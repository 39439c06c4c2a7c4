"""The lessons: notebooks that lie inside the wheel, or beside the package in a checkout."""

from __future__ import annotations

from pathlib import Path

FIRST = "01-first-run.ipynb"


def every() -> list[Path]:
    """Paths of all lessons, in order."""
    package = Path(__file__).parents[1]
    packaged = package / "notebooks"
    return sorted((packaged if packaged.exists() else package.parent / "notebooks").glob("[0-9]*.ipynb"))

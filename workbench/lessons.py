"""The notebooks that travel with the package: inside the wheel, or beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

FIRST = "01-first-run.ipynb"


def every() -> list[Path]:
    """Paths of all lessons, in their order."""
    here = Path(__file__).parent
    packaged = here / "notebooks"
    return sorted((packaged if packaged.exists() else here.parent / "notebooks").glob("[0-9]*.ipynb"))

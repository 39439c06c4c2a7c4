"""What docs/architecture.md shows: the folders are those whose imports are tested, and the files are there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.test_layers import LAYERS, PACKAGE

DOCS = Path(__file__).parents[1] / "docs"
DRAWINGS = DOCS / "drawings"


def test_the_drawing_of_folders_has_the_layers_that_imports_are_held_to() -> None:
    text = (DRAWINGS / "folders.dot").read_text()
    drawn = {int(number): {name.strip() for name in names.replace("wb (__init__)", "__init__").split("|")}
             for number, names in re.findall(r'layer(\d+) \[label="\{\{ (.*?) \}', text)}
    assert [drawn[number] for number in sorted(drawn)] == LAYERS


def test_every_file_of_a_walk_is_there() -> None:
    named = re.findall(r"`([a-z_/]+\.py)`", (DOCS / "architecture.md").read_text())
    assert len(named) > 30
    gone = [name for name in named if not (PACKAGE / name).exists() and not (DOCS.parent / name).exists()]
    assert gone == []


@pytest.mark.full
def test_the_committed_drawings_are_what_their_texts_give(tmp_path: Path) -> None:
    if not shutil.which("npm"):
        pytest.skip("needs node 20 or newer, with npm")
    shutil.copytree(DRAWINGS, tmp_path / "drawings", ignore=shutil.ignore_patterns("node_modules"))
    fetch = ["npm", "ci", "--no-audit", "--no-fund"]
    fetched = subprocess.run(fetch, cwd=tmp_path / "drawings", timeout=240, check=False)
    if fetched.returncode:
        pytest.skip("needs npm's registry")
    subprocess.run(["node", "draw.mjs", str(tmp_path)], cwd=tmp_path / "drawings", timeout=240, check=True)
    for drawn in tmp_path.glob("*.svg"):
        assert drawn.read_text() == (DOCS / drawn.name).read_text(), f"npm run draw in docs/drawings, for {drawn.name}"
    assert len(list(tmp_path.glob("*.svg"))) == len(list(DRAWINGS.glob("*.dot")))

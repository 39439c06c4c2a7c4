"""What all lessons have in common."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.lessons import CHECKOUT, LESSONS


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_is_kept_without_outputs_and_ends_with_things_to_try(lesson: Path) -> None:
    cells = nbformat.read(lesson, as_version=4).cells
    assert cells[0].cell_type == "markdown" and cells[0].source.startswith("# ")
    assert "Things to try" in cells[-1].source
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
    for cell in cells:
        if cell.cell_type == "code":
            ast.parse(cell.source)


def test_every_lesson_is_executed_by_a_test_and_travels_in_the_wheel() -> None:
    tests = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    packaged = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    for lesson in LESSONS:
        assert f'execute("{lesson.stem}"' in tests
        assert packaged["force-include"][f"notebooks/{lesson.name}"] == f"workbench/notebooks/{lesson.name}"

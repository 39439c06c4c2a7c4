"""What all lessons have in common."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.lessons import CHECKOUT, LESSONS
from workbench.lessons.exercise import every

REWRITTEN = {"00-concepts", "01-first-run", "02-central-inference", "03-vtrace-by-hand", "04-r2d2-by-hand",
             "05-tuning-live", "06-what-has-it-learnt", "07-your-own", "08-football", "09-more-machines",
             "10-your-own-algorithm", "11-break-it", "12-which-is-better", "13-find-the-bottleneck", "14-self-play",
             "15-lag-in-small", "16-who-computes-where", "appendix-colab-tpu"}
WITHOUT_EXERCISES = {path.stem for path in LESSONS} - REWRITTEN  # to be rewritten
LAST_SECTIONS = ["## Things to try", "## Questions", "## In five lines", "## Read on"]

@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_is_kept_without_outputs(lesson: Path) -> None:
    cells = nbformat.read(lesson, as_version=4).cells
    assert cells[0].cell_type == "markdown" and cells[0].source.startswith("# ")
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
    for cell in cells:
        if cell.cell_type == "code":
            ast.parse(cell.source)


@pytest.mark.parametrize("lesson", [path for path in LESSONS if path.stem not in WITHOUT_EXERCISES],
                         ids=lambda path: path.stem)
def test_a_lesson_has_aims_questions_exercises_and_a_summary(lesson: Path) -> None:
    cells = nbformat.read(lesson, as_version=4).cells
    head = cells[0].source
    assert all(f"**{part}**" in head for part in ("You will learn", "You should know", "Time")), head
    assert re.search(r"\d+ minutes? of machine time, about \d+ with reading", head), head
    text = [cell.source for cell in cells if cell.cell_type == "markdown"]
    sections = [line for source in text for line in source.splitlines() if line.startswith("## ")]
    assert sections[-len(LAST_SECTIONS):] == LAST_SECTIONS
    questions, summary, read_on = (source_of(text, name) for name in LAST_SECTIONS[1:])
    assert questions.count("<details>") == questions.count("</details>") == 3
    assert len(re.findall(r"^\d\. ", summary, re.MULTILINE)) == 5
    assert "](https://" in read_on
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    exercises = set(re.findall(r'\bcheck\("([\w.]+)"', code))
    assert exercises and exercises <= set(every()) and exercises == set(re.findall(r'\bsolution\("([\w.]+)"', code))


def source_of(text: list[str], heading: str) -> str:
    """The text below a heading, to the next one."""
    _, _, after = "\n".join(text).partition(f"{heading}\n")
    return re.split(r"^## ", after, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_can_be_run_again_since_it_leaves_the_names_of_its_runs_to_the_workbench(lesson: Path) -> None:
    for cell in nbformat.read(lesson, as_version=4).cells:
        if cell.cell_type == "code":
            calls = (node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call))
            launches = [call for call in calls if ast.unparse(call.func) == "wb.launch"]
            assert not [word for call in launches for word in call.keywords if word.arg == "name"], cell.source


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_the_figures_of_a_lesson_are_there(lesson: Path) -> None:
    text = lesson.read_text()
    for figure in re.findall(r"\]\((figures/[^)\s]+)\)", text):
        assert (lesson.parent / figure).is_file(), figure


def test_every_lesson_is_executed_by_a_test_and_travels_in_the_wheel() -> None:
    tests = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    packaged = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    for lesson in LESSONS:
        assert f'execute("{lesson.stem}"' in tests
        assert packaged["force-include"][f"notebooks/{lesson.name}"] == f"workbench/notebooks/{lesson.name}"

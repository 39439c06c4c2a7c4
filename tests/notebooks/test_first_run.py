"""Lesson 1: the first run."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.notebooks.lessons import CHECKOUT, cell_with, execute
from workbench.rundir import RunDirectory

LESSON = "01-first-run"
LONGEST_WAITS_S = 180  # of the four minutes that the lesson takes at most, whatever the machine


@pytest.mark.full
def test_the_first_lesson_runs_and_keeps_a_picture_of_its_run(module_home: Path, tmp_path: Path) -> None:
    home = module_home
    cells, said = execute("01-first-run", home, tmp_path, envs_per_actor=4, seconds=3, pong_seconds=1, episodes=1,
                          pong_games=1)
    assert "frames/s" in said and "steps/s" in said and "episodes" in said
    assert f"executed notebook: {tmp_path}" in said
    assert str(home / "runs" / "cartpole-vtrace-1") in said
    assert "learning rate: 0.001 before, 0.0005 after" in said
    assert re.search(r"\(no interval: fewer than 5 episodes\), 1 episode\b", said)
    expert = re.findall(r"Evaluation\(ALE/Pong-v5 at [\d,]+ frames: mean return (-?[\d.]+)", said)[-1]
    assert float(expert) >= 15, "it has visibly learnt something"
    assert "first_run.reached: the lesson goes on with the solution" in said
    assert "data:image/png" in str(cell_with(cells, "wb.play(expert)").outputs), "a game to play in the first minutes"
    bundle = dict(cell_with(cells, "cartpole.dashboard()").outputs[0].data)
    assert "application/vnd.jupyter.widget-view+json" not in bundle
    page = bundle["text/html"]
    assert "image/png" in bundle and "stopped" in page and "learning_rate" in page
    assert "on average" in page and not re.search(r"\b0 frames/s", page + said)
    assert 'alt="Charts of cartpole-vtrace-1' in as_html(cells)
    for name in ("cartpole-vtrace-1", "pong-vtrace-1"):
        assert RunDirectory(home / "runs" / name).read()["state"] == "stopped"


def test_the_first_lesson_waits_for_seconds_and_for_fewer_than_three_minutes_in_all() -> None:
    cells = nbformat.read(CHECKOUT / "notebooks" / f"{LESSON}.ipynb", as_version=4).cells
    trees = [ast.parse(cell.source) for cell in cells if cell.cell_type == "code"]
    parameters = next(ast.parse(cell.source) for cell in cells if "parameters" in cell.metadata.get("tags", []))
    values = {one.targets[0].id: one.value.value for one in parameters.body}  # type: ignore[attr-defined]
    waits = [call for tree in trees for call in ast.walk(tree) if isinstance(call, ast.Call)
             and isinstance(call.func, ast.Attribute) and call.func.attr == "wait"]
    bounds = [next(one.value.id for one in call.keywords if one.arg == "seconds") for call in waits]  # type: ignore
    assert len(bounds) >= 3 and sum(values[name] for name in bounds) < LONGEST_WAITS_S


def test_no_variable_of_the_first_lesson_is_a_magic_of_ipython() -> None:
    """A cell `run` alone is %run where the variable is not there, as after a restart of the kernel."""
    for cell in nbformat.read(CHECKOUT / "notebooks" / f"{LESSON}.ipynb", as_version=4).cells:
        if cell.cell_type == "code":
            stored = {one.id for one in ast.walk(ast.parse(cell.source)) if isinstance(one, ast.Name)}
            assert not stored & {"run", "time", "reset", "who"}, cell.source


def as_html(cells: list[Any]) -> str:
    from nbconvert import HTMLExporter

    page, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=cells))
    return str(page)

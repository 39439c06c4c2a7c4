"""Every lesson runs from beginning to end in a kernel of its own, with small sizes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

CHECKOUT = Path(__file__).parent.parent
LESSONS = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
SMALL = {"01-first-run": {"actors": 1, "envs_per_actor": 4, "frames": 6_000, "episodes": 1}}


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_is_kept_without_outputs(lesson: Path) -> None:
    cells = nbformat.read(lesson, as_version=4).cells
    assert cells[0].cell_type == "markdown" and "Things to try" in cells[-1].source
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")


@pytest.mark.timeout(280)
def test_the_first_lesson_runs_and_keeps_a_picture_of_its_run(module_home: Path, tmp_path: Path) -> None:
    home = module_home
    cells, said = execute("01-first-run", home, tmp_path)
    assert "frames/s" in said and "steps/s" in said and "episodes" in said
    assert f"executed notebook: {tmp_path}" in said
    assert str(home / "runs" / "pong-vtrace-1") in said
    assert "learning rate: 0.0006 before, 0.0003 after" in said
    bundle = panel(cells)
    assert "application/vnd.jupyter.widget-view+json" not in bundle
    assert "image/png" in bundle and "stopped" in bundle["text/html"] and "learning_rate" in bundle["text/html"]
    page = as_html(cells)
    assert 'alt="Charts of pong-vtrace-1' in page
    assert record(home)["state"] == "stopped"


def execute(lesson: str, home: Path, output: Path) -> tuple[list[Any], str]:
    settings = [f"--set={name}={value}" for name, value in SMALL[lesson].items()]
    command = [sys.executable, "notebooks/run.py", f"notebooks/{lesson}.ipynb", "--output", str(output), *settings]
    environment = {**os.environ, "WORKBENCH_HOME": str(home), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=270)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    return nbformat.read(output / f"{lesson}.executed.ipynb", as_version=4).cells, done.stdout


def panel(cells: list[Any]) -> dict[str, Any]:
    cell = next(cell for cell in cells if "run.dashboard()" in cell.source)
    return dict(cell.outputs[0].data)


def as_html(cells: list[Any]) -> str:
    from nbconvert import HTMLExporter

    page, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=cells))
    return str(page)


def record(home: Path) -> dict[str, Any]:
    from workbench.rundir import RunDirectory

    return RunDirectory(home / "runs" / "pong-vtrace-1").read()

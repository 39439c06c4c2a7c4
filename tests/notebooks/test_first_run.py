"""Lesson 1: the first run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.notebooks.lessons import cell_with, execute
from workbench.rundir import RunDirectory


@pytest.mark.timeout(510)
def test_the_first_lesson_runs_and_keeps_a_picture_of_its_run(module_home: Path, tmp_path: Path) -> None:
    home = module_home
    cells, said = execute("01-first-run", home, tmp_path, actors=1, envs_per_actor=4, frames=6_000, episodes=1)
    assert "frames/s" in said and "steps/s" in said and "episodes" in said
    assert f"executed notebook: {tmp_path}" in said
    assert str(home / "runs" / "pong-vtrace-1") in said
    assert "learning rate: 0.0006 before, 0.0003 after" in said
    bundle = dict(cell_with(cells, "run.dashboard()").outputs[0].data)
    assert "application/vnd.jupyter.widget-view+json" not in bundle
    assert "image/png" in bundle and "stopped" in bundle["text/html"] and "learning_rate" in bundle["text/html"]
    assert 'alt="Charts of pong-vtrace-1' in as_html(cells)
    assert RunDirectory(home / "runs" / "pong-vtrace-1").read()["state"] == "stopped"


def as_html(cells: list[Any]) -> str:
    from nbconvert import HTMLExporter

    page, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=cells))
    return str(page)

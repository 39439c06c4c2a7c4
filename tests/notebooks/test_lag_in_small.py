"""Lesson 15: return against lag for four corrections."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

from tests.notebooks.lessons import CHECKOUT, cell_with, execute
from tests.notebooks.shown import shown_table, shows_a_picture
from workbench.lessons import speed_probe


def test_the_algorithm_of_the_lesson_passes_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = nbformat.read(CHECKOUT / "notebooks/15-lag-in-small.ipynb", as_version=4).cells
    lesson: Any = ModuleType("lesson")
    monkeypatch.setitem(sys.modules, "lesson", lesson)  # dataclasses look their module up
    for text in ("import torch", "wb.check_algorithm(OneStep)"):
        exec(cell_with(cells, text).source, vars(lesson))  # raises what the reader would see
    assert issubclass(lesson.OneStep, lesson.wb.Algorithm)


def test_the_slowest_machine_still_trains_until_the_agents_without_ratios_have_collapsed(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = nbformat.read(CHECKOUT / "notebooks/15-lag-in-small.ipynb", as_version=4).cells
    monkeypatch.setattr(speed_probe, "machine_share", lambda: 0.05)
    lesson: dict[str, Any] = {"fit": speed_probe.fit, "updates": 800}
    exec(cell_with(cells, "fit(updates").source, lesson)
    assert lesson["updates"] == 700, "at 600 their mean return in the second half is still 70; at 400 they are ahead"


@pytest.mark.full
def test_with_a_long_lag_ratios_keep_agents_from_collapsing(module_home: Path, tmp_path: Path) -> None:
    cells, said = execute("15-lag-in-small", module_home, tmp_path, lags=(0, 64), seeds=2, updates=800)
    assert "16 agents, 800 updates each" in said
    rows = shown_table(cell_with(cells, "late.groupby"))
    fresh, old = ({kind: int(row[f"lag {lag}"].split()[0]) for kind, row in rows.items()} for lag in (0, 64))
    assert min(fresh.values()) > 200, fresh
    assert min(old["V-trace"], old["1-step"]) > 2 * max(old["no correction"], old["ε-correction"]), old
    assert shows_a_picture(cell_with(cells, "mark_area"))
    own = cell_with(cells, "wb.check_algorithm(OneStep)")
    assert own.execution_count and not any(output.output_type == "error" for output in own.outputs)

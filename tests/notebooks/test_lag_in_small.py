"""Lesson 15: return against lag for four corrections."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute
from tests.notebooks.shown import shown_table, shows_a_picture

pytestmark = pytest.mark.full


def test_with_a_long_lag_ratios_keep_agents_from_collapsing(module_home: Path, tmp_path: Path) -> None:
    cells, said = execute("15-lag-in-small", module_home, tmp_path, lags=(0, 64), seeds=2, updates=800)
    assert "16 agents, 800 updates each" in said
    rows = shown_table(cell_with(cells, "late.groupby"))
    fresh, old = ({kind: int(row[f"lag {lag}"].split()[0]) for kind, row in rows.items()} for lag in (0, 64))
    assert min(fresh.values()) > 200, fresh
    assert min(old["V-trace"], old["1-step"]) > 2 * max(old["no correction"], old["ε-correction"]), old
    assert shows_a_picture(cell_with(cells, "mark_area"))

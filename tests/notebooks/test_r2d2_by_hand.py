"""Lesson 4: R2D2 by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute
from tests.notebooks.shown import shown_table, shows_a_picture

pytestmark = pytest.mark.full

# The status that counting begins with is up to 1.5 s old: the last of so many updates are of the new ratio alone.
SMALL = {"corridor": 8, "unroll_length": 5, "burn_in": 2, "solved": 0.8, "ratio_updates": 300}


def test_the_fourth_lesson_learns_a_maze_by_stored_states_and_not_without(module_home: Path, tmp_path: Path) -> None:
    cells, said = execute("04-r2d2-by-hand", module_home, tmp_path, **SMALL)
    reached = {name: float(row["mean return"]) for name, row in shown_table(cell_with(cells, "def until")).items()}
    assert reached["stored state, burn-in"] > 0.7 and reached["zeros, no burn-in"] < 0.4, reached
    assert "coin for 0 or 100: learnt value 4.57, as a return 29.7" in said
    shares = shown_table(cell_with(cells, "def shares")).values()
    assert [row["of the draws"] for row in shares] == ["0.101", "0.399", "0.399", "0.399"]
    assert [row["of the loss"] for row in shares] == ["0.101", "0.399", "0.192", "0.100"]
    for row in shown_table(cell_with(cells, "def at_ratio")).values():
        assert float(row["measured"]) == pytest.approx(float(row["asked"]), rel=0.1)
    check_discrepancies(list(shown_table(cell_with(cells, "found.pivot")).values()))
    assert all(shows_a_picture(cell_with(cells, text)) for text in ("def curve(", "alt.Chart(curves", "found, width"))


def check_discrepancies(rows: list[dict[str, str]]) -> None:
    """Of the burn-ins 0, a few steps, all but one, all: only the last makes zeros as good as the true state."""
    zeros = [float(row["zeros"]) for row in rows]
    (stale_name,) = rows[0].keys() - {"burn-in", "zeros"}
    assert "updates ago" in stale_name
    assert min(zeros[:3]) > 0.3 and zeros[3] == 0.0
    assert float(rows[1][stale_name]) < zeros[1]

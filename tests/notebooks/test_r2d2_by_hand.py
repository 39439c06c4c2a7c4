"""Lesson 4: R2D2 by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute
from tests.notebooks.shown import shown_table, shows_a_picture

pytestmark = pytest.mark.full

# The status that counting begins with is up to 1.5 s old: the last of so many updates are of the new ratio alone.
SMALL = {"corridor": 8, "unroll_length": 5, "burn_in": 2, "solved_at": 0.8, "seeds": 1, "ratio_updates": 300,
         "longest_s": 800}


def test_the_fourth_lesson_learns_a_maze_by_stored_states_and_not_without(module_home: Path, tmp_path: Path) -> None:
    cells, said = execute("04-r2d2-by-hand", module_home, tmp_path, **SMALL)
    reached = {name: float(row["mean return"]) for name, row in shown_table(cell_with(cells, "def until")).items()}
    assert reached["stored state, burn-in"] > 0.7 and reached["zeros, no burn-in"] < 0.4, reached
    assert "coin for 0 or 100:  learnt value +4.57, as a return +29.7" in said
    assert "coin for 0 or -100: learnt value -4.57, as a return -29.7" in said
    of_one, of_two = (float(re.search(rf"{words} network: +([+-][\d.]+)", said)[1]) for words in ("one", "other"))
    assert of_one > 1.5 and abs(of_two) < 0.02, "double Q takes the excess away"
    assert "0.4000  0.1600  0.0640  0.0256  0.0102  0.0041  0.0016  0.0007" in said
    uniform, uncorrected, partly, wholly = shown_table(cell_with(cells, "shares(alpha=alpha, beta=beta)")).values()
    assert float(uniform["of the draws"]) == pytest.approx(0.1, abs=0.01)
    assert float(uncorrected["of the loss"]) == float(partly["of the draws"]) == pytest.approx(0.4, abs=0.03)
    assert float(partly["of the loss"]) == pytest.approx(0.19, abs=0.03)
    assert float(wholly["of the loss"]) == pytest.approx(0.1, abs=0.01)
    for row in shown_table(cell_with(cells, "def at_ratio")).values():
        assert float(row["measured"]) == pytest.approx(float(row["asked"]), rel=0.1)
    check_discrepancies(list(shown_table(cell_with(cells, "found.pivot")).values()))
    assert all(shows_a_picture(cell_with(cells, text)) for text in ("alt.Chart(curves", "found, width"))


def check_discrepancies(rows: list[dict[str, str]]) -> None:
    """Of the burn-ins 0, a few steps, all but one, all: only the last makes zeros as good as the true state."""
    zeros = [float(row["zeros"]) for row in rows]
    (stale_name,) = rows[0].keys() - {"burn-in", "zeros"}
    assert "updates ago" in stale_name
    assert min(zeros[:3]) > 0.3 and zeros[3] == 0.0
    assert float(rows[1][stale_name]) < zeros[1]

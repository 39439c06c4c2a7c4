"""Lesson 0: actors and a learner in forty lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute
from tests.notebooks.shown import shown_table, shows_a_picture


@pytest.mark.full
def test_forty_lines_learn_and_an_unbounded_queue_makes_the_lag_grow(module_home: Path, tmp_path: Path) -> None:
    cells, said = execute("00-concepts", module_home, tmp_path)
    (late,) = re.findall(r"in the last 20 batches (\d+)% of the episodes", said)
    assert int(late) > 80, "two actors and a short queue learn"
    rows = shown_table(cell_with(cells, "def summary"))
    unbounded, bounded = (float(rows[name]["policy lag, last 20 updates"]) for name in ("unbounded", "queue of 16"))
    assert bounded < 6, "a queue of one batch, and what the actors hold"
    assert unbounded > 2 * bounded
    rewards, lost, kept = map(int, re.findall(r"rewards: (\d+); .*mistake: (\d+), without: (\d+)", said)[0])
    assert lost < kept == rewards, "the border takes rewards away"
    assert shows_a_picture(cell_with(cells, "drawn({\"unbounded\""))

"""Lesson 10: an algorithm typed in a cell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute
from tests.notebooks.shown import shows_a_picture

pytestmark = pytest.mark.full


def test_importance_weights_keep_a_run_alive_that_trains_on_each_batch_many_times(
    module_home: Path, tmp_path: Path
) -> None:
    cells, said = execute("10-your-own-algorithm", module_home, tmp_path, frames=40_000, seeds=(0,), longest_s=200)
    assert "AlgorithmFailed: Loss.total has no gradient" in said
    assert "value_cost is 0.25" in said
    (plain,) = re.findall(r"^REINFORCE: return (\d+) \(one seed\) in the last tenth", said, re.MULTILINE)
    assert int(plain) > 35, "chance: 22"
    returns = {kind: int(found) for kind, found in re.findall(r"^(with\w*) weights: return (\d+) ", said, re.MULTILINE)}
    assert returns["with"] >= returns["without"] < 20, returns  # one seed with weights may collapse as well
    assert all(shows_a_picture(cell_with(cells, text)) for text in ("wb.compare(kinds", "wb.compare(repeated"))
    assert "['algorithm.pkl']" in said

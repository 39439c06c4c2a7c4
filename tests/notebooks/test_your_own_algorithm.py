"""Lesson 11: an algorithm typed in a cell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute

pytestmark = pytest.mark.full


def test_importance_weights_keep_a_run_alive_that_trains_on_each_batch_many_times(
    module_home: Path, tmp_path: Path
) -> None:
    cells, said = execute("10-your-own-algorithm", module_home, tmp_path, frames=60_000, seeds=(0,))
    assert "AlgorithmFailed: Loss.total has no gradient" in said
    assert "value_cost is 0.25" in said
    (plain,) = re.findall(r"reinforce: return (\d+) ", said)
    assert int(plain) > 50, "chance: 22"
    table = cell_with(cells, "policy lag, updates").outputs[0]["data"]["text/plain"]
    returns = {name: int(found) for name, found in re.findall(r"(Baseline|Weighted) +0 +(\d+)", table)}
    assert returns["Weighted"] > 3 * returns["Baseline"], returns
    assert "['algorithm.pkl']" in said
    assert len(re.findall(r": finished", said)) == 4

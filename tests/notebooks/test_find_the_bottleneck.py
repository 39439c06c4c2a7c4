"""Lesson 13: five slow runs are looked at, and mended."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute
from tests.notebooks.shown import shows_a_picture
from workbench import rundir
from workbench.rundir import ENDED

pytestmark = pytest.mark.full


def test_five_slow_runs_show_their_shares_before_and_after(module_home: Path, tmp_path: Path) -> None:
    cells, said = execute("13-find-the-bottleneck", module_home, tmp_path, look_s=4)
    for number in range(1, 6):
        assert shows_a_picture(cell_with(cells, f'look(run, "run {number}")'))
    shares = [{part: int(share) for part, share in re.findall(r"([a-z: ]+) (\d+)%", line)}
              for line in said.splitlines() if line.startswith("environments work")]
    assert len(shares) == 11, "five runs, and six remedies"
    assert shares[0]["environments work"] >= 70 and len(re.findall(r"times as fast", said)) == 5
    assert "environments in a batch: 1.0" in said
    assert all(run.read()["state"] in ENDED for run in rundir.every())

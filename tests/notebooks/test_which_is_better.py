"""Lesson 12: recorded runs show how far luck reaches, and one's own are judged with an interval."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

import workbench as wb
from tests.notebooks.lessons import cell_with, execute
from tests.notebooks.shown import shown_table, shows_a_picture
from workbench import rundir
from workbench.errors import UnknownName
from workbench.lessons import recorded
from workbench.lessons.exercises.comparing import hundred_returns, share_within_tenth, two_episodes
from workbench.rundir import ENDED


@pytest.mark.full
def test_the_lesson_tells_luck_from_skill(module_home: Path, tmp_path: Path) -> None:
    cells, said = execute("12-which-is-better", module_home, tmp_path, frames=4_000, episodes=5, longest_s=240)
    assert re.search(r"mean 0\.72, IQM 0\.80", said)
    mine = [tuple(map(float, found)) for found in re.findall(r"^[AB]: IQM ([\d.]+) \[([\d.]+), ([\d.]+)\]", said, re.M)]
    assert len(mine) == 4 and all(low <= value <= high for value, low, high in mine)
    seeds = shown_table(cell_with(cells, "def first_seeds"))
    assert "no interval" in seeds["1 seed"]["A: IQM"] and "no interval" not in seeds["10 seeds"]["A: IQM"]
    above = shown_table(cell_with(cells, "def b_above"))
    share = [int(row["B ends above A"].rstrip("%")) for row in above.values()]
    assert share == sorted(share) and 45 < share[0] < 56, "the more seeds, the clearer; one is a coin toss"
    for source in ("ten seeds\")", "touch(three", "found.profile()"):
        cell = cell_with(cells, source)
        assert shows_a_picture(cell) or "widget" in str(cell.outputs), source
    assert all(run.read()["state"] in ENDED for run in rundir.every())
    assert len(rundir.every()) == 6


def test_the_records_are_what_the_lesson_says() -> None:
    played, curves = recorded("seeds-episodes"), recorded("seeds-curves")
    counts = played.groupby(["game", "arm"]).seed.nunique()
    assert len(counts) == 4 and set(counts) == {10}
    assert len(hundred_returns()) == 100
    assert abs(share_within_tenth() - two_episodes.solution) < 0.02
    assert curves.groupby(["game", "arm", "seed"]).frames.is_monotonic_increasing.all()
    with pytest.raises(UnknownName, match="seeds-curves"):
        recorded("seeds-curve")


def test_an_evaluation_of_a_record_aggregates() -> None:
    rows = recorded("seeds-episodes").query("game == 'CartPole-v1' and arm == 'B'")
    found = wb.aggregate(wb.Evaluation("CartPole-v1", Path(str(seed)), 0, int(seed), False, tuple(part["return"]), ())
                         for seed, part in rows.groupby("seed"))
    assert found.runs == 10 and found.iqm.low < found.iqm.value < found.iqm.high
    assert isinstance(found.profile(), pd.DataFrame)

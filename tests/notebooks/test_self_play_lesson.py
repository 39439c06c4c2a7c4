"""Lesson 14: self-play finds skill in a race, and runs in a circle in rock, paper, scissors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute
from tests.notebooks.shown import shown_table, shows_a_picture
from workbench import rundir
from workbench.rundir import ENDED

pytestmark = pytest.mark.full


def test_the_race_is_a_ladder_and_rock_paper_scissors_a_circle(module_home: Path, tmp_path: Path) -> None:
    cells, said = execute("14-self-play", module_home, tmp_path, milestones=(500, 60_000), games=16, longest_s=240)
    race = shown_table(cell_with(cells, "matches.win_rates(kept"))
    beginner, *_, champion = race
    assert float(race[champion][beginner]) > 0.7, "whoever learns wins against a beginner"
    circle = shown_table(cell_with(cells, '"beats the one before"'))
    assert all(float(circle[f"gen {number}"]["beats the one before"]) > 0.8 for number in (1, 2, 3))
    highest, lowest = (pick(float(row["Elo"]) for row in circle.values()) for pick in (max, min))
    assert highest - lowest < 600, "so much less than 1,596, which would explain those wins"
    average = said.partition("the average after 200 generations:")[2]
    assert all(f"'{action}': 0.3" in average for action in ("rock", "paper", "scissors"))
    for source in ("heat(rates, names)", "heat(circle, titles)"):
        assert shows_a_picture(cell_with(cells, source)), source
    assert all(run.read()["state"] in ENDED for run in rundir.every())
    assert len(rundir.every()) == 5

"""Lesson 3: V-trace by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute
from tests.notebooks.shown import shown_table, shows_a_picture

pytestmark = pytest.mark.full


def test_the_third_lesson_shows_policy_lag_and_what_correcting_for_it_does(module_home: Path, tmp_path: Path) -> None:
    cells, _ = execute("03-vtrace-by-hand", module_home, tmp_path, lag_updates=200, frames=150_000, seeds=(0,))
    lags = shown_table(cell_with(cells, "lags.round(1)"))
    measured = {row["environments"]: float(row["measured"]) for row in lags.values()}
    assert measured["8"] < 10 and measured["512"] > 25
    check_learnt_values(shown_table(cell_with(cells, "for settings in CASES")))
    runs = {row["run"]: row for row in shown_table(cell_with(cells, "rows.round(2)")).values()}
    corrected, plain = runs["V-trace"], runs["no correction"]
    entropies = [float(run["lowest entropy"]) for run in (corrected, plain)]
    assert entropies[0] > 0.05 and entropies[1] < entropies[0] / 2, runs  # the other may explore again later
    assert float(corrected["return"]) > 30, runs  # chance: 22; the other may catch up late
    assert all(float(run["policy lag (updates)"]) > 25 for run in runs.values())
    assert all(shows_a_picture(cell_with(cells, text)) for text in ("diagonal + points", "wb.compare(kinds"))


def check_learnt_values(table: dict[str, dict[str, str]]) -> None:
    """Each setting learns the values of the policy that the lesson says, and of no other."""
    wanted = {"ρ̄ = c̄ = 1, λ = 1": "π_ρ̄", "c̄ = 0.1": "π_ρ̄", "λ = 0": "π_ρ̄", "no correction": "μ"}
    for setting, policy in wanted.items():
        errors = {name: float(table[setting][f"error against {name}"]) for name in ("π", "π_ρ̄", "μ")}
        assert errors.pop(policy) < 0.02 and min(errors.values()) > 0.08, (setting, errors)
    assert float(table["ρ̄ = c̄ = 10 (nothing is clipped)"]["error against π"]) < 0.02
    slower = [float(table[setting]["updates to 90%"]) for setting in ("ρ̄ = c̄ = 1, λ = 1", "c̄ = 0.1", "λ = 0")]
    assert slower == sorted(slower)

"""Lesson 5: a run is rescued while it runs, forked, and searched for by a sweep."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute
from workbench import rundir
from workbench.rundir import ENDED

pytestmark = pytest.mark.full


def test_the_lesson_rescues_a_run_and_compares_forks_and_a_sweep(sweeping_home: Path, tmp_path: Path) -> None:
    cells, said = execute("05-tuning-live", sweeping_home, tmp_path,
                          look=6_000, rescue=40_000, trials=4, trial_frames=5_000)
    stuck, guessed = (float(re.search(rf"{what}: return ([\d.]+)", said)[1])
                      for what in ("as launched", "less entropy cost"))
    before, after = map(float, re.search(r"return ([\d.]+) before and ([\d.]+) after", said).groups())
    assert "learning rate: 1e-07 before, 0.001 after" in said
    assert 15 < stuck < 30 and abs(guessed - stuck) < 6, "nothing is learnt before the rescue"
    assert before == stuck and after > 2 * before, said
    history = cell_with(cells, "run.undo()").outputs[-1].data["text/plain"]
    assert history.count("entropy_cost") == 2, "the guess and its undo"
    compared = cell_with(cells, "compared = wb.compare").outputs[-1].data["text/html"]
    assert "data:image/png" in compared and "1e-07 → 0.001 (at " in compared, "the rescue is in the differences"
    forks = re.findall(r"learning rate ([\d.]+): return [\d.]+ at the end", said)
    assert forks == ["0.0001", "0.1"]  # 0.1 mostly ruins it, but once in a while a pole is balanced by luck
    trials = cell_with(cells, "sweep.wait").outputs[-1].data["text/html"]
    assert all(f"cartpole-vtrace-sweep-1-{number}" in trials for number in range(4))
    assert "4 of 4 trials" in said and "learning_rate" in said
    assert len(re.findall(r"cartpole-vtrace-[234]: return [\d.]+ in the last fifth", said)) == 3
    assert "data:image/png" in cell_with(cells, "wb.compare(tried)").outputs[-1].data["text/html"]
    assert all(run.read()["state"] in ENDED for run in rundir.every())

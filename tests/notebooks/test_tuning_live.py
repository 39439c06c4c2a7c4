"""Lesson 5: a run is rescued while it runs, forked, and searched for by a sweep."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.lessons import cell_with, execute
from tests.notebooks.shown import shows_a_picture
from workbench import rundir
from workbench.rundir import ENDED

pytestmark = pytest.mark.full


def test_the_lesson_rescues_a_run_and_compares_forks_a_sweep_and_patients(home: Path, tmp_path: Path) -> None:
    cells, said = execute("05-tuning-live", home, tmp_path,
                          look=6_000, rescue=30_000, trials=4, trial_frames=5_000, longest_s=300)
    stuck, guessed = (float(re.search(rf"{what}: return ([\d.]+)", said)[1])
                      for what in ("as launched", "no entropy bonus"))
    before, after = map(float, re.search(r"return ([\d.]+) before and ([\d.]+) after", said).groups())
    assert "learning_rate: 2e-06 before, 0.002 after" in said
    assert 15 < stuck < 30 and abs(guessed - stuck) < 6, "nothing is learnt before the rescue"
    assert before == stuck and after > 1.4 * before, said
    history = cell_with(cells, "run.undo()").outputs[-1].data["text/plain"]
    assert history.count("entropy_cost") == 2, "the guess and its undo"
    compared = cell_with(cells, "compared = wb.compare").outputs[-1].data["text/html"]
    assert "data:image/png" in compared and "2e-06 → 0.002 (at " in compared, "the rescue is in the differences"
    forks = re.findall(r"learning rate ([\d.]+): return [\d.]+ at the end", said)
    assert forks == ["0.0001", "0.1"]  # 0.1 mostly ruins it, but once in a while a pole is balanced by luck
    trials = cell_with(cells, "sweep.wait").outputs[-1].data["text/html"]
    assert all(f"cartpole-vtrace-sweep-1-{number}" in trials for number in range(4))
    assert "4 of 4 trials" in said and "learning_rate" in said
    check_seeds(said)
    check_patients(cells, said)
    assert all(run.read()["state"] in ENDED for run in rundir.every())


def check_seeds(said: str) -> None:
    """Both arms have a mean between their lowest and their highest seed."""
    arms = re.findall(r"(sweep's choice|defaults): return ([\d.]+) in .*, seeds from ([\d.]+) to ([\d.]+)", said)
    assert [arm for arm, *_ in arms] == ["sweep's choice", "defaults"]
    assert all(float(low) <= float(mean) <= float(high) for _, mean, low, high in arms)


def check_patients(cells: list[Any], said: str) -> None:
    """Each is examined in pictures and does better once it is mended."""
    for number in range(2, 7):
        assert shows_a_picture(cell_with(cells, f"patient = examine({number})"))
    mended = re.findall(r"run (\d): return ([\d.]+) before, ([\d.]+) after, ([\d.]+) at the end", said)
    assert [number for number, *_ in mended] == list("23456")
    assert all(float(before) < 35 and float(end) > 1.3 * float(before) for _, before, _, end in mended), mended

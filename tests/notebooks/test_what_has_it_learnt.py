"""Lesson 6: what a policy knows, and a value function that is wrong where rewards were clipped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute
from workbench import rundir
from workbench.rundir import ENDED

pytestmark = pytest.mark.full


def test_the_lesson_finds_where_the_value_is_wrong_and_mends_it(module_home: Path, tmp_path: Path) -> None:
    cells, said = execute("06-what-has-it-learnt", module_home, tmp_path,
                          beginner_frames=1_000, expert_frames=120_000, mending_frames=80_000, episodes=2)
    returns = {name: float(found) for name, found in re.findall(r"(\w+) on seed 7: return (-?\d+)", said)}
    assert returns["expert"] > returns["beginner"] + 30, said
    assert said.count("the lesson goes on with the solution") == 2, said
    found = re.findall(r"(\w+), (\w+): error [+-][\d.]+ \(predicted (-?[\d.]+), reached (-?[\d.]+) "
                       r"\[(-?[\d.]+), (-?[\d.]+)\]\)", said)
    predicted = {(who, ball): float(value) for who, ball, value, *_ in found}
    low = {(who, ball): float(end) for who, ball, _, _, end, _ in found}
    assert abs(predicted["expert", "gold"] - predicted["expert", "plain"]) < 0.4, "clipped, both are worth the same"
    assert predicted["expert", "gold"] < low["expert", "gold"], "and gold more than that, beyond its interval"
    assert predicted["mended", "gold"] > predicted["expert", "gold"] + 0.4
    noise = re.search(r"V is \S+ ± ([\d.]+), G is \S+ ± ([\d.]+)", said)
    assert noise and float(noise[2]) > 2 * float(noise[1]), "a single G scatters far more than V"
    assert "values are of rewards clipped to ±1" in said
    assert len(re.findall(r"\d+% of the saliency near ball and paddle", said)) == 2
    for source in ('strips("beginner"', "\nfilmstrip()", "\ncharts(names)", "cells = off.groupby",
                   "looked = pd.concat([looked"):
        assert "image/png" in cell_with(cells, source).outputs[-1].data, source
    assert all(run.read()["state"] in ENDED for run in rundir.every())

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
    found = re.findall(r"(\w+), (\w+): error [+-][\d.]+ \(promised (-?[\d.]+), reached (-?[\d.]+)\)", said)
    promised = {(who, ball): float(value) for who, ball, value, _ in found}
    reached = {(who, ball): float(value) for who, ball, _, value in found}
    assert abs(promised["expert", "gold"] - promised["expert", "plain"]) < 0.4, "clipped, both are worth the same"
    assert promised["expert", "gold"] < reached["expert", "gold"] - 0.4, "and gold more than that"
    assert promised["mended", "gold"] > promised["expert", "gold"] + 0.4
    assert "values are of rewards clipped to ±1" in said
    assert len(re.findall(r"\d+% of the saliency near ball and paddle", said)) == 2
    for source in ("strips(\"beginner\"", "Image.fromarray(np.concatenate([np.concatenate", "who in names",
                   "cells = off.groupby", "looked = pd.concat([looked"):
        assert "image/png" in cell_with(cells, source).outputs[-1].data, source
    assert all(run.read()["state"] in ENDED for run in rundir.every())

"""Lesson 8: football, for a moment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute

pytestmark = pytest.mark.full

pytest.importorskip("envpool")


def test_the_football_lesson_plays_and_hands_what_was_learnt_on(module_home: Path, tmp_path: Path) -> None:
    cells, said = execute("08-football", module_home, tmp_path, frames=2_000, envs_per_actor=8, episodes=2, games=1)
    assert re.search(r"untrained: [\d.]+ goals a game, in \d+ steps", said)
    for how in ("untrained", "drawn", "greedy"):
        assert re.search(rf"{how} +[\d.]+ goals a game \(no interval: fewer than 5 episodes\), \d+ steps", said)
    assert "image/png" in cell_with(cells, "goals a game\"), (").outputs[0].data
    assert "share of steps" in cell_with(cells, "value_counts").outputs[-1].data["text/plain"]
    assert re.search(r"run-to-score.*: stopped", said) and re.search(r"close-vtrace-1: stopped", said)

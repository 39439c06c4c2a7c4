"""Lesson 8: football, from a policy that has learnt it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute
from tests.notebooks.shown import shows_a_picture

pytestmark = pytest.mark.full

pytest.importorskip("envpool")


def test_the_football_lesson_compares_a_beginner_with_the_expert_and_hands_it_on(
    module_home: Path, tmp_path: Path
) -> None:
    cells, said = execute("08-football", module_home, tmp_path, frames=2_000, envs_per_actor=8, episodes=12, games=3)
    played = re.findall(r"^(\w+, (?:drawn|likeliest)) +([\d.]+) goals a game", said, re.MULTILINE)
    goals = {name: float(value) for name, value in played}
    assert goals["expert, likeliest"] > 0.6 and goals["expert, likeliest"] > goals["beginner, drawn"] + 0.2, goals
    used = cell_with(cells, "value_counts").outputs[-1]["data"]["text/plain"].splitlines()
    assert used[2].startswith("shot"), used
    assert shows_a_picture(cell_with(cells, "pitch + goal + lines"))
    assert re.search(r"^before +[\d.]+ goals a game", said, re.MULTILINE)
    assert re.search(r"empty-goal-vtrace.*: stopped", said) and re.search(r"close-vtrace-1: stopped", said)

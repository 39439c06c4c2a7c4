"""Lesson 7: an environment and a network typed in cells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute

pytestmark = pytest.mark.full


def test_what_is_typed_in_cells_learns_and_mistakes_are_named(module_home: Path, tmp_path: Path) -> None:
    cells, said = execute("07-your-own", module_home, tmp_path, frames=40_000, episodes=10, move_cost=0.5)
    assert re.search(r"EnvironmentFailed: .*'Floats'.*float64", said), "the broken environment"
    assert re.search(r"NetworkFailed: .*policy_logits", said), "the network of the wrong shape"
    returns = {name: float(value) for name, value in re.findall(r"(\w+) network: (-?[\d.]+) a game", said)}
    assert returns.keys() == {"default", "my"} and max(returns.values()) > 4, "chance: about 1.3"
    moves = {name: int(share) for name, share in re.findall(r"(mine|lazy): moves in (\d+)% of its steps", said)}
    assert moves["lazy"] < moves["mine"]
    assert "['environment.pkl', 'network.pkl']" in said
    assert len(re.findall(r"^orchard-vtrace-\d+: finished", said, re.MULTILINE)) == 3
    rollout = cell_with(cells, "wb.rollout(run, seed=0)").outputs
    assert any("text/html" in one.get("data", {}) for one in rollout)

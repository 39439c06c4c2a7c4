"""Lesson 7: an environment and a network typed in cells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebooks.lessons import cell_with, execute
from tests.notebooks.shown import shows_a_picture

pytestmark = pytest.mark.full


def test_what_is_typed_in_cells_learns_and_mistakes_are_named(module_home: Path, tmp_path: Path) -> None:
    cells, said = execute("07-your-own", module_home, tmp_path, frames=40_000, seeds=(1,), episodes=10, move_cost=0.5,
                          longest_s=250)
    assert re.search(r"EnvironmentFailed: .*'Floats'.*float64", said), "the broken environment"
    assert "check_environment says" in said, "the broken skier"
    assert re.search(r"NetworkFailed: .*policy_logits", said), "the network of the wrong shape"
    returns = {name: float(value) for name, value in re.findall(r"(\w+) network: (-?[\d.]+) \(one seed\) a game", said)}
    assert returns.keys() == {"default", "my"} and max(returns.values()) > 4, "chance: about 1.3"
    shares = re.findall(r"^(mine|lazy): moves, in % of its steps: (\d+) \(one seed", said, re.MULTILINE)
    moves = {name: int(share) for name, share in shares}
    assert moves["lazy"] < moves["mine"]
    assert "['environment.pkl', 'network.pkl']" in said
    assert shows_a_picture(cell_with(cells, "wb.compare({"))
    rollout = cell_with(cells, "wb.rollout(run, seed=0)").outputs
    assert any("text/html" in one.get("data", {}) for one in rollout)

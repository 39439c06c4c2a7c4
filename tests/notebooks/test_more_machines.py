"""Lesson 9: more machines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.launchers.clusters import ray_cluster
from tests.notebooks.lessons import cell_with, execute
from workbench.rundir import RunDirectory

pytestmark = pytest.mark.full


def test_the_calculator_meets_seeds_row_and_runs_of_several_learners_and_on_ray_learn(
    module_home: Path, tmp_path: Path
) -> None:
    with ray_cluster(4) as cluster:
        address = cluster.address
        cells, said = execute("09-more-machines", module_home, tmp_path, frames=5_000, measure_s=0.5, address=address)
    assert "1,000,000 frames/s (250,000 steps/s)" in said
    assert "yours: learners' services at 112,440 frames/s; the plan: learners' services at 112,440" in said
    assert re.search(r"yours: \$([\d.]+); the plan: \$\1 per billion frames", said)
    assert "-1.3%" in said and "+10.0%" in said, "SEED's 2.4 M frames/s from its rows of 2 and of 8 TPU cores"
    assert any("image/png" in one.get("data", {}) for one in cell_with(cells, "speed | cost").outputs)

    assert re.search(r"a core of this machine: [\d,]+ steps/s, [\d,]+ frames/s", said)
    assert re.search(r"infers and trains [\d,]+ steps/s", said)
    both = re.search(r"learners before: \((\d+), (\d+)\), after: \((\d+), (\d+)\)", said)
    assert both is not None and len(set(both.groups())) == 4, "one was killed, and both are new"
    assert "restore" in cell_with(cells, "learners before").outputs[-1]["data"]["text/plain"]
    assert f"Ray cluster: {address}" in said
    assert re.search(r"^1 on Ray: [\d,]+ frames/s, training$", said, re.M)
    assert re.search(r"^2 on Ray: [\d,]+ frames/s, training$", said, re.M)
    runs = [RunDirectory(path) for path in (module_home / "runs").iterdir()]
    assert {run.read()["state"] for run in runs} == {"stopped"}
    assert {run.config().learners for run in runs} == {1, 2}

"""A run on a Ray cluster that has no node with room until its autoscaler adds them."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import CALM, eventually
from tests.launchers.clusters import autoscaling_cluster, raylets

pytestmark = pytest.mark.full

START_S = 600.0  # for nodes that start one after the other


def test_a_run_gets_its_places_from_an_autoscaler_that_starts_from_zero(home: Path, tmp_path: Path) -> None:
    with autoscaling_cluster(tmp_path, cpus=1, most=3) as (address, cluster):
        assert raylets(cluster) == 1, "the head, which has no room"
        run = wb.launch("testing/counting-v0", name="grown", launcher="ray", address=address, learner_gpus=0.0,
                        learner_cpus=1.0, actor_cpus=1.0, total_frames=10**9, ready_timeout_s=START_S, **CALM)
        try:
            eventually(lambda: all(one.pid and one.steps_per_second > 0 for one in run.status.actors))
            assert raylets(cluster) == 4, "one for the learner, one for each actor"
            run.scale(actors=1)
            eventually(lambda: raylets(cluster) == 3, what="the idle node is taken away")
            run.scale(actors=2)
            eventually(lambda: len(run.status.actors) == 2 and all(
                one.pid and one.steps_per_second > 0 for one in run.status.actors))
        finally:
            run.stop(timeout_s=60)
        eventually(lambda: raylets(cluster) == 1, what="all nodes are taken away once the run has ended")

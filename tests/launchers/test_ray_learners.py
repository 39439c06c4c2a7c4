"""Several learners on a Ray cluster, one of whose nodes is killed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
from tests.launchers.clusters import add_node, drain, node_of, ray_cluster

pytestmark = pytest.mark.full

START_S = 240.0


def test_learners_on_two_nodes_come_back_when_one_of_them_is_lost(home: Path) -> None:
    fields = {**SMALL, "launcher": "ray", "learners": 2, "learner_cpus": 1.0, "learner_gpus": 1.0, "actor_cpus": 0.5,
              "device": "cpu", "total_frames": 10**9, "ready_timeout_s": START_S}
    with ray_cluster(2, num_gpus=1) as cluster:  # what only says that each of two nodes has room for one learner
        lost = add_node(cluster, 1, num_gpus=1)
        run = wb.launch("CartPole-v1", name="pair", address=cluster.address, **fields)
        try:
            run.wait(updates=3, timeout_s=START_S)
            before = eventually(lambda: None not in (now := run.status).learner_pids and now)
            assert list(map(partial(node_of, cluster), before.learner_pids)) == [cluster.head_node, lost]
            drain(cluster, lost, seconds=3600)
            notice = "with learner-1, and takes it away in "
            eventually(lambda: any(notice in message and "a checkpoint is written" in message
                                   for message in run.events["message"]))
            kept = run.checkpoints[-1]
            cluster.remove_node(lost, allow_graceful=False)
            waits = "waiting for a start on a node of the cluster with 1 CPU, 1 GPU to spare"
            eventually(lambda: waits in run.status.reason)
            add_node(cluster, 1, num_gpus=1)
            eventually(lambda: (now := run.status).state == "training" and now.updates > kept.updates
                       and now.frames_per_second > 0 and None not in now.learner_pids)
            assert not {*before.learner_pids} & {*run.status.learner_pids}
            said = run.events["message"].tolist()
            assert any(one.startswith("learner-1 ended with the loss of its node") for one in said), said
            assert any(one.startswith("continues from the checkpoint at ") for one in said), said
        finally:
            run.stop(timeout_s=20)

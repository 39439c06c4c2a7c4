"""What a run hears of nodes that a Ray cluster drains, and of their versions. The cluster is ours; Ray's own drains are
in `launchers/test_ray.py` and `test_ray_learners.py`."""

from __future__ import annotations

import time

import pytest

from tests.conftest import eventually
from workbench.config import RunConfig
from workbench.supervisor.hosts.host import Resources
from workbench.supervisor.hosts.node_versions import Versions
from workbench.supervisor.hosts.ray import without_gpu
from workbench.supervisor.machines import ray_notices
from workbench.supervisor.machines.ray_notices import Drain, RayNotices, Seat, watch

NOTEBOOK = Versions("3.11.9", "0.1.0")


class OurCluster:
    def __init__(self) -> None:
        self.notebook = NOTEBOOK
        self.places = {"supervisor": "n0", "learner": "n0", "actor-0": "n1", "actor-1": "n1"}
        self.drained: dict[str, int] = {}
        self.broken = self.knows_no_gpus = False
        self.python = {"n0": "3.11.9", "n1": "3.11.9"}

    def seats(self) -> dict[str, Seat]:
        return {name: Seat(node, f"host of {node}", Versions(self.python[node], "0.1.0"))
                for name, node in self.places.items()}

    def draining(self) -> dict[str, int]:
        if self.broken:
            raise RuntimeError("no answer")
        return self.drained

    def without_gpu(self) -> str | None:
        if self.knows_no_gpus:
            raise RuntimeError("the head starts again")
        return "no GPU"


class Heard:
    def __init__(self) -> None:
        self.drains: list[Drain] = []
        self.events: list[tuple[str, str]] = []

    def by(self, cluster: OurCluster) -> RayNotices:
        return RayNotices(cluster, self.drains.append, lambda *event: self.events.append(event))


def test_each_process_on_a_drained_node_is_told_of_once() -> None:
    cluster, heard = OurCluster(), Heard()
    notices = heard.by(cluster)
    notices.turn()
    assert heard.drains == []
    cluster.drained = {"n1": 0, "elsewhere": 0}
    notices.turn()
    notices.turn()
    assert heard.drains == [Drain("host of n1", ("actor-0", "actor-1"), 30.0)]
    cluster.places["actor-2"] = "n1"  # it was on its way when the node was drained
    notices.turn()
    assert [drain.names for drain in heard.drains[1:]] == [("actor-2",)]


def test_a_drains_deadline_is_what_is_left_of_it() -> None:
    cluster, heard = OurCluster(), Heard()
    cluster.drained = {"n0": int((time.time() + 600) * 1000)}
    heard.by(cluster).turn()
    assert heard.drains[0].names == ("supervisor", "learner")
    assert 300 < heard.drains[0].seconds <= 600
    cluster.drained, late = {"n1": 1000}, Heard()
    late.by(cluster).turn()
    assert late.drains[0].seconds == 0.0, "a deadline that has passed"


def test_a_ray_that_does_not_answer_is_said_once_and_asked_on() -> None:
    cluster, heard = OurCluster(), Heard()
    notices = heard.by(cluster)
    cluster.broken, cluster.drained = True, {"n1": 0}
    for _ in range(12):
        notices.turn()
    assert [kind for kind, _ in heard.events] == ["error"]
    assert "RuntimeError: no answer" in heard.events[0][1]
    cluster.broken = False
    notices.turn()
    assert len(heard.drains) == 1


def test_another_python_on_a_node_is_said_once() -> None:
    cluster, heard = OurCluster(), Heard()
    cluster.python["n1"] = "3.12.1"
    notices = heard.by(cluster)
    notices.turn()
    notices.turn()
    [(kind, words)] = heard.events
    assert kind == "node" and "host of n1 has Python 3.12.1, the notebook has 3.11.9" in words


def test_learners_that_would_have_taken_a_gpu_are_said_to_have_none() -> None:
    cpu, gpu = Resources(1.0, 0.0, 0.0), Resources(1.0, 1.0, 0.0)
    auto = RunConfig.build("CartPole-v1", launcher="ray", device="auto")
    words = without_gpu(auto, cpu, coming=0.0)
    assert words is not None and "learner_gpus=1 asks for one" in words and "autoscaler" not in words
    assert "its autoscaler can start 4;" in str(without_gpu(auto, cpu, coming=4.0))
    assert without_gpu(auto, gpu, coming=4.0) is None
    for chosen in ({"device": "cpu"}, {"device": "auto", "learner_gpus": 0.0}):
        assert without_gpu(RunConfig.build("CartPole-v1", launcher="ray", **chosen), cpu, coming=4.0) is None


def test_the_cluster_is_asked_until_the_watch_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_notices, "_EVERY_S", 0.001)
    cluster, heard = OurCluster(), Heard()
    ended = watch(cluster, on_drain=heard.drains.append, say=lambda *event: heard.events.append(event))
    try:
        cluster.drained = {"n0": 0}
        eventually(lambda: heard.drains)
        assert heard.events == [("node", "no GPU")]
    finally:
        ended.set()


def test_a_ray_that_does_not_answer_at_first_is_asked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_notices, "_EVERY_S", 0.001)
    cluster, heard = OurCluster(), Heard()
    cluster.knows_no_gpus, cluster.drained = True, {"n0": 0}
    ended = watch(cluster, on_drain=heard.drains.append, say=lambda *event: heard.events.append(event))
    try:
        eventually(lambda: heard.drains)
    finally:
        ended.set()

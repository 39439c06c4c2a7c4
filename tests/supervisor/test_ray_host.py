"""What a host on a node of a cluster makes of storage that is away, and of locks that are held; without a cluster."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import workbench
from workbench import rundir
from workbench.config import RunConfig
from workbench.errors import ConnectionLost
from workbench.launchers.ray import connecting
from workbench.rundir import RunDirectory, lock
from workbench.supervisor.hosts import node_versions, ray, ray_actor
from workbench.supervisor.hosts.host import Resources
from workbench.supervisor.hosts.life import BackOff
from workbench.supervisor.hosts.node_versions import NOTEBOOK, Versions, read
from workbench.supervisor.hosts.ray_actor import ProcessHost, Task, inherited
from workbench.wire.lifeline import FATAL, PASSING


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    monkeypatch.setattr(ray_actor, "host_address", lambda: "node-7")
    monkeypatch.setattr(ray_actor, "_cluster", lambda: "node-7:6379")
    monkeypatch.setattr(ray_actor, "_LOCK_S", 0.1)
    monkeypatch.setattr(ray_actor, "_STORAGE_S", 0.1)
    return rundir.create("run", {"config": RunConfig.build("CartPole-v1").to_json(), "state": "training"})


def learner_of(run: RunDirectory) -> ProcessHost:
    digest = hashlib.sha256((run.path / "token").read_bytes()).hexdigest()
    notebook = {NOTEBOOK: f"3.11.9 {workbench.__version__}"}
    return ProcessHost(Task("learner", str(run.path), ("runs",), digest, 1, notebook))


def test_the_lock_of_a_lost_machine_is_an_ending_that_passes(run: RunDirectory) -> None:
    host = learner_of(run)
    with lock.held(run.path / "learner.lock", wait_s=0):
        life = host.live({})
    assert life["code"] == PASSING and "its machine is lost and the storage keeps its lock" in life["error"]["message"]
    assert life["error"]["type"] == "StorageFailed"
    assert host.live({})["code"] == 0, "and once the lock is free, the process lives"


def test_storage_that_goes_away_later_passes_and_storage_that_was_never_shared_does_not(run: RunDirectory) -> None:
    host, away = learner_of(run), run.path.with_name("unmounted")
    run.path.rename(away)
    codes = [host.live({}, first=first)["code"] for first in (True, False)]
    assert codes == [FATAL, PASSING]
    away.rename(run.path)
    assert host.live({})["code"] == 0


def test_a_node_with_another_workbench_is_refused_with_both_versions(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = learner_of(run)
    monkeypatch.setattr(node_versions, "here", lambda: Versions("3.11.9", "0.0.9"))
    life = host.live({}, first=True)
    assert life["code"] == FATAL and life["error"]["type"] == "RunFailed"
    ours = workbench.__version__
    assert f"node-7 has version 0.0.9 of the workbench, the notebook has {ours}" in life["error"]["message"]
    assert "Install the same version on all nodes" in life["error"]["message"]


def test_another_python_is_refused_only_where_code_of_a_cell_travels(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, notebook = learner_of(run), Versions("3.11.9", workbench.__version__)
    monkeypatch.setattr(node_versions, "here", lambda: Versions("3.12.1", workbench.__version__))
    assert host.live({})["code"] == 0
    (run.code / "environment.pkl").write_bytes(b"typed in a cell")
    life = host.live({})
    assert life["code"] == FATAL
    assert "node node-7 has Python 3.12.1, the notebook has 3.11.9" in life["error"]["message"]
    assert "Give all nodes Python 3.11" in life["error"]["message"]
    monkeypatch.setattr(node_versions, "here", lambda: replace(notebook, python="3.11.2"))
    assert host.live({})["code"] == 0, "the last number does not matter"


def test_a_supervisor_passes_the_notebooks_versions_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NOTEBOOK, raising=False)
    assert read(inherited()[NOTEBOOK]) == node_versions.here()
    monkeypatch.setenv(NOTEBOOK, "3.13.0 9.9.9")  # as the environment of a supervisor has it
    assert read(inherited()[NOTEBOOK]) == Versions("3.13.0", "9.9.9")


def test_a_cluster_with_another_ray_or_python_is_said_with_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    utils = pytest.importorskip("ray._private.utils")

    def refused(_: str) -> None:
        utils.check_version_info({"ray_version": "2.0.0", "python_version": "3.9.1"}, "here")

    monkeypatch.setattr(connecting, "connected", refused)
    with pytest.raises(ConnectionLost, match=r"started with: Ray: 2\.0\.0 Python: 3\.9\.1 This process .* Ray: 2\."):
        connecting.connect("auto")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[SimpleNamespace]:
    """The calls of hosts, which the test answers."""
    made: list[SimpleNamespace] = []

    class Host:
        def __getattr__(self, method: str) -> Any:
            return SimpleNamespace(remote=lambda *_, **__: self._called(method))

        def _called(self, method: str) -> SimpleNamespace:
            made.append(SimpleNamespace(host=self, method=method, answer=None))
            return made[-1]

    monkeypatch.setattr(ray, "_options", lambda *_, **__: SimpleNamespace(remote=lambda task: Host()))
    monkeypatch.setattr(ray, "_is_ready", lambda call: call.answer is not None)
    monkeypatch.setattr(ray, "_result", lambda call: call.answer)
    return made


LIVES = {"pid": 7, "host": "node-7", "node": "7", "versions": "3.11.9 1"}


def child_of(run: RunDirectory, name: str, token: str | None) -> ray.RemoteChild:
    run.logs.mkdir(exist_ok=True)
    place: Any = SimpleNamespace(run=run, published=dict, bundle=dict)
    return ray.RemoteChild(Task(name, str(run.path), (), token, 1, {}), place, None, Resources(1.0, 0.0, 0.0))


def test_a_life_that_never_had_a_process_gives_its_host_up(run: RunDirectory, calls: list[SimpleNamespace]) -> None:
    learner, hosts = child_of(run, "learner", "digest"), []
    for lives_at in (None, LIVES, None):
        learner.back_off = BackOff()
        assert learner.start_if_due() and learner.poll() is None
        life, where = calls[-2:]
        hosts.append(life.host)
        where.answer = lives_at
        life.answer = {"code": PASSING, "error": {"type": "StorageFailed", "message": "away"}, "log": b""}
        ended = learner.poll()
        assert ended is not None and ended.code == PASSING
    first, second, third = hosts
    assert first is not second is third, "a host stays only where a process has been"
    assert [call.host for call in calls if call.method == "leave"] == [first, third]


@pytest.mark.parametrize("replaced", [False, True], ids=["in its back-off", "while it is replaced"])
def test_an_actor_that_is_scaled_away_gives_its_place_back(
    run: RunDirectory, calls: list[SimpleNamespace], replaced: bool
) -> None:
    actor = child_of(run, "actor-1", None)
    assert actor.start_if_due()
    life, where = calls[-2:]
    where.answer = LIVES
    if replaced:
        actor.expect_end(3.0)
        actor.end(3.0)
    life.answer = {"code": 1, "error": None, "log": b""}
    assert actor.poll() is not None and not actor.alive
    if not replaced:
        assert "leave" not in [call.method for call in calls], "its next life begins there"
        actor.end(3.0)
    actor.end(3.0)
    assert [call.host for call in calls if call.method == "leave"] == [life.host], "once"
    actor.back_off = BackOff()
    assert actor.start_if_due() and calls[-1].host is not life.host, "where there is room, should it be moved"


def test_storage_that_is_mounted_late_is_waited_for(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_actor, "_STORAGE_S", 240)
    host, away = learner_of(run), run.path.with_name("unmounted")
    run.path.rename(away)
    mounted = threading.Timer(0.3, away.rename, [run.path])
    mounted.start()
    life: dict[str, Any] = host.live({}, first=True)
    mounted.join()
    assert life["code"] == 0

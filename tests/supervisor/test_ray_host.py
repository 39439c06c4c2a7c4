"""What a host on a node of a cluster makes of storage that is away, and of locks that are held; without a cluster."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

import pytest

from workbench import rundir
from workbench.config import RunConfig
from workbench.rundir import RunDirectory, lock
from workbench.supervisor.hosts import ray_actor
from workbench.supervisor.hosts.ray_actor import ProcessHost, Task
from workbench.wire.lifeline import FATAL, PASSING


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    monkeypatch.setattr(ray_actor, "_host", lambda: "node-7")
    monkeypatch.setattr(ray_actor, "_cluster", lambda: "node-7:6379")
    monkeypatch.setattr(ray_actor, "_LOCK_S", 0.1)
    monkeypatch.setattr(ray_actor, "_STORAGE_S", 0.1)
    return rundir.create("run", {"config": RunConfig.build("CartPole-v1").to_json(), "state": "training"})


def learner_of(run: RunDirectory) -> ProcessHost:
    digest = hashlib.sha256((run.path / "token").read_bytes()).hexdigest()
    return ProcessHost(Task("learner", str(run.path), ("runs",), digest, 1))


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


def test_storage_that_is_mounted_late_is_waited_for(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_actor, "_STORAGE_S", 240)
    host, away = learner_of(run), run.path.with_name("unmounted")
    run.path.rename(away)
    mounted = threading.Timer(0.3, away.rename, [run.path])
    mounted.start()
    life: dict[str, Any] = host.live({}, first=True)
    mounted.join()
    assert life["code"] == 0

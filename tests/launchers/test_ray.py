"""Runs on a real Ray cluster of several nodes, whose nodes and processes are killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import workbench as wb
from tests.conftest import CALM, eventually, gone
from tests.launchers.clusters import add_node, drain, node_of, ray_cluster
from workbench import rundir
from workbench.errors import ConnectionLost, WaitTimeout
from workbench.rundir import lock

START_S = 240.0
# The head has room for the learner, each other node for one actor.
FIELDS = {**CALM, "launcher": "ray", "learner_cpus": 2.0, "actor_cpus": 1.0, "total_frames": 10**9,
          "ready_timeout_s": START_S}
CLIENT_PORT = 23_017


@pytest.fixture(scope="module")
def cluster(module_home: Path) -> Iterator[Any]:
    with ray_cluster(2, 1, 1, ray_client_server_port=CLIENT_PORT) as made:
        yield made


@pytest.fixture(scope="module")
def run(cluster: Any) -> Iterator[wb.Run]:
    made = wb.launch("testing/counting-v0", name="clustered", address=cluster.address, **FIELDS)
    yield made
    made.stop(timeout_s=20)


def stepping(run: wb.Run) -> set[int]:
    """Actors that step, by index."""
    return {one.index for one in run.status.actors if one.pid and one.steps_per_second > 0}


def test_processes_are_where_there_is_room_for_them(run: wb.Run, cluster: Any) -> None:
    status = eventually(lambda: (now := run.status).learner_pid and all(one.pid for one in now.actors) and now)
    nodes = [node_of(cluster, pid) for pid in (status.learner_pid, *(one.pid for one in status.actors))]
    assert nodes[0] is cluster.head_node
    assert node_of(cluster, status.supervisor_pid) is cluster.head_node, "beside the learner"
    assert len(set(map(id, nodes))) == 3
    eventually(lambda: any("learner_gpus=1 asks for one" in message for message in run.events["message"]))


def test_the_run_is_followed_through_rays_client(run: wb.Run) -> None:
    followed = wb.attach(f"ray://127.0.0.1:{CLIENT_PORT}/clustered")
    assert followed.path != run.path
    assert followed.status.supervisor_pid == run.status.supervisor_pid


@pytest.mark.full
def test_actors_get_no_more_than_they_need_in_a_folder_of_their_own(run: wb.Run) -> None:
    pid = eventually(lambda: run.status.actors[0].pid)
    bundle = Path(psutil.Process(pid).cmdline()[5])
    assert bundle.parent == Path(tempfile.gettempdir())
    assert bundle.stat().st_mode & 0o077 == 0
    held = {str(path.relative_to(bundle)) for path in bundle.rglob("*") if path.is_file()}
    assert held == {"run.json", "token", "tls/certificate.pem", "endpoints/learner.json", "logs/actor-0.log", "lock"}


@pytest.mark.full
def test_more_actors_than_there_is_room_for_start_when_a_node_comes(run: wb.Run, cluster: Any) -> None:
    run.scale(actors=3)
    eventually(lambda: len(run.status.actors) == 3)
    assert stepping(run) <= {0, 1}
    add_node(cluster, 1)
    eventually(lambda: stepping(run) == {0, 1, 2})


@pytest.mark.full
def test_the_host_of_an_actor_that_is_scaled_away_is_released_with_its_folder(run: wb.Run) -> None:
    run.scale(actors=2)
    pid = eventually(lambda: stepping(run) == {0, 1} and run.status.actors[1].pid)
    process = psutil.Process(pid)
    host, bundle = process.parent(), Path(process.cmdline()[5])
    assert host is not None and "ProcessHost" in " ".join(host.cmdline())
    run.scale(actors=1)
    eventually(lambda: gone(process) and gone(host))
    assert not bundle.exists()
    run.scale(actors=2)
    eventually(lambda: stepping(run) == {0, 1})  # its place is free again


def test_a_lost_nodes_actors_come_back_elsewhere(run: wb.Run, cluster: Any) -> None:
    run.scale(actors=2)
    eventually(lambda: stepping(run) == {0, 1})
    if len(cluster.list_all_nodes()) < 4:
        add_node(cluster, 1)  # the elsewhere
    lost = node_of(cluster, run.status.actors[1].pid)
    restarts = run.status.actors[1].restarts
    cluster.remove_node(lost, allow_graceful=False)
    frames = run.status.frames
    eventually(lambda: run.status.actors[1].restarts > restarts and stepping(run) == {0, 1})
    assert node_of(cluster, run.status.actors[1].pid) is not lost
    assert run.status.frames > frames
    said = " ".join(run.events["message"])
    assert "actor-1 ended with the loss of its node" in said


@pytest.mark.full
def test_actors_leave_a_node_that_ray_drains_before_it_is_gone(run: wb.Run, cluster: Any) -> None:
    add_node(cluster, 1)  # the elsewhere
    pid = run.status.actors[1].pid
    drained = node_of(cluster, pid)
    drain(cluster, drained, seconds=3600)
    eventually(lambda: run.status.actors[1].pid not in (None, pid) and stepping(run) == {0, 1})
    assert node_of(cluster, run.status.actors[1].pid) is not drained
    assert any(message.startswith("Ray drains node ") and message.endswith("start elsewhere")
               for message in run.events["message"])
    assert "drain" in run.events["kind"].tolist()
    cluster.remove_node(drained, allow_graceful=False)


@pytest.mark.full
def test_the_run_goes_on_when_the_host_of_its_supervisor_is_lost(run: wb.Run) -> None:
    run.checkpoint()
    status = run.status
    host = psutil.Process(status.supervisor_pid).parent()
    assert host is not None and "ProcessHost" in " ".join(host.cmdline())
    host.kill()
    eventually(lambda: run.status.supervisor_pid not in (None, status.supervisor_pid))
    assert run.wait(frames=status.frames + 500, timeout_s=START_S).state == "training"


@pytest.mark.full
def test_a_learner_waits_for_the_lock_that_storage_keeps_for_a_lost_machine(run: wb.Run) -> None:
    pid = eventually(lambda: run.status.learner_pid)
    host = psutil.Process(pid).parent()
    assert host is not None and "ProcessHost" in " ".join(host.cmdline())
    host.suspend()  # until the lock is ours, as NFS would keep it for its lease
    os.kill(pid, signal.SIGKILL)
    with lock.held(run.path / "learner.lock", wait_s=60) as is_ours:
        host.resume()
        assert is_ours
        said = "learner ended with StorageFailed: another learner of clustered still lives"
        eventually(lambda: any(said in message for message in run.events["message"]))
    before = run.status.frames
    assert run.wait(frames=before + 200, timeout_s=START_S).state == "training"


@pytest.mark.full
def test_a_dead_supervisor_leaves_no_process_and_the_run_is_resumed(run: wb.Run) -> None:
    status = eventually(lambda: (now := run.status).learner_pid and all(one.pid for one in now.actors) and now)
    processes = [psutil.Process(pid) for pid in (status.learner_pid, *(one.pid for one in status.actors))]
    bundle = Path(processes[1].cmdline()[5])
    os.kill(status.supervisor_pid, signal.SIGKILL)
    eventually(lambda: run.status.state == "dead")
    eventually(lambda: all(map(gone, processes)))
    again = wb.resume("clustered", ready_timeout_s=START_S)
    assert again.config.launcher == "ray"
    assert again.wait(frames=status.frames + 200, timeout_s=START_S).state == "training"
    assert not bundle.exists(), "whoever comes next to the machine removes it"


@pytest.mark.full
def test_the_run_outlives_whoever_launched_it(cluster: Any, run: wb.Run) -> None:
    run.stop(timeout_s=20)  # makes room
    fields = {**FIELDS, "address": cluster.address, "name": "outlives"}
    code = (f"import time, workbench as wb; wb.launch('testing/counting-v0', **{fields!r}); print('up', flush=True); "
            "time.sleep(99)")
    kernel = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert kernel.stdout is not None
    assert kernel.stdout.readline() == "up\n"
    os.killpg(kernel.pid, signal.SIGKILL)
    kernel.wait()
    attached = wb.attach("outlives")
    frames = attached.status.frames
    assert attached.wait(frames=frames + 2000, timeout_s=240).state == "training"
    assert attached.stop(timeout_s=20).state == "stopped"
    eventually(lambda: not lock.is_alive(attached.directory))


@pytest.mark.full
def test_a_launch_without_room_says_so_and_takes_its_wish_back(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.running.starts.starting._SUPERVISOR_S", 0.0)
    fields = {**FIELDS, "learner_cpus": 64.0, "ready_timeout_s": 8.0}
    with pytest.raises(WaitTimeout, match="Ray has no node with 64 CPUs to spare yet"):
        wb.launch("testing/counting-v0", name="large", address=cluster.address, **fields)
    assert wb.attach("large").status.state == "dead"


@pytest.mark.full
def test_a_run_directory_that_the_cluster_does_not_see_is_said(cluster: Any, tmp_path: Path) -> None:
    """The launching process has a disk of its own over the home, as a notebook on another machine would."""
    home = tmp_path / "h"
    home.mkdir()
    fields = {**FIELDS, "address": cluster.address, "name": "unseen"}
    code = f"import workbench as wb; wb.launch('testing/counting-v0', **{fields!r})"
    mounted = f"mount -t tmpfs tmpfs {home} && exec {sys.executable} -c \"$CODE\""
    told = subprocess.run(["unshare", "-m", "sh", "-c", mounted], capture_output=True, text=True, timeout=240,
                          env={**os.environ, "WORKBENCH_HOME": str(home), "CODE": code})
    if "must be superuser" in told.stderr or "unshare:" in told.stderr:
        pytest.skip("only root can mount")
    assert "does not see the run directory" in told.stderr
    assert "share, at the same path" in told.stderr


@pytest.mark.full
def test_a_cluster_that_does_not_answer_is_said_and_nothing_is_started(home: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    before = ray_heads()
    with pytest.raises(ConnectionLost, match=r"no Ray cluster answers .*ray start --head"):
        wb.launch("testing/counting-v0", launcher="ray", address=address)
    assert ray_heads() <= before
    assert rundir.every() == []


def ray_heads() -> set[int]:
    """Of this process: another worker of the tests has its own clusters."""
    return {one.pid for one in psutil.Process().children(recursive=True) if one.name() == "gcs_server"}


def launched(address: str) -> wb.Run:
    """A run by Ray's client; tried again where Ray did not start a server for it in its 30 s, as on a busy machine."""
    for _ in range(3):
        try:
            return wb.launch("testing/counting-v0", address=address, name="client", **FIELDS)
        except ConnectionLost as error:
            if "Initialization failure from server" not in str(error):
                raise
            lost = error
    raise lost


@pytest.mark.full
def test_a_launch_through_rays_client(run: wb.Run) -> None:
    run.stop(timeout_s=20)  # makes room
    made = launched(f"ray://127.0.0.1:{CLIENT_PORT}")
    try:
        assert made.wait(updates=3, timeout_s=240).state == "training"
    finally:
        made.stop(timeout_s=20)

"""A real Ray cluster of several nodes on this machine, each with its own processes, small and quiet."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.hosts import OtherHost
from tests.launchers import small_ray
from tests.launchers.small_ray import small

OBJECT_STORE = 80 * 2**20  # bytes; Ray's least is 75 MiB
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
          "RAY_agent_register_timeout_ms": "240000",
          "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "240"}


def add_node(cluster: Any, cpus: int, *, agent: bool = False, **more: Any) -> Any:
    """A further node; `agent`: see `small`."""
    with small(agent=agent):
        return cluster.add_node(num_cpus=cpus, object_store_memory=OBJECT_STORE, **more)


def node_of(cluster: Any, pid: int | None) -> Any:
    """The node whose raylet started the host of that process."""
    above = {one.pid for one in psutil.Process(pid).parents()}
    return next(node for node in cluster.list_all_nodes()
                if node.all_processes["raylet"][0].process.pid in above)


def drain(cluster: Any, node: Any, *, seconds: int) -> None:
    """Let Ray drain the node, as its autoscaler does on a cloud's notice; it is not taken away."""
    which = ["--address", cluster.address, "--node-id", node.node_id, "--deadline-remaining-seconds", str(seconds)]
    why = ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "a test"]
    subprocess.run([sys.executable, "-m", "ray.scripts.scripts", "drain-node", *which, *why], check=True, timeout=240)


def lose(cluster: Any, node: Any) -> None:
    """Kill the node's raylet and all that it started, at once: a machine that goes without a notice."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    on_it = raylet.children(recursive=True)
    cluster.remove_node(node, allow_graceful=False)
    for process in on_it:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _kill_all(processes: set[psutil.Process]) -> None:
    """Kill what is left of these children, if they are Ray's."""
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            if "ray" in " ".join(one.cmdline()):
                one.kill()


@contextmanager
def ray_cluster(*cpus: int, **head: Any) -> Iterator[Any]:
    """A `ray.cluster_utils.Cluster` with a node for each of `cpus`, the first one its head; all end with the block."""
    pytest.importorskip("ray")
    pytest.importorskip("cryptography")
    from ray.cluster_utils import Cluster

    before = {name: os.environ.get(name) for name in _QUIET}
    os.environ.update(_QUIET)
    others = set(psutil.Process().children())
    made = Cluster()
    try:
        for number, count in enumerate(cpus):
            add_node(made, count, **({} if number else {"include_dashboard": False, **head}))
        yield made
    finally:
        made.shutdown()
        _kill_all(set(psutil.Process().children()) - others)  # of a node that did not come up in the test's time
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextmanager
def ray_between(host: OtherHost, here: int, there: int, *, token: str) -> Iterator[str]:
    """A cluster with a password of Ray's, its head with `here` CPUs on this host, and a node with `there` on that one.

    Its address; the environment of whoever uses it must have the password.
    """
    pytest.importorskip("ray")
    pytest.importorskip("cryptography")
    with socket.socket() as free:
        free.bind((host.here, 0))
        address = f"{host.here}:{free.getsockname()[1]}"
    environment = {**os.environ, **_QUIET, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    starts = (
        ([], ["--head", "--include-dashboard=false", "--port", address.rpartition(":")[2]], host.here, here),
        (host.prefix, ["--address", address], host.there, there),
    )
    with ExitStack() as running:
        for prefix, arguments, ip, cpus in starts:
            ray = [*prefix, sys.executable, small_ray.__file__, "start", *arguments, "--node-ip-address", ip]
            options = [f"--num-cpus={cpus}", f"--object-store-memory={OBJECT_STORE}", "--block"]
            running.callback(_end, _started([*ray, *options], environment))
        yield address


_HEAD = "ray.head.default"  # a name that Ray has written into its code
_COMMANDS = ("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands",
             "head_start_ray_commands", "worker_start_ray_commands")  # which the fake provider runs none of


@contextmanager
def autoscaling_cluster(folder: Path, *, cpus: int, most: int) -> Iterator[tuple[str, psutil.Process]]:
    """A cluster with a head without room and no other node, whose autoscaler (of Ray's fake provider, which starts its
    nodes on this machine) adds up to `most` with `cpus` CPUs, and takes away those that are idle for 12 s.

    Its address, and the process above all of its nodes. (`ray.cluster_utils.AutoscalingCluster` would first end every
    cluster of this machine.)
    """
    pytest.importorskip("ray")
    pytest.importorskip("cryptography")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    worker = {"resources": {"CPU": cpus, "object_store_memory": OBJECT_STORE}, "node_config": {}, "min_workers": 0,
              "max_workers": most}
    head = {"resources": {}, "node_config": {}, "max_workers": 0}
    (folder / "autoscaler.json").write_text(json.dumps({
        "cluster_name": "fake", "max_workers": most,
        "provider": {"type": "fake_multinode", "gcs_address": address, "use_node_id_as_ip": True,
                     "disable_node_updaters": True, "disable_launch_config_check": True},
        "available_node_types": {_HEAD: head, "worker": worker}, "head_node_type": _HEAD, "upscaling_speed": 1.0,
        "idle_timeout_minutes": 0.2, "auth": {}, "docker": {}, "file_mounts": {}, "cluster_synced_files": [],
        **dict.fromkeys(_COMMANDS, [])}))
    environment = {**os.environ, **_QUIET, "RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
    command = [sys.executable, small_ray.__file__, "start", "--head", "--include-dashboard=false",
               f"--port={address.rpartition(':')[2]}", "--num-cpus=0", "--block",
               f"--object-store-memory={OBJECT_STORE}", f"--autoscaling-config={folder / 'autoscaler.json'}"]
    node = _started(command, environment)
    above = psutil.Process(node.pid)
    try:
        yield address, above
    finally:
        processes = set(above.children(recursive=True))
        _end(node)
        _kill_all(processes)  # the nodes of the autoscaler do not end with it


def raylets(above: psutil.Process) -> int:
    """How many nodes the cluster has whose processes are below that one."""
    with suppress(psutil.NoSuchProcess):  # one that ended in this moment
        return sum(one.name() == "raylet" for one in above.children(recursive=True))
    return -1


def _started(command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    """`ray start` once its node runs."""
    node = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert node.stdout is not None
    said = ""
    try:
        for line in node.stdout:
            said += line
            if "block forever" in line:
                threading.Thread(target=node.stdout.read, daemon=True).start()  # what it says from now on
                return node
    except BaseException:
        _end(node)
        raise
    node.wait()
    raise AssertionError(f"Ray did not start: {said}")


def _end(node: subprocess.Popen[str]) -> None:
    """End a node and its processes; one that does not obey is killed, and they see that."""
    node.terminate()
    try:
        node.wait(240)
    except subprocess.TimeoutExpired:
        node.kill()
        node.wait()

"""What somebody finds of a run who looks at its Ray cluster: in the dashboard, by Ray's state API, in Ray's logs.

Metrics and the state API need ray[default], with which `make test-ray-dashboard` runs this.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import CALM, eventually
from tests.launchers.clusters import ray_cluster

pytestmark = pytest.mark.full

START_S = 240.0
HAS_AGENT = all(map(importlib.util.find_spec, ("opentelemetry", "aiohttp_cors")))
FIELDS = {**CALM, "launcher": "ray", "actors": 2, "learner_cpus": 1.0, "actor_cpus": 0.5, "total_frames": 10**9,
          "ready_timeout_s": START_S}
LOOK = """
import json, sys
import ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
from ray._private.state import actors
print(json.dumps([{"name": one["Name"], "state": one["State"], "node": one["Address"]["NodeID"]}
                  for one in actors().values()]))
"""
STATE = """
import json, sys
from ray.util.state import list_actors
listed = list_actors(address=sys.argv[1], detail=True, limit=100)
print(json.dumps([{"name": one.name, "repr": one.repr_name, "state": one.state} for one in listed]))
"""


@pytest.fixture(scope="module")
def cluster(module_home: Path) -> Iterator[Any]:
    with ray_cluster(3, agent=HAS_AGENT, include_dashboard=HAS_AGENT) as made:
        yield made


@pytest.fixture(scope="module")
def run(cluster: Any) -> Iterator[wb.Run]:
    made = wb.launch("testing/counting-v0", name="shown", address=cluster.address, **FIELDS)
    yield made
    made.stop(timeout_s=60)


def asked(code: str, address: str) -> list[dict[str, Any]]:
    done = subprocess.run([sys.executable, "-c", code, address], capture_output=True, text=True, timeout=240,
                          check=False, env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"})
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))


def test_each_host_has_a_name_that_says_run_role_and_number(run: wb.Run, cluster: Any) -> None:
    eventually(lambda: all(one.pid for one in run.status.actors))
    names = {one["name"] for one in asked(LOOK, cluster.address) if one["state"] == "ALIVE"}
    assert {re.sub(r" [0-9a-f]{8,16}$", "", name) for name in names} == {
        "learners of shown", "learner of shown", "actor-0 of shown", "actor-1 of shown"}  # first: the supervisor's


def test_each_hosts_own_log_says_the_runs_directory_and_its_process_and_log(run: wb.Run, cluster: Any) -> None:
    eventually(lambda: all(one.pid for one in run.status.actors))
    status = run.status
    logs = Path(cluster.head_node.get_logs_dir_path())
    said = "\n".join(path.read_text(errors="replace") for path in logs.glob("worker-*.out"))
    for name, pid in (("supervisor", status.supervisor_pid), ("learner", status.learner_pid),
                      *((f"actor-{one.index}", one.pid) for one in status.actors)):
        line = next(line for line in said.splitlines() if f"{name} of shown runs here, as process {pid} of " in line)
        assert f"Run directory: {run.path}. Log: " in line
        assert Path(line.rpartition("Log: ")[2]).name == f"{name}.log" and Path(line.rpartition("Log: ")[2]).exists()


@pytest.mark.skipif(not HAS_AGENT, reason="ray[default] is not installed: make test-ray-dashboard")
def test_rays_state_api_and_so_its_dashboard_names_each_host(run: wb.Run, cluster: Any) -> None:
    listed = asked(STATE, f"http://{cluster.head_node.webui_url}")
    assert {one["repr"] for one in listed if one["state"] == "ALIVE"} == {
        "supervisor of shown", "learner of shown", "actor-0 of shown", "actor-1 of shown"}


@pytest.mark.skipif(not HAS_AGENT, reason="ray[default] is not installed: make test-ray-dashboard")
def test_the_runs_main_numbers_are_metrics_of_ray(run: wb.Run, cluster: Any) -> None:
    address = f"http://{cluster.head_node.node_ip_address}:{cluster.head_node.metrics_export_port}/metrics"

    def published() -> dict[str, float]:
        with urllib.request.urlopen(address, timeout=60) as answer:
            lines = [line for line in answer.read().decode().splitlines() if line.startswith("ray_workbench_")]
        return {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines if 'run="shown"' in line}

    names = {f"ray_workbench_{name}" for name in
             ("frames", "updates", "frames_per_second", "steps_per_second", "episode_return")}
    eventually(lambda: set(published()) == names)
    before = published()["ray_workbench_frames"]
    eventually(lambda: published()["ray_workbench_frames"] > before > 0)
    assert published()["ray_workbench_frames"] <= run.status.frames + 10**5
    assert published()["ray_workbench_frames_per_second"] > 0


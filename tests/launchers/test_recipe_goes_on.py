"""The script of a recipe on a real Ray cluster: it starts its run, and goes on from storage where the home is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import workbench as wb
from tests.conftest import LONGEST_S, eventually, private_home
from tests.launchers.clusters import ray_cluster

pytestmark = pytest.mark.full


@pytest.fixture
def cluster() -> Iterator[Any]:
    with ray_cluster(3) as made:
        yield made


def script(storage: Path) -> str:
    """What `kubectl apply` makes Ray's head run."""
    text = wb.recipe("kuberay-job", environment="CartPole-v1", name="moved", actors=1, envs_per_actor=4, batch_size=8,
                     actor_cpus=1, learner_gpus=0, storage=str(storage), total_frames=10**9, checkpoint_interval_s=1.0,
                     keep_checkpoints=10_000)
    (run,) = (one for one in yaml.safe_load_all(text) if one["kind"] == "ConfigMap")
    return str(run["data"]["run.sh"])


@contextmanager
def running(text: str, cluster: Any) -> Iterator[subprocess.Popen[str]]:
    """The script, in a home of its own."""
    environment = {**os.environ, "RAY_ADDRESS": cluster.address,
                   "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    process = subprocess.Popen(["bash", "-c", text], env=environment, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(LONGEST_S)


def trained(frames: int) -> wb.Run:
    """The run, once it has trained on more than so many frames."""
    def found() -> wb.Run | None:
        if all(run.name != "moved" for run in wb.runs()):
            return None
        run = wb.attach("moved")
        return run if run.status.frames > frames and run.checkpoints else None

    return eventually(found)


def test_the_jobs_script_starts_a_run_and_goes_on_with_its_copy_in_another_home(cluster: Any, tmp_path: Path) -> None:
    for home in range(2):
        with contextmanager(private_home)(), running(script(tmp_path), cluster) as process:
            before = max((int(one.parent.name) for one in tmp_path.glob("moved/checkpoints/*/meta.json")), default=0)
            assert bool(before) == bool(home)
            run = trained(before)
            assert run.config.launcher == "ray"
            assert not home or before in {one.frames for one in run.checkpoints}, "it went on from the first's copy"
            assert run.stop().state == "stopped"
            assert process.wait(LONGEST_S) == 0
            newest = max(one.frames for one in run.checkpoints)
            eventually(lambda frames=newest: any(
                int(one.parent.name) == frames for one in tmp_path.glob("moved/checkpoints/*/meta.json")))

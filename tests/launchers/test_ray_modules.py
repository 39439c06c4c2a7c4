"""Modules and packages of a notebook whose disk the nodes of its Ray cluster do not see."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
from tests.launchers.clusters import ray_cluster

pytestmark = pytest.mark.full

START_S = 240.0
FIELDS = {**SMALL, "launcher": "ray", "actors": 1, "learner_cpus": 1.0, "actor_cpus": 1.0, "total_frames": 10**9,
          "ready_timeout_s": START_S}
MODULE = """
import parts
from workbench.testing import CountingEnv

class Counting(CountingEnv):
    def reset(self, **given):
        import parts.late
        assert parts.late.HERE == "sent"
        return super().reset(**given)
"""
PACKAGE = """
from workbench.testing import CountingEnv

class Counting(CountingEnv):
    pass
"""
# The notebook: its folder and its installed packages lie on a disk of its own, which is mounted over the nodes' view.
NOTEBOOK = """
import os, pathlib, sys
folder, packages = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
(folder / "parts").mkdir(parents=True)
(folder / "mine.py").write_text(os.environ["MODULE"])
(folder / "parts" / "__init__.py").touch()
(folder / "parts" / "late.py").write_text("HERE = 'sent'")
packages.mkdir(parents=True)
(packages / "onlyhere.py").write_text(os.environ["PACKAGE"])
sys.path[:0] = [str(folder), str(packages)]
import workbench as wb
import mine, onlyhere
code = {"mine": mine.Counting, "onlyhere": onlyhere.Counting, "late": None}[os.environ["WHICH"]]
if code is None:
    def code():
        import onlyhere
        return onlyhere.Counting()
run = wb.launch(code, name=os.environ["WHICH"], **eval(os.environ["FIELDS"]))
print("up", run.status.state)
"""


@pytest.fixture(scope="module")
def cluster(module_home: Path) -> Iterator[Any]:
    with ray_cluster(1, 1) as made:
        yield made


def notebook(which: str, cluster: Any, disk: Path) -> str:
    """What a notebook says that launches that environment, on a disk that nobody else sees."""
    disk.mkdir(exist_ok=True)
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folder, packages = disk / "nb", disk / ".local/lib" / python / "site-packages"
    command = f'mount -t tmpfs tmpfs {disk} && exec {sys.executable} -c "$CODE" {folder} {packages}'
    fields = {**FIELDS, "address": cluster.address}
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command], capture_output=True, text=True, timeout=START_S + 120, check=False,
        env={**os.environ, "PYTHONUSERBASE": str(disk / ".local"), "CODE": NOTEBOOK, "MODULE": MODULE,
             "PACKAGE": PACKAGE, "WHICH": which, "FIELDS": repr(fields)})
    if "must be superuser" in done.stderr or "unshare:" in done.stderr:
        pytest.skip("only root can mount")
    return done.stdout + done.stderr


def test_a_module_beside_the_notebook_runs_on_nodes_that_do_not_see_it(cluster: Any, tmp_path: Path) -> None:
    said = notebook("mine", cluster, tmp_path / "disk")
    assert "up training" in said, said
    assert not list((tmp_path / "disk").iterdir()), "nobody else has the folder"
    run = wb.attach("mine")
    try:
        pid = run.status.actors[0].pid
        run.restart_actor(0)
        eventually(lambda: run.status.actors[0].pid not in (None, pid) and run.status.actors[0].steps_per_second > 0)
    finally:
        run.stop(timeout_s=60)


@pytest.mark.parametrize("which", ["onlyhere", "late"])
def test_a_package_that_a_node_lacks_is_named_with_the_node_and_what_to_do(
    cluster: Any, tmp_path: Path, which: str
) -> None:
    said = notebook(which, cluster, tmp_path / "disk")
    assert re.search(r"EnvironmentFailed: node [\d.:]+ has no module 'onlyhere': install its package there", said), said
    assert "or in the image of all nodes" in said

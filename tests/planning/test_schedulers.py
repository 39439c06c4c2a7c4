"""Recipes as the schedulers themselves read them: SkyPilot's task, Kubernetes' schemas, Slurm's sbatch and controller.

Their packages are in build/recipes (`make test-recipes`), apart from ours: SkyPilot alone brings 80 others.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import LONGEST_S, eventually

BUILD = Path(__file__).parents[2] / "build" / "recipes"
PYTHON, SLURM = BUILD / "bin" / "python", BUILD / "slurm" / "usr"
LIBRARIES = SLURM / "lib" / "x86_64-linux-gnu"
needs_packages = pytest.mark.skipif(not PYTHON.exists(), reason="make test-recipes makes build/recipes")
needs_slurm = pytest.mark.skipif(not (SLURM / "bin" / "sbatch").exists(), reason="no Slurm in build/recipes/slurm")
ALL = {"ports": "7000-7015", "storage": "s3://bucket/runs", "spot": "gcp", "learning_rate": 1e-4}


def read_by(scheduler: str, text: str, *, home: Path) -> Any:
    """What the scheduler's package reads in it. Raises AssertionError with its message where it refuses."""
    script = Path(__file__).with_name("schedulers.py")
    done = subprocess.run([PYTHON, script, scheduler], input=text, text=True, capture_output=True, timeout=LONGEST_S,
                          env={**os.environ, "HOME": str(home), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@needs_packages
@pytest.mark.parametrize("fields", [{}, ALL, {"actors": 200, "actor_machines": 13, "most_actor_machines": 13,
                                              "learner_gpus": 0}], ids=["defaults", "all", "large"])
def test_skypilot_reads_the_task(fields, tmp_path):
    task = read_by("sky", wb.recipe("sky", **fields), home=tmp_path)
    subprocess.run(["bash", "-n"], input=task["run"] + task["setup"], text=True, check=True)
    assert task["name"] == "workbench" and task["cpus"] == "96+" and task["memory"] == "32+"
    assert task["nodes"] == (3 if "actors" in fields else 1)
    assert task["accelerators"] == (None if "learner_gpus" in fields else {"L4": 1})
    assert task["spot"] == ("spot" in fields) and task["ports"] == ([fields["ports"]] if "ports" in fields else None)
    assert ("GCP" in task["cloud"]) == ("spot" in fields)


@needs_packages
def test_skypilot_refuses_a_field_that_it_does_not_know(tmp_path):
    with pytest.raises(AssertionError, match="use_spott"):
        read_by("sky", wb.recipe("sky", **ALL).replace("use_spot", "use_spott"), home=tmp_path)


@needs_packages
@pytest.mark.parametrize("kind", ["kuberay-cluster", "kuberay-job"])
def test_kubernetes_knows_every_field(kind, tmp_path):
    text = wb.recipe(kind, **ALL, learners=2, batch_size=64, storage_class="nfs")
    seen = read_by("kubernetes", text, home=tmp_path)
    own = ["PersistentVolumeClaim", "NetworkPolicy"] + (["ConfigMap"] if kind == "kuberay-job" else [])
    assert sorted(seen) == sorted([*own, "Pod", "Pod", "Pod"])
    for field in ("claimName", "endPort", "containerPort", "mountPath"):
        with pytest.raises(AssertionError, match=f"{field}s"):
            read_by("kubernetes", text.replace(f"{field}:", f"{field}s:"), home=tmp_path)


# --- Slurm ------------------------------------------------------------------------------------------------------------

CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}
SlurmdSpoolDir={folder}
SlurmctldPidFile={folder}/pid
PluginDir={plugins}
ProctrackType=proctrack/linuxproc
SwitchType=switch/none
TaskPlugin=task/none
MailProg=/bin/true
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
NodeName=node[1-16] NodeAddr=127.0.0.[1-16] CPUs=64 RealMemory=256000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
Slurm = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Slurm's commands, with a controller of their own, whose 16 nodes are never up."""
    if os.getuid() != 0:
        pytest.skip("a controller without munge runs as root here")
    folder = tmp_path_factory.mktemp("slurm")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    plugins = LIBRARIES / "slurm-wlm"
    (folder / "slurm.conf").write_text(CONFIGURATION.format(port=port, folder=folder, plugins=plugins))
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"),
                   "LD_LIBRARY_PATH": f"{plugins}:{LIBRARIES}"}

    def command(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run([SLURM / "bin" / words[0], *words[1:]], input=text, text=True, capture_output=True,
                              env=environment, cwd=folder, timeout=LONGEST_S)

    with (folder / "log").open("w") as log:
        controller = subprocess.Popen([SLURM / "sbin" / "slurmctld-wlm", "-D", "-c"], stdout=log, stderr=log,
                                      env=environment)
    try:
        eventually(lambda: command("sinfo", "-h").returncode == 0)
        yield command
    finally:
        controller.terminate()
        controller.wait(LONGEST_S)


@needs_slurm
@pytest.mark.parametrize("fields", [{}, {k: v for k, v in ALL.items() if k != "spot"}], ids=["defaults", "all"])
def test_slurms_controller_queues_the_script(slurm, fields):
    text = wb.recipe("slurm", learners=2, batch_size=64, learner_gpus=0, hours=30, **fields)
    done = slurm("sbatch", text=text)
    assert done.returncode == 0, done.stderr
    number = done.stdout.split()[-1]
    jobs = slurm("scontrol", "-o", "show", "job", number).stdout.splitlines()
    learners, actors = (dict(word.split("=", 1) for word in job.split() if "=" in word) for job in jobs if job.strip())
    assert learners["JobState"] == actors["JobState"] == "PENDING"
    assert learners["JobName"] == "workbench" and learners["TimeLimit"] == "1-06:00:00" and learners["Requeue"] == "1"
    assert [job["HetJobOffset"] for job in (learners, actors)] == ["0", "1"]
    assert [job["NumNodes"] for job in (learners, actors)] == ["2-2", "4-4"]
    assert [job["CPUs/Task"] for job in (learners, actors)] == ["8", "16"]
    assert [job["MinMemoryNode"] for job in (learners, actors)] == ["32G", "32G"]
    queued = slurm("scontrol", "write", "batch_script", number, "-").stdout
    assert queued.split() == text.split()  # Slurm leaves an empty line out
    assert slurm("scancel", number).returncode == 0


@needs_slurm
def test_sbatch_reads_every_option_and_no_other(slurm):
    """Nodes that are not up have no accelerators, so the controller refuses the job, which sbatch has read."""
    text = wb.recipe("slurm")
    assert "#SBATCH --gpus-per-node=1" in text
    assert "Requested node configuration is not available" in slurm("sbatch", text=text).stderr
    assert "unrecognized option" in slurm("sbatch", text=text.replace("--gpus-per-node", "--gpus-per-nodes")).stderr
    assert "Invalid" in slurm("sbatch", text=text.replace("--time=24:00:00", "--time=soon")).stderr


def test_the_makefile_gets_what_these_tests_need():
    """So that none of them is left out for want of a name."""
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    for name in ("skypilot==", "kubernetes-validate==", "slurm-client", "slurmctld", "slurm-wlm-basic-plugins"):
        assert name in makefile
    assert shutil.which("bash")

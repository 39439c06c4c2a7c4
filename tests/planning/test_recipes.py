"""Files that start a cluster: they are what launchers/ has, and valid for whoever reads them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given as given_that
from hypothesis import settings
from hypothesis import strategies as st

import workbench as wb
from workbench.cli import commands
from workbench.errors import OutOfBounds, UnknownName
from workbench.planning.recipes import KINDS
from workbench.planning.recipes.cluster import TEXTS, Cluster

LAUNCHERS = Path(__file__).parents[2] / "launchers"
KUBERAYS_SCHEMAS = Path(__file__).parent / "schemas" / "kuberay-1.7.0.json"
KUBERAY = ("kuberay-cluster", "kuberay-job")
ODD = ("null", "True", "no", "ON", "y", "1", "1.5", "1e3", "1_000", "0x1f", "010", "1:30", "2026-11-23", "-", "---",
       "...", "a:", "@a", ".inf", "10.0.0.1", "host-1", "a_b", "1a", "e5")
QUANTITY = re.compile(r"\d+(Gi|Mi)?")


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_in_launchers_is_what_the_recipe_writes(kind):
    path = LAUNCHERS / KINDS[kind]
    assert path.read_text() == wb.recipe(kind), f"make it anew: workbench recipe {kind} > launchers/{KINDS[kind]}"


@pytest.mark.parametrize("kind", KINDS)
def test_no_place_of_a_template_is_left(kind):
    text = wb.recipe(kind, learner_gpus=0, storage_class="nfs", learners=2, learners_per_machine=2, batch_size=64)
    assert "leave this line out" not in text and "gpu" not in text.replace("--num-gpus=0", "").replace("num-gpus: ", "")
    assert ("storageClassName: nfs\n" in text) == (kind in KUBERAY)


@pytest.mark.parametrize("kind", KINDS)
def test_the_run_that_a_file_starts_is_one_that_the_command_line_takes(kind):
    text = wb.recipe(kind, actors=12, learners=3, learners_per_machine=3, learner_gpus=3, batch_size=96)
    joined = re.sub(r"\\\n#?", " ", text)
    line = next(one for one in joined.splitlines() if " ALE/Pong-v5 " in one)
    words = shlex.split(line[line.rindex("workbench ", 0, line.index(" ALE/Pong-v5 ")):])
    given = commands.build_parser().parse_args(words[1:])
    assert (given.environment, given.name, given.actors, given.learners) == ("ALE/Pong-v5", "workbench", "12", "3")
    assert given.launcher == "ray" and not hasattr(given, "address")  # the cluster that is there


def test_ray_takes_the_cluster_file():
    ray_up = pytest.importorskip("ray.autoscaler._private.util")  # what `ray up` reads a file with
    config = ray_up.prepare_config(yaml.safe_load(wb.recipe("ray-cluster")))
    ray_up.validate_config(config)
    assert config["available_node_types"][config["head_node_type"]]["max_workers"] == 4


def test_the_cluster_file_starts_ray_with_options_that_it_has():
    options = ray_options("start")
    document = yaml.safe_load(wb.recipe("ray-cluster"))
    for line in document["head_start_ray_commands"] + document["worker_start_ray_commands"]:
        assert set(re.findall(r"--[a-z-]+", line)) <= options, line
    assert document["max_workers"] == len(document["provider"]["worker_ips"]) == 4


def ray_options(command: str) -> set[str]:
    scripts = pytest.importorskip("ray.scripts.scripts")
    return {name for one in scripts.cli.commands[command].params for name in (*one.opts, *one.secondary_opts)}


def documents(kind: str, **fields: Any) -> dict[str, dict[str, Any]]:
    """The Kubernetes objects of a recipe by their kind."""
    return {one["kind"]: one for one in yaml.safe_load_all(wb.recipe(kind, **fields))}


def cluster_of(kind: str, **fields: Any) -> dict[str, Any]:
    found = documents(kind, **fields)
    return found["RayCluster"]["spec"] if "RayCluster" in found else found["RayJob"]["spec"]["rayClusterSpec"]


@pytest.mark.parametrize("kind", KUBERAY)
def test_pods_mount_what_there_is_and_ask_for_what_kubernetes_can_count(kind):
    cluster = cluster_of(kind)
    claims = {one["metadata"]["name"] for one in documents(kind).values()}
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())  # KubeRay takes no numbers
        pod = group["template"]["spec"]
        volumes = {one["name"]: one for one in pod.get("volumes", ())}
        for volume in volumes.values():
            named = volume.get("configMap", {}).get("name") or volume["persistentVolumeClaim"]["claimName"]
            assert named in claims
        (container,) = pod["containers"]
        assert {one["name"] for one in container.get("volumeMounts", ())} == set(volumes)
        for amounts in container["resources"].values():
            assert all(isinstance(value, str) and QUANTITY.fullmatch(value) for value in amounts.values()), amounts
        assert group["rayStartParams"]["num-cpus"] == container["resources"]["requests"]["cpu"]


@pytest.mark.parametrize("kind", KUBERAY)
def test_kuberay_knows_every_field(kind):
    """An API server drops a field that it does not know without a word."""
    schemas = json.loads(KUBERAYS_SCHEMAS.read_text())
    found = documents(kind, learners=2, batch_size=64, ports="7000-7015", storage="s3://b/runs")
    custom = [one for one in found.values() if one["kind"] in schemas]
    assert len(custom) == 1
    for one in custom:
        jsonschema.validate(one, schemas[one["kind"]])
        assert one["apiVersion"] == "ray.io/v1"
        one["spec"]["backofLimit"] = 3
        with pytest.raises(jsonschema.ValidationError, match="backofLimit"):
            jsonschema.validate(one, schemas[one["kind"]])


@pytest.mark.parametrize("kind", KUBERAY)
def test_learners_have_accelerators_and_storage_and_actors_neither(kind):
    cluster = cluster_of(kind, learners=6, learners_per_machine=2, learner_gpus=2, batch_size=36)
    learners, actors = cluster["workerGroupSpecs"]
    for group in (cluster["headGroupSpec"], learners):
        (container,) = group["template"]["spec"]["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
        assert {"name": "WORKBENCH_HOME", "value": "/shared/workbench"} in container["env"]
    (container,) = actors["template"]["spec"]["containers"]
    assert "nvidia.com/gpu" not in container["resources"]["limits"] and "volumeMounts" not in container
    assert learners["replicas"] == learners["minReplicas"] == learners["maxReplicas"] == 2  # the third is the head
    assert actors["minReplicas"] <= actors["replicas"] <= actors["maxReplicas"]


def test_the_jobs_script_is_one_that_a_shell_reads():
    found = documents("kuberay-job")
    script = found["ConfigMap"]["data"]["run.sh"]
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert found["RayJob"]["spec"]["entrypoint"] == "bash /etc/workbench/run.sh"
    (container,) = cluster_of("kuberay-job")["headGroupSpec"]["template"]["spec"]["containers"]
    assert {"name": "run", "mountPath": "/etc/workbench"} in container["volumeMounts"]


def test_the_slurm_script_is_one_that_a_shell_and_slurm_read():
    text = wb.recipe("slurm", learners=2, batch_size=64)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    lines = text.splitlines()
    assert lines[0] == "#!/bin/bash"
    first_command = next(at for at, line in enumerate(lines) if line and not line.startswith("#"))
    directives = [at for at, line in enumerate(lines) if line.startswith("#SBATCH")]
    assert directives and max(directives) < first_command  # sbatch reads none behind a command
    assert lines.count("#SBATCH hetjob") == 1
    nodes = [int(line.partition("=")[2]) for line in lines if line.startswith("#SBATCH --nodes=")]
    assert f"--min-nodes {sum(nodes)} " in text and nodes == [2, 4]


def test_the_slurm_script_starts_ray_with_options_that_it_has():
    started = [line for line in wb.recipe("slurm").splitlines() if line.startswith(("srun", "common"))]
    ours = {"--het-group", "--address", "--min-nodes"}
    symmetric_run = pytest.importorskip("ray.scripts.symmetric_run")
    assert "RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=" in wb.recipe("slurm")
    assert "RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT" in Path(symmetric_run.__file__).read_text()
    assert {"--address", "--min-nodes"} <= ray_options("symmetric-run")
    assert set(re.findall(r"--[a-z-]+", " ".join(started))) - ours <= ray_options("start")


@pytest.mark.parametrize(("fields", "says"), [
    ({"name": "x; rm -rf ~"}, "name='x; rm -rf ~' does not fit"),
    ({"home": "relative"}, "home='relative'"),
    ({"environment": "$(id)"}, "environment="),
    ({"image": "a b"}, "image='a b'"),
    ({"image": "1:30"}, "image='1:30': YAML reads something else than a text there"),
    ({"user": "null"}, "user='null': YAML"),
    ({"machines": "host-1,12"}, "machines='host-1,12': YAML"),
    ({"actors": 0}, "actors=0 is out of bounds"),
    ({"actors": 200}, "200 actors take a core each; most_actor_machines=8 with actor_cpus=16 have 128"),
    ({"actor_machines": 9}, "most_actor_machines=8 is less than actor_machines=9"),
    ({"learners": 3}, "batch_size=32 does not divide by learners=3"),
    ({"learners": 4, "learners_per_machine": 4}, "learners_per_machine=4 need an accelerator each"),
])
def test_what_would_not_work_is_refused(fields, says):
    with pytest.raises(OutOfBounds, match=re.escape(says)):
        wb.recipe("slurm", **fields)


@given_that(data=st.data(), name=st.sampled_from(("name", "image", "head", "machines", "user", "storage_class")))
@settings(max_examples=300)
def test_a_text_that_is_taken_is_a_text_to_yaml(data, name):
    given = data.draw(st.from_regex(re.compile(TEXTS[name], re.ASCII), fullmatch=True) | st.sampled_from(ODD))
    try:
        made = Cluster(**{name: given})
    except OutOfBounds:
        return
    for word in getattr(made, name).split(",") if given else ():
        assert yaml.safe_load(f"a: {word}") == {"a": word} and yaml.safe_load(f"a: [{word}]") == {"a": [word]}


def test_misspelt_names_come_with_the_nearest_one():
    with pytest.raises(UnknownName, match="Did you mean 'slurm'"):
        wb.recipe("slum")
    with pytest.raises(UnknownName, match="Did you mean 'learner_gpus'"):
        wb.recipe("slurm", learner_gpu=2)


def test_the_command_line_prints_recipes_and_plans(capsys):
    assert commands.run(["recipe", "slurm", "actors=8", "actor_machines=1"]) == 0
    assert capsys.readouterr().out == wb.recipe("slurm", actors=8, actor_machines=1)
    assert commands.run(["plan", "ALE/Pong-v5", "frames_per_second=1e5"]) == 0
    assert "full first:" in capsys.readouterr().out
    assert commands.run(["plan", "ALE/Pong-v5", "cores=64", "learners=1"]) == 0
    assert "actors: 64 cores" in capsys.readouterr().out
    assert commands.run(["plan", "ALE/Pong-v5", "accelerator=v100"]) == 2
    assert "ask either what a speed takes" in capsys.readouterr().err
    assert commands.run(["plan", "ALE/Pong-v5", "frames_per_second=quick"]) == 2
    assert "frames_per_second='quick' must be a number" in capsys.readouterr().err

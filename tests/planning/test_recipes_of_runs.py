"""A recipe from a run of this machine: its command makes the same run; what no command line can name is refused."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import yaml

import workbench as wb
from workbench import rundir
from workbench.cli import commands
from workbench.cli.run_commands import run_fields
from workbench.config import RunConfig
from workbench.errors import InvalidInput, OutOfBounds, RunNotFound, UnknownName
from workbench.planning.recipes import KINDS
from workbench.rundir import RunDirectory, lock
from workbench.running.starts.checking import checked_config
from workbench.running.starts.starting import new_record

pytestmark = pytest.mark.usefixtures("home")


def written(name: str = "pong-1", environment: Any = "ALE/Pong-v5", *, algorithm: Any = "vtrace", network: Any = None,
            wrappers: Any = (), preset: str | None = None, parent: Any = None, **fields: Any) -> RunDirectory:
    """A run as `wb.launch` writes it, before any process starts."""
    config, code, used = checked_config(environment, algorithm, network, preset, wrappers, fields)
    return rundir.create(name, new_record(config, parent=parent, code=code, preset=used), code=code)


def launched(text: str) -> RunConfig:
    """The configuration of the run that the recipe's command starts."""
    joined = re.sub(r"\\\n#?", " ", text)
    line = next(line for line in joined.splitlines() if re.search(r"workbench (train|launch) ", line))
    words = shlex.split(line[re.search(r"workbench (train|launch) ", line).start():])
    args = commands.build_parser().parse_args(words[1:])
    fields = run_fields(args)
    named = {name: fields.pop(name) for name in ("name", "checkpoint", "demonstrations")}
    assert named["name"] and not named["checkpoint"]
    return checked_config(args.environment, fields.pop("algorithm"), fields.pop("network"), fields.pop("preset"), (),
                          fields)[0]


RUNS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "r2d2": {"algorithm": "r2d2", "save_replay": True, "actors": 8, "evaluation_epsilon": 0.01},
    "many": {"learning_rate": 1e-5, "target_return": -5.0, "max_hours": 2.5, "patience_frames": 10**6,
             "track": "wandb,mlflow", "price_per_hour": 2.0, "max_cost": 30.0, "seed": 7, "network": "nature-lstm",
             "environment_options": {"full_action_space": True}, "transport": "grpc", "learner_cpus": 4.0,
             "actor_cpus": 2.0, "actor_memory_gb": 3.0, "actors": 20, "ports": "7000-7015", "spot": "aws",
             "storage": "s3://bucket/runs", "unroll_length": 40, "batch_size": 64},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fields", RUNS.values(), ids=RUNS)
def test_the_command_starts_a_run_of_the_same_configuration(kind, fields):
    run = written(**fields)
    again = launched(wb.recipe(kind, run="pong-1"))
    ours = {"launcher": "ray", "learner_gpus": 1.0}
    assert again == run.config().replaced(**ours)


def test_a_run_with_a_preset_keeps_what_it_said():
    run = written(preset=None, environment="CartPole-v1", name="cart")
    text = wb.recipe("slurm", run=run.path)
    assert "--preset none" in text and launched(text).replaced(launcher="local", learner_gpus=None) == run.config()


def test_fields_of_the_cluster_and_of_the_run_come_before_those_of_the_run():
    written(learning_rate=1e-3, actors=4)
    text = wb.recipe("slurm", run="pong-1", learning_rate=2e-3, actors=100, hours=3, learner_gpus=0, name="other")
    again = launched(text)
    assert (again.value("learning_rate"), again.actors, again.learner_gpus) == (2e-3, 100, None)
    assert "#SBATCH --time=3:00:00" in text and "--job-name=other" in text and "#SBATCH --nodes=7\n" in text
    assert "# Made by: workbench recipe slurm pong-1." in text


def test_the_machines_fit_the_run():
    written(learners=4, actors=40, batch_size=64, learner_cpus=10.0, learner_memory_gb=50.0, actor_cpus=3.0)
    documents = {one["kind"]: one for one in yaml.safe_load_all(wb.recipe(
        "kuberay-cluster", run="pong-1", learners_per_machine=2))}
    cluster = documents["RayCluster"]["spec"]
    learners, actors = cluster["workerGroupSpecs"]
    assert learners["replicas"] == 1 and actors["replicas"] == 8  # 5 actors of 3 cores on 16
    (head,) = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    assert head["resources"]["requests"] == {"cpu": "21", "memory": "100Gi"}
    assert head["resources"]["limits"]["nvidia.com/gpu"] == "2"


def test_a_run_on_a_cpu_gets_machines_without_accelerators():
    written(device="cpu")
    assert "gpu" not in wb.recipe("slurm", run="pong-1").replace("--num-gpus=0", "")


@pytest.mark.parametrize(("device", "gpus"), [("auto", 0), ("cuda", 1)])
def test_a_run_that_reserves_no_gpu_gets_machines_with_one_only_where_it_uses_one_all_the_same(device, gpus):
    run = written(device=device, learner_gpus=0.0)
    text = wb.recipe("slurm", run="pong-1")
    assert text.count("#SBATCH --gpus-per-node=1") == gpus
    assert launched(text) == run.config().replaced(launcher="ray")


def test_the_name_becomes_one_that_kubernetes_takes():
    written("Pong_7.best")
    assert yaml.safe_load(wb.recipe("ray-cluster", run="Pong_7.best"))["cluster_name"] == "pong-7-best"
    written("7")
    assert yaml.safe_load(wb.recipe("ray-cluster", run="7"))["cluster_name"] == "run-7"


class Own:
    """An environment that is never made here."""


def test_what_a_command_line_cannot_name_is_refused(tmp_path):
    written("own", Own)
    with pytest.raises(InvalidInput, match=r"own has code typed in a notebook \(environment\).*wb.launch"):
        wb.recipe("slurm", run="own")
    written("network", network=lambda spec: None)
    with pytest.raises(InvalidInput, match=r"network has code typed in a notebook \(network\)"):
        wb.recipe("slurm", run="network")
    config = RunConfig.build("ALE/Pong-v5", opponent=str(tmp_path))
    rundir.create("league", new_record(config, parent=None, code={}, preset=None))
    with pytest.raises(InvalidInput, match="The opponent of league is a checkpoint of this machine"):
        wb.recipe("slurm", run="league")
    assert "--opponent /shared/one" in wb.recipe("slurm", run="league", opponent="/shared/one")
    written("tpu", device="tpu")
    with pytest.raises(InvalidInput, match="tpu has device='tpu', and these machines have GPUs or none"):
        wb.recipe("slurm", run="tpu")
    with pytest.raises(InvalidInput, match="learns by vtrace"):
        wb.recipe("slurm", run="tpu", algorithm="ppo", device="auto")
    with pytest.raises(RunNotFound, match="Did you mean 'league'"):
        wb.recipe("slurm", run="leage")


def test_a_live_run_is_not_started_twice_from_its_copy():
    run = written(storage="s3://bucket/runs")
    with lock.held(lock.of_supervisor(run), wait_s=1.0):
        with pytest.raises(InvalidInput, match="pong-1 is alive, and the recipe would go on with its copy"):
            wb.recipe("sky", run="pong-1")
        assert "--name pong-2 " in wb.recipe("sky", run="pong-1", name="pong-2")
    assert 'wb.resume("s3://bucket/runs/pong-1", launcher="ray"' in wb.recipe("sky", run="pong-1")


def test_a_recipe_says_that_its_run_does_not_begin_with_the_checkpoint_of_the_other(tmp_path):
    written(parent=rundir.parent_of(tmp_path, take="weights"))
    assert "That began with a checkpoint of another run; this one does not." in wb.recipe("slurm", run="pong-1")


@pytest.mark.parametrize(("fields", "says"), [
    ({"ports": "7000"}, "ports='7000' has 1 where one machine may need 2"),
    ({"ports": "10000-10100"}, "has ports that Ray itself uses, 10001 to 19999"),
    ({"ports": "low"}, "ports='low' is no port"),
    ({"storage": "s3://a b"}, "storage='s3://a b' does not fit"),
    ({"learning_rate": -1.0}, "learning_rate=-1.0 is out of bounds"),
    ({"spot": "aws"}, "a spot machine goes with all that it has written"),
    ({"learners": 2}, "SkyPilot's machines share no folder"),
])
def test_what_would_not_work_there_is_refused(fields, says):
    with pytest.raises(OutOfBounds, match=re.escape(says)):
        wb.recipe("sky", **fields)


def test_the_command_line_takes_a_run(capsys):
    written(learning_rate=1e-3)
    assert commands.run(["recipe", "slurm", "pong-1", "actors=8", "max_hours=2"]) == 0
    assert capsys.readouterr().out == wb.recipe("slurm", run="pong-1", actors=8, max_hours=2.0)
    assert commands.run(["recipe", "slurm", "pong-2"]) == 2
    assert "Did you mean 'pong-1'" in capsys.readouterr().err
    assert commands.run(["recipe", "slurm", "pong-1", "learning_rat=1"]) == 2
    assert "Did you mean 'learning_rate'" in capsys.readouterr().err
    assert commands.run(["recipe", "slurm", "pong-1", "pong-3"]) == 2
    with pytest.raises(UnknownName, match="Did you mean 'learning_rate'"):
        wb.recipe("slurm", learning_rat=1.0)

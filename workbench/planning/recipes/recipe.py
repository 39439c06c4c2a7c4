"""`recipe()`: a Ray cluster YAML, KubeRay's RayCluster and RayJob, a Slurm script and a SkyPilot task, from one
description."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from workbench import rundir
from workbench.config import RunConfig
from workbench.config.settings import settings
from workbench.errors import InvalidInput, OutOfBounds, UnknownName, checked_arguments
from workbench.planning import Plan
from workbench.planning.recipes import of_run
from workbench.planning.recipes.cluster import Cluster
from workbench.planning.recipes.placeholders import filled
from workbench.rundir import OfRun

# The path in launchers/ of each kind, by the name of its template.
KINDS = {
    "ray-cluster": "ray/cluster.yaml",
    "kuberay-cluster": "kuberay/cluster.yaml",
    "kuberay-job": "kuberay/job.yaml",
    "slurm": "slurm/train.sbatch",
    "sky": "sky/task.yaml",
}
_CPU_ONLY = ("cpu-core",)


@checked_arguments(kind="Give 'ray-cluster', 'kuberay-cluster', 'kuberay-job', 'slurm' or 'sky'.")
def recipe(kind: str, *, run: str | Path | OfRun | None = None, plan: Plan | None = None, **fields: Any) -> str:
    """The text of a file that starts a cluster, and a run on it.

    Args:
        kind: ray-cluster (`ray up`, machines with SSH), kuberay-cluster or kuberay-job (`kubectl apply`), slurm
            (`sbatch`), or sky (`sky launch`, `sky jobs launch`).
        run: a run of this machine, live or ended, by its handle, name or directory. Environment, algorithm and all
            that its configuration changes now are taken from it, and the machines fit it. The recipe's run begins
            anew, or goes on from the copy in `storage` if there is one of its name.
        plan: whose actors, learners and accelerators to take where `fields` say nothing else.
        fields: of `Cluster`, such as actors=128, learner_gpus=0, home="/nfs/workbench"; and of the run, such as
            learning_rate=3e-4. learner_gpus, learner_cpus, actor_cpus and the memories are those of a machine.

    Raises UnknownName, OutOfBounds, RunNotFound, and InvalidInput for a run with code typed in a notebook, with an
    opponent or with demonstrations, which a command line cannot name.
    """
    if kind not in KINDS:
        raise UnknownName.among("recipe", kind, KINDS)
    if run is not None and plan is not None:
        raise InvalidInput("Give run= or plan=: both say which actors and learners to take.")
    changes = {name: value for name, value in fields.items() if name not in settings(Cluster)}
    machines = {name: value for name, value in fields.items() if name not in changes}
    if run is not None:
        cluster, config = _of_run(rundir.find(run), machines, changes)
    else:
        cluster = Cluster(**{**(_planned(plan, machines) if plan else {}), **machines})
        config = _new(cluster, changes)
    if kind == "sky" and cluster.learner_machines > 1:
        raise OutOfBounds(f"SkyPilot's machines share no folder, which learners={cluster.learners} on several need. "
                          f"Put all on one: learners_per_machine={cluster.learners}.")
    if kind == "sky" and cluster.spot and not cluster.storage:
        raise OutOfBounds(f"spot={cluster.spot!r}: a spot machine goes with all that it has written. Say where the run "
                          "keeps a copy: storage='s3://bucket/runs'.")
    text = resources.files("workbench.planning.recipes").joinpath(f"{kind}.txt").read_text(encoding="utf-8")
    made = filled(text, kind, cluster, config, preset=None if run is None else "none")
    return made if run is None else _with_source(made, rundir.find(run), kind)


def _of_run(directory: rundir.RunDirectory, machines: dict[str, Any], changes: dict[str, Any]
            ) -> tuple[Cluster, RunConfig]:
    """The cluster and the configuration of a run that is as the one in `directory`, but for the fields given."""
    of_both = {name: value for name, value in machines.items() if name in (*of_run.SHARED, "environment", "algorithm")}
    config = of_run.config_of(directory, {**of_both, **changes})
    fitting = of_run.machines_for(config, machines)
    cluster = Cluster(**{"name": of_run.name_of(directory), **fitting, **machines})
    of_run.check_moves(directory, cluster)
    return cluster, config


def _new(cluster: Cluster, changes: dict[str, Any]) -> RunConfig:
    """The configuration of a run of the cluster's, with `changes` of its other fields. Raises UnknownName."""
    known = RunConfig.build("", algorithm=cluster.algorithm).all_settings()
    for name in changes:
        if name not in known:
            raise UnknownName.among("field of a cluster or of its run", name, {**settings(Cluster), **known})
    shared = {name: getattr(cluster, name) for name in of_run.SHARED}
    return RunConfig.build(cluster.environment, algorithm=cluster.algorithm, **shared, **changes)


def _with_source(text: str, directory: rundir.RunDirectory, kind: str) -> str:
    """The text, which says of which run it was made."""
    parent = directory.read().get("parent")
    begun = " That began with a checkpoint of another run; this one does not." if parent else ""
    made = f"# Made by: workbench recipe {kind}"
    head, mark, rest = text.partition(made)
    line, _, rest = rest.partition("\n")
    return f"{head}{mark} {directory.name}{line.rstrip('.')}.{begun}\n{rest}" if mark else text


def _planned(plan: Plan, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a cluster for a plan, as far as they follow from the other `fields`."""
    cpus = int(fields.get("actor_cpus", Cluster.actor_cpus))
    machines = int(fields.get("actor_machines", -(-plan.cores // cpus)))
    together = int(fields.get("learners_per_machine", 1))
    accelerators, cores = (number // plan.learners * together for number in (plan.accelerators, plan.learner_cores))
    on_cores = plan.accelerator in _CPU_ONLY
    return {
        "environment": plan.environment, "algorithm": plan.algorithm, "actors": plan.cores,
        "groups_per_actor": plan.groups,
        "envs_per_actor": plan.groups * plan.group_size, "learners": plan.learners, "batch_size": plan.batch_size,
        "unroll_length": plan.unroll_length, "learner_gpus": 0 if on_cores else accelerators,
        "learner_cpus": 1 + cores + (accelerators if on_cores else 0), "actor_machines": machines,
        "most_actor_machines": max(machines, int(fields.get("most_actor_machines", machines))),
    }

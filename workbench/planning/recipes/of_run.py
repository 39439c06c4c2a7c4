"""What a recipe takes from a run of this machine: its configuration as it is now, and machines that it fits on."""

from __future__ import annotations

import math
import re
from typing import Any

from workbench.config import RunConfig
from workbench.errors import InvalidInput
from workbench.planning.recipes.cluster import NO_TEXT_IN_YAML, Cluster
from workbench.rundir import RunDirectory, lock

SHARED = ("actors", "envs_per_actor", "groups_per_actor", "learners", "batch_size", "unroll_length", "ports", "spot",
          "storage")  # fields of a run that mean the same in a `Cluster`


def config_of(directory: RunDirectory, changes: dict[str, Any]) -> RunConfig:
    """The configuration of a run as it is now, with `changes` of its fields.

    Raises InvalidInput for a run that no command line can start, RunNotFound, UnknownName and OutOfBounds.
    """
    _check_nameable(directory)
    algorithm = directory.config().algorithm
    if changes.get("algorithm", algorithm) != algorithm:
        raise InvalidInput(f"{directory.name} learns by {algorithm}, whose fields another algorithm lacks.")
    config = directory.config().replaced(**changes)
    if config.opponent is not None and "opponent" not in changes:
        raise InvalidInput(f"The opponent of {directory.name} is a checkpoint of this machine, {config.opponent}. "
                           "Copy it to the machines' shared folder and give that: opponent=/shared/... (or none).")
    if config.device in ("xla", "tpu"):
        raise InvalidInput(f"{directory.name} has device={config.device!r}, and these machines have GPUs or none. Give "
                           "device=auto.")
    return config


def _check_nameable(directory: RunDirectory) -> None:
    """Raises InvalidInput for a run with code or data that only its own directory has."""
    config = directory.config()
    typed = [kind for kind, own in directory.read().get("code", {}).items() if own]
    typed += [f"wrappers {config.wrappers}"] if config.wrappers else []
    if typed:
        raise InvalidInput(
            f"{directory.name} has code typed in a notebook ({', '.join(typed)}), which a command line "
            "cannot name. Make a cluster that stays (ray-cluster, kuberay-cluster) and start the run from a notebook "
            "on its head, which sends the code: wb.launch(..., launcher='ray'). An environment in a package that the "
            "machines install has a name: 'package:Name-v0'.")
    if config.imitates:
        raise InvalidInput(f"{directory.name} learns from demonstrations that lie in its own directory. Start such a "
                           "run from a notebook on the cluster's head: wb.launch(..., demonstrations=[...]).")


def machines_for(config: RunConfig, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a `Cluster` on which the run fits, as far as `fields` leave them open."""
    together = int(fields.get("learners_per_machine", Cluster.learners_per_machine))
    cores = int(fields.get("actor_cpus", max(Cluster.actor_cpus, math.ceil(config.actor_cpus))))
    on_each = max(1, int(cores // max(1.0, config.actor_cpus)))
    machines = int(fields.get("actor_machines", -(-config.actors // on_each)))
    uses_none = config.device == "cpu" or (config.device == "auto" and config.learner_gpus == 0)
    gpus = 0 if uses_none else max(together, math.ceil((config.learner_gpus or 1) * together))
    return {
        **{name: config.value(name) for name in SHARED}, "environment": config.environment,
        "algorithm": config.algorithm, "learner_gpus": gpus, "actor_cpus": cores,
        "actor_machines": machines,
        "learner_cpus": max(Cluster.learner_cpus, 1 + math.ceil(config.learner_cpus * together)),
        "learner_memory_gb": max(Cluster.learner_memory_gb, math.ceil(config.learner_memory_gb * together)),
        "actor_memory_gb": max(Cluster.actor_memory_gb, math.ceil(config.actor_memory_gb * on_each)),
        "most_actor_machines": max(machines, int(fields.get("most_actor_machines", machines))),
    }


def check_moves(directory: RunDirectory, cluster: Cluster) -> None:
    """Raises InvalidInput if the recipe would go on with the copy of a run that is alive here."""
    same = cluster.name == directory.name and cluster.storage and cluster.storage == directory.config().storage
    if same and lock.is_alive(directory):
        raise InvalidInput(f"{directory.name} is alive, and the recipe would go on with its copy in {cluster.storage} "
                           "at the same time. Stop it first, or give the new run another name: name=...")


def name_of(directory: RunDirectory) -> str:
    """The run's name, in the letters that Kubernetes takes."""
    name = re.sub(r"[^a-z0-9]+", "-", directory.name.lower()).strip("-")
    if not re.fullmatch(r"[a-z].*", name) or NO_TEXT_IN_YAML.fullmatch(name):
        name = f"run-{name}"
    return name[:40].rstrip("-")

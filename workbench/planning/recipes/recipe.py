"""`recipe()`: a Ray cluster YAML, KubeRay's RayCluster and RayJob, and a Slurm script, from one description."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import Any

from workbench.config import DEFAULT
from workbench.config.settings import check_known, setting, validate
from workbench.errors import OutOfBounds, UnknownName
from workbench.planning import Plan

# The path in launchers/ of each kind, by the name of its template.
KINDS = {
    "ray-cluster": "ray/cluster.yaml",
    "kuberay-cluster": "kuberay/cluster.yaml",
    "kuberay-job": "kuberay/job.yaml",
    "slurm": "slurm/train.sbatch",
}
TEXTS = {  # patterns of text fields, so that no file or shell misreads them
    "name": r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?",
    "environment": r"[A-Za-z0-9][\w./-]*",
    "algorithm": r"[a-z0-9_]+",
    "home": r"/[\w./-]*",
    "wheels": r"/[\w./-]*",
    "image": r"\w([\w./:@-]*\w)?",
    "ray_version": r"\d+\.\d+\.\d+",
    "head": r"\w[\w.-]*",
    "machines": r"\w[\w.-]*(,\w[\w.-]*)*",
    "user": r"\w[\w.-]*",
    "storage_class": r"(\w[\w.-]*)?",
}
NO_TEXT_IN_YAML = re.compile(  # YAML reads these as null, a switch, a number, a time or a date
    r"(?i)null|true|false|yes|no|on|off|y|n|0x[\da-f_]+|0b[01_]+|[\d_]+(\.[\d_]*)?(e[-+]?\d+)?|\d[\d_]*(:\d+)+(\.\d*)?"
    r"|\d{4}(-\d\d?){2}")
_CPU_ONLY = ("cpu-core",)


@dataclass(frozen=True)
class Cluster:
    """Machines, and the run that is started on them."""

    name: str = setting("workbench", "of the cluster and of its run")
    environment: str = setting("ALE/Pong-v5", "that the run learns")
    algorithm: str = setting(DEFAULT, "algorithm")
    actors: int = setting(64, "actors, one on a core", unit="processes", low=1, high=4096)
    envs_per_actor: int = setting(32, "environments of each actor", unit="environments", low=1, high=4096)
    groups_per_actor: int = setting(2, "groups in flight per actor", unit="groups", low=1, high=64)
    learners: int = setting(1, "learners", unit="processes", low=1, high=1024)
    learners_per_machine: int = setting(1, "learners on a machine", unit="processes", low=1, high=64)
    batch_size: int = setting(32, "unrolls per update, of all learners together", unit="unrolls", low=1, high=65_536)
    unroll_length: int = setting(20, "steps of an unroll", unit="steps", low=1, high=10_000)
    learner_gpus: int = setting(1, "accelerators of each learner's machine", unit="GPUs", low=0, high=16)
    learner_cpus: int = setting(8, "cores of each learner's machine", unit="cores", low=1, high=1024)
    learner_memory_gb: int = setting(32, "memory of each learner's machine", unit="GiB", low=1, high=100_000)
    actor_machines: int = setting(4, "machines that actors run on", unit="machines", low=1, high=10_000)
    most_actor_machines: int = setting(8, "most of them that KubeRay may add as actors are added", unit="machines",
                                       low=1, high=10_000)
    actor_cpus: int = setting(16, "cores of each of them", unit="cores", low=1, high=1024)
    actor_memory_gb: int = setting(32, "memory of each of them", unit="GiB", low=1, high=100_000)
    home: str = setting("/shared/workbench", "folder that the head, the learners and the notebook share")
    wheels: str = setting("/shared/wheels", "folder with this package's wheel, where machines install it themselves")
    image: str = setting("registry.example/rl-workbench:0.1.0", "container with this package and its extra ray")
    storage_gb: int = setting(100, "of the shared folder on Kubernetes", unit="GiB", low=1, high=1_000_000)
    storage_class: str = setting("", "Kubernetes' class of it, ReadWriteMany; empty: the default one")
    ray_version: str = setting("2.60.0", "of Ray in the container")
    head: str = setting("learner-1.example", "host of the first learner, for ray-cluster")
    machines: str = setting("actor-1.example,actor-2.example,actor-3.example,actor-4.example",
                            "hosts of all others, for ray-cluster, with commas between")
    user: str = setting("ubuntu", "that ray-cluster logs in as")
    hours: int = setting(24, "after which Slurm ends the job", unit="h", low=1, high=10_000)

    def __post_init__(self) -> None:
        validate(self)
        for name, pattern in TEXTS.items():
            value = getattr(self, name)
            if not re.fullmatch(pattern, value, re.ASCII):
                raise OutOfBounds(f"{name}={value!r} does not fit the allowed pattern: {pattern}")
            if name != "ray_version" and any(NO_TEXT_IN_YAML.fullmatch(word) for word in value.split(",")):
                raise OutOfBounds(f"{name}={value!r}: YAML reads something else than a text there. Give one that is no "
                                  "number, no date, and no word such as null, yes or on.")
        if self.most_actor_machines < self.actor_machines:
            raise OutOfBounds(f"most_actor_machines={self.most_actor_machines} is less than "
                              f"actor_machines={self.actor_machines}.")
        if (room := self.most_actor_machines * self.actor_cpus) < self.actors:
            raise OutOfBounds(f"{self.actors} actors take a core each; most_actor_machines={self.most_actor_machines} "
                              f"with actor_cpus={self.actor_cpus} have {room}.")
        if 0 < self.learner_gpus < self.learners_per_machine:
            raise OutOfBounds(f"learners_per_machine={self.learners_per_machine} need an accelerator each; "
                              f"learner_gpus={self.learner_gpus}.")
        if self.batch_size % self.learners:
            raise OutOfBounds(f"batch_size={self.batch_size} does not divide by learners={self.learners}.")

    @property
    def learner_machines(self) -> int:
        """Machines that learners run on; the first is Ray's head."""
        return -(-self.learners // self.learners_per_machine)


def recipe(kind: str, *, plan: Plan | None = None, **fields: Any) -> str:
    """The text of a file that starts a cluster.

    Args:
        kind: ray-cluster (`ray up`, machines with SSH), kuberay-cluster or kuberay-job (`kubectl apply`), or slurm
            (`sbatch`).
        plan: whose actors, learners and accelerators to take where `fields` say nothing else.
        fields: of `Cluster`, such as actors=128, learner_gpus=0, home="/nfs/workbench".

    Raises UnknownName or OutOfBounds.
    """
    if kind not in KINDS:
        raise UnknownName.among("recipe", kind, KINDS)
    check_known(Cluster, fields, "field of a cluster")
    cluster = Cluster(**{**(_planned(plan, fields) if plan else {}), **fields})
    text = resources.files("workbench.planning.recipes").joinpath(f"{kind}.txt").read_text(encoding="utf-8")
    return _without_empty(Template(text).substitute(_words(kind, cluster)))


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


def _words(kind: str, cluster: Cluster) -> dict[str, Any]:
    """The values of a template's placeholders."""
    hosts = [host for host in cluster.machines.split(",") if host]
    gpu = f'nvidia.com/gpu: "{cluster.learner_gpus}"' if cluster.learner_gpus else _EMPTY
    return {
        **dataclasses.asdict(cluster), "command": _command(kind, cluster), "wheel": _wheel(),
        "learner_machines": cluster.learner_machines, "more_learners": cluster.learner_machines - 1,
        "nodes": cluster.learner_machines + cluster.actor_machines,
        "others": len(hosts), "hosts": ", ".join(hosts), "gpu_limit": gpu,
        "gpu_line": f"#SBATCH --gpus-per-node={cluster.learner_gpus}" if cluster.learner_gpus else _EMPTY,
        "class_line": f"storageClassName: {cluster.storage_class}" if cluster.storage_class else _EMPTY,
    }


_EMPTY = "<leave this line out>"


def _without_empty(text: str) -> str:
    """`text` without the lines that hold `_EMPTY`."""
    return "".join(line for line in text.splitlines(keepends=True) if _EMPTY not in line)


def _wheel() -> str:
    """The file that `python -m build --wheel` makes of this version."""
    from workbench import __version__  # the package's own names are above this module

    return f"rl_workbench-{__version__}-py3-none-any.whl"


def _command(kind: str, cluster: Cluster) -> str:
    """The shell words that start the run, on several lines, indented or commented as in their template."""
    whole = kind in ("slurm", "kuberay-job")
    words = [f"workbench {'train' if whole else 'launch'} {cluster.environment} --name {cluster.name} "
             f"--algorithm {cluster.algorithm} --launcher ray --address auto",
             f"--actors {cluster.actors} --envs-per-actor {cluster.envs_per_actor} "
             f"--groups-per-actor {cluster.groups_per_actor}",
             f"--learners {cluster.learners} --batch-size {cluster.batch_size} --unroll-length {cluster.unroll_length}"]
    return f" \\\n{'      ' if whole else '#       '}".join(words)

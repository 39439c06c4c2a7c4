"""The machines of a recipe and the run on them: fields, and the texts that no file and no shell misreads."""

from __future__ import annotations

import re
from dataclasses import dataclass

from workbench.config import DEFAULT, RunConfig
from workbench.config.ports import ANY, ports_of
from workbench.config.settings import setting, settings, validate
from workbench.errors import OutOfBounds

TEXTS = {  # patterns of text fields, so that no file or shell misreads them
    "name": r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?",
    "environment": r"[A-Za-z0-9][\w./:-]*",
    "algorithm": r"[a-z0-9_]+",
    "home": r"/[\w./-]*",
    "wheels": r"/[\w./-]*",
    "image": r"\w([\w./:@-]*\w)?",
    "ray_version": r"\d+\.\d+\.\d+",
    "head": r"\w[\w.-]*",
    "machines": r"\w[\w.-]*(,\w[\w.-]*)*",
    "user": r"\w[\w.-]*",
    "storage_class": r"(\w[\w.-]*)?",
    "storage": r"(([a-z][a-z0-9+.-]*:/)?/[\w./@:=+-]*\w)?",
    "gpu": r"[A-Za-z][\w.-]*",
}
NO_TEXT_IN_YAML = re.compile(  # YAML reads these as null, a switch, a number, a time or a date
    r"(?i)null|true|false|yes|no|on|off|y|n|0x[\da-f_]+|0b[01_]+|[\d_]+(\.[\d_]*)?(e[-+]?\d+)?|\d[\d_]*(:\d+)+(\.\d*)?"
    r"|\d{4}(-\d\d?){2}")
_RAYS_PORTS = (range(6379, 6380), range(8265, 8266), range(10_001, 20_000))  # GCS, dashboard, client and workers


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
    gpu: str = setting("L4", "SkyPilot's name of the accelerator")
    sky_cpus: int = setting(96, "cores of each of SkyPilot's machines, which are all alike", unit="cores", low=1,
                            high=1024)
    ports: str = setting("", "ports on which the run listens, such as 7000-7015; empty: any free ones")
    storage: str = setting("", "URL of a folder that keeps a copy of the run, from which it goes on elsewhere")
    spot: str = setting("", "cloud whose spot machines the run lives on", choices=settings(RunConfig)["spot"].choices)
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
        self._check_ports()

    def _check_ports(self) -> None:
        """Raises OutOfBounds for a port that Ray itself may take."""
        ports = ports_of(self.ports)
        if taken := [rays for rays in _RAYS_PORTS if ports != ANY and ports[0] < rays.stop and rays.start <= ports[-1]]:
            raise OutOfBounds(f"ports={self.ports!r} has ports that Ray itself uses, {taken[0].start} to "
                              f"{taken[0].stop - 1}. Choose others, such as '7000-7015'.")

    @property
    def learner_machines(self) -> int:
        """Machines that learners run on; the first is Ray's head."""
        return -(-self.learners // self.learners_per_machine)

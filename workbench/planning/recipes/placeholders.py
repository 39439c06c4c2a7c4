"""What stands at the placeholders of a recipe's template."""

from __future__ import annotations

import dataclasses
from string import Template
from typing import Any

from workbench.config import RunConfig
from workbench.config.ports import ports_of
from workbench.copies.url_storage import PACKAGES
from workbench.planning.recipes import run_command
from workbench.planning.recipes.cluster import Cluster

WHOLE = ("kuberay-job", "slurm", "sky")  # start the run, too, and end with it
_EMPTY = "<leave this line out>"
_POLICY = """---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: $name
spec:
  podSelector:
    matchLabels: {workbench-run: $name}
  policyTypes: [Ingress]
  ingress:
    - from:  # its own pods: all ports, since gloo, NCCL and Ray choose theirs
        - podSelector: {matchLabels: {workbench-run: $name}}
    - from:  # notebooks in other pods of the namespace: Ray's client, and the run
        - podSelector: {}
      ports:
        - {protocol: TCP, port: 10001}
        - {protocol: TCP, port: $first_port, endPort: $last_port}
    - from:  # KubeRay's operator asks Ray's dashboard
        - namespaceSelector: {}
      ports:
        - {protocol: TCP, port: 8265}
"""


def filled(text: str, kind: str, cluster: Cluster, config: RunConfig, *, preset: str | None) -> str:
    """The template's text for that kind, without the lines for which there is nothing. `preset`: of the command."""
    lines = run_command.words(cluster, config, waits=kind in WHOLE, preset=preset)
    command = f" \\\n{'      ' if kind in WHOLE else '#       '}".join(lines)
    words = {
        **dataclasses.asdict(cluster), **_machines(cluster), **_around(cluster), "command": command, "wheel": _wheel(),
        "start": run_command.starts(cluster, command, replace=kind == "kuberay-job"),
        "goes_on": run_command.goes_on(cluster.name),
    }
    made = Template(text).substitute(words)
    return "".join(line for line in made.splitlines(keepends=True) if _EMPTY not in line)


def _machines(cluster: Cluster) -> dict[str, Any]:
    """Numbers of machines, and lines about their accelerators."""
    hosts = [host for host in cluster.machines.split(",") if host]
    gpus = cluster.learner_gpus
    return {
        "learner_machines": cluster.learner_machines, "more_learners": cluster.learner_machines - 1,
        "nodes": cluster.learner_machines + cluster.actor_machines, "others": len(hosts), "hosts": ", ".join(hosts),
        "gpu_limit": f'nvidia.com/gpu: "{gpus}"' if gpus else _EMPTY,
        "gpu_line": f"#SBATCH --gpus-per-node={gpus}" if gpus else _EMPTY,
        "accelerators_line": f"accelerators: {cluster.gpu}:{gpus}" if gpus else _EMPTY,
        "sky_nodes": -(-(cluster.learner_cpus + cluster.actors) // cluster.sky_cpus),
    }


def _around(cluster: Cluster) -> dict[str, Any]:
    """Lines about storage, spot machines and ports."""
    ports = ports_of(cluster.ports)
    words = {"name": cluster.name, "first_port": ports[0], "last_port": ports[-1]}
    return {
        "storage_package": f" {package}" if (package := PACKAGES.get(cluster.storage.partition("://")[0])) else "",
        "class_line": f"storageClassName: {cluster.storage_class}" if cluster.storage_class else _EMPTY,
        "infra_line": f"infra: {cluster.spot}" if cluster.spot else _EMPTY,
        "spot_line": "use_spot: true" if cluster.spot else _EMPTY,
        "ports_line": f'ports: ["{cluster.ports}"]' if cluster.ports else _EMPTY,
        "ports_comment": (f"# The nodes' firewall lets TCP {cluster.ports} through, for the run. Between learners, and "
                          "for Ray, more is needed:") if cluster.ports else _EMPTY,
        "ports_more": ("# 10002-19999 for Ray's workers, 20000-39999 for its head, and any for the rest between the "
                       "nodes of the job.") if cluster.ports else _EMPTY,
        "ports_check": (f"if ((${{address##*:}} >= {ports[0]} && ${{address##*:}} <= {ports[-1]})); then "
                        f"echo \"Ray's port ${{address##*:}} is one of ports={cluster.ports}.\" >&2; exit 1; fi"
                        ) if cluster.ports else _EMPTY,
        "policy": Template(_POLICY).substitute(words).rstrip() if cluster.ports else _EMPTY,
        "port_line": (f"- {{containerPort: {ports[0]}, name: run}}  # the first of {cluster.ports}" if cluster.ports
                      else _EMPTY),
    }


def _wheel() -> str:
    """The file that `python -m build --wheel` makes of this version."""
    from workbench import __version__  # the package's own names are above this module

    return f"rl_workbench-{__version__}-py3-none-any.whl"

"""Reads a recipe on standard input with a scheduler's own package; build/recipes has these, see `make test-recipes`.

    build/recipes/bin/python tests/planning/schedulers.py sky|kubernetes

Prints, as JSON, what the scheduler read; ends with an error where it refuses it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

import yaml


def sky(text: str) -> dict[str, Any]:
    """SkyPilot's task; what it would copy from this machine has a folder that is there.

    Whether a cloud has such machines stays open: SkyPilot downloads its catalogue for that.
    """
    from sky import Task

    with tempfile.TemporaryDirectory() as folder:
        document = yaml.safe_load(text)
        document["file_mounts"] = dict.fromkeys(document["file_mounts"], folder)
        task = Task.from_yaml_config(document, secrets_overrides=[("RAY_AUTH_TOKEN", "00")])
    (resources,) = task.resources
    return {"name": task.name, "nodes": task.num_nodes, "cpus": resources.cpus, "memory": resources.memory,
            "accelerators": resources.accelerators, "spot": resources.use_spot, "ports": resources.ports,
            "cloud": str(resources.cloud), "run": task.run, "setup": task.setup}


def kubernetes(text: str) -> list[str]:
    """Kinds of the objects that are Kubernetes' own, and of the pods in the others, against its strict schemas."""
    import kubernetes_validate

    seen = []
    for document in yaml.safe_load_all(text):
        for one in [document] if "ray.io" not in document["apiVersion"] else pods(document):
            kubernetes_validate.validate(one, "1.37", strict=True)
            seen.append(one["kind"])
    return seen


def pods(part: Any) -> list[dict[str, Any]]:
    """The pods that the templates in a document of KubeRay's make."""
    if isinstance(part, list):
        return [pod for each in part for pod in pods(each)]
    if not isinstance(part, dict):
        return []
    own = [{"apiVersion": "v1", "kind": "Pod", **part["template"]}] if "template" in part else []
    return own + [pod for each in part.values() for pod in pods(each)]


if __name__ == "__main__":
    print(json.dumps({"sky": sky, "kubernetes": kubernetes}[sys.argv[1]](sys.stdin.read())))

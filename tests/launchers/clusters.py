"""A real Ray cluster of several nodes on this machine, each with its own processes, small and quiet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import pytest

OBJECT_STORE = 80 * 2**20  # bytes; Ray's least is 75 MiB
_TRIES = 4
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
          "RAY_agent_register_timeout_ms": "60000"}


def add_node(cluster: Any, cpus: int, **more: Any) -> Any:
    """A further node. Tried again where its agents took longer than Ray waits for them, as on busy cores they do."""
    for left in reversed(range(_TRIES)):
        before = set(psutil.Process().children())
        try:
            return cluster.add_node(num_cpus=cpus, object_store_memory=OBJECT_STORE, **more)
        except Exception as error:
            _kill_all(set(psutil.Process().children()) - before)
            if not left or "timed out during startup" not in str(error):
                raise
    raise AssertionError("unreachable")


def _kill_all(processes: set[psutil.Process]) -> None:
    """Kill what is left of these children, if they are Ray's."""
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            if "ray" in " ".join(one.cmdline()):
                one.kill()


@contextmanager
def ray_cluster(*cpus: int, **head: Any) -> Iterator[Any]:
    """A `ray.cluster_utils.Cluster` with a node for each of `cpus`, the first one its head; all end with the block."""
    pytest.importorskip("ray")
    pytest.importorskip("cryptography")
    from ray.cluster_utils import Cluster

    before = {name: os.environ.get(name) for name in _QUIET}
    os.environ.update(_QUIET)
    others = set(psutil.Process().children())
    made = Cluster()
    try:
        for number, count in enumerate(cpus):
            add_node(made, count, **({} if number else {"include_dashboard": False, **head}))
        yield made
    finally:
        made.shutdown()
        _kill_all(set(psutil.Process().children()) - others)  # of a node that did not come up in the test's time
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})

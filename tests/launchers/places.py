"""How the tests of the launchers' contract get each place: a function by the launcher's name that yields its `Offer`.

A place that cannot be had here skips by name. Whatever it starts it ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.launchers.clusters import ray_cluster


@dataclass(frozen=True)
class Offer:
    """What the suite may expect.

    Attributes:
        fields: of `wb.launch`, with `launcher`.
        kills: whether a process of the run can be killed.
        logs: logs that the run directory has while the run lives, by name.
    """

    fields: dict[str, Any]
    kills: bool = True
    logs: set[str] = field(default_factory=lambda: {"supervisor", "learner", "actor-0"})


def local() -> Iterator[Offer]:
    yield Offer({"launcher": "local"})


def inline() -> Iterator[Offer]:
    yield Offer({"launcher": "inline"})


def colab() -> Iterator[Offer]:
    with tempfile.TemporaryDirectory(prefix="wb-drive-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_MIRROR", folder)
        yield Offer({"launcher": "colab"})


def ray() -> Iterator[Offer]:
    with ray_cluster(2, 2) as cluster:
        yield Offer({"launcher": "ray", "address": cluster.address, "actor_cpus": 0.5})


PLACES: list[Callable[[], Iterator[Offer]]] = [local, ray, inline, colab]

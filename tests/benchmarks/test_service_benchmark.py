"""Benchmarks that stand on the learner's inner pieces still measure something."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """benchmarks/service.py."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("service")
    for name in ("service", "service_sides", "throughput"):
        sys.modules.pop(name, None)


def test_the_whole_service_answers_free_environments(service):
    whole = list(service.WAYS.values())[-1]
    found = service.measure(whole, size=2, flight=2, actors=1, seconds=0.5)
    assert found.messages_per_second > 0
    assert 0 < found.p50_ms <= found.p95_ms <= found.p99_ms


def test_both_sides_have_messages_of_the_same_length(service):
    sides = sys.modules["service_sides"]
    environment = sides.FreeEnvironment(3, 1, watch=type("Watch", (), {"begin": lambda self: None})())
    from workbench.wire.messages import GroupStep

    assert len(GroupStep(0, 0, environment.reset()).encode()) == len(service.request_bytes(3))

"""Whether a run's numbers go to Ray; that they arrive is shown by `tests/launchers/test_ray_dashboard.py`."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from workbench.metrics.status import RunStatus
from workbench.supervisor.machines import ray_metrics


@pytest.mark.parametrize("nodes", [
    [{"NodeID": "here", "MetricsExportPort": -1}], [{"NodeID": "here", "MetricsExportPort": 0}], [{"NodeID": "here"}],
    [{"NodeID": "elsewhere", "MetricsExportPort": 8080}],
])
def test_without_an_agent_on_its_node_no_thread_is_started(
    monkeypatch: pytest.MonkeyPatch, nodes: list[dict[str, object]]
) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "here"))
    before = set(threading.enumerate())
    assert ray_metrics.report(lambda: RunStatus("one"), run="one") is None
    assert set(threading.enumerate()) <= before

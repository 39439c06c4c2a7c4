"""The run's main numbers as metrics of its Ray cluster, for Ray's dashboard and for Prometheus.

The agent of the supervisor's node publishes them as `ray_workbench_frames{run="pong-vtrace-1"}` and so on, while the
supervisor lives. Without an agent (it needs ray[default]) there is no thread and nothing is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from workbench.metrics.status import RunStatus

_EVERY_S = 5.0
_NUMBERS = {  # a field of the status: what it is
    "frames": "frames so far",
    "updates": "updates so far",
    "frames_per_second": "frames per second",
    "steps_per_second": "steps per second",
    "episode_return": "mean return of the last episodes",
}


def report(status: Callable[[], RunStatus], *, run: str) -> threading.Event | None:
    """Publish the numbers of that status from now on; the event ends it. None where no agent takes them."""
    if not _has_agent():
        return None
    from ray.util.metrics import Gauge

    ended = threading.Event()
    gauges = {name: Gauge(f"workbench_{name}", description=words, tag_keys=("run",)).set_default_tags({"run": run})
              for name, words in _NUMBERS.items()}

    def publish() -> None:
        while not ended.wait(_EVERY_S):
            now = status()
            for name, gauge in gauges.items():
                gauge.set(getattr(now, name))  # None leaves the last one

    threading.Thread(target=publish, name="ray-metrics", daemon=True).start()
    return ended


def _has_agent() -> bool:
    """Whether this node publishes metrics."""
    import ray

    own = ray.get_runtime_context().get_node_id()
    with suppress(StopIteration):
        return int(next(node for node in ray.nodes() if node["NodeID"] == own).get("MetricsExportPort") or 0) > 0
    return False

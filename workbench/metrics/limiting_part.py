"""What limits a run, from the shares of time that its parts work and wait (`RunStatus.bottleneck`)."""

from __future__ import annotations

from collections.abc import Mapping


def limit(parts: Mapping[str, float]) -> str:
    """The part that most of the time passes in: "training", "environments", "inference" or "batch_wait"; "": none."""
    share = {name: parts.get(name, 0.0) for name in ("training", "environments", "inference", "batch_wait",
                                                     "queue_blocked")}
    if share["training"] >= 0.8:
        return "training"
    if share["environments"] >= 0.7:
        return "environments"
    if share["inference"] >= 0.7:
        return "inference"
    return "batch_wait" if share["batch_wait"] >= 0.5 > share["queue_blocked"] else ""

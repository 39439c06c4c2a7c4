"""Ray's own `ray` command, and its nodes in this process, for slow machines: Ray waits 30 s for a node, on any."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PATIENCE = 8  # times as long


class _SlowClock:
    """The module `time`, by whose monotonic clock a minute is a few seconds."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    @staticmethod
    def monotonic() -> float:
        return time.monotonic() / _PATIENCE


@contextmanager
def patient() -> Iterator[None]:
    """What starts nodes in this block waits longer for them."""
    from ray._private import node

    node.time = _SlowClock()
    try:
        yield
    finally:
        node.time = time


if __name__ == "__main__":
    from ray.scripts.scripts import main

    with patient():
        main()

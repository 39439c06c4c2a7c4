"""Nodes of Ray that also start on slow machines: in this process (`small`), by the `ray` command (as a program), and by
an autoscaler, whose monitor runs in this program, too.

Ray waits 30 s for a node, on any machine; and a node crashes where the agent of its dashboard says no ports within 15 s
(ray-project/ray, issue 65983). These nodes have an agent as after `pip install ray`, without a dashboard, whose ports
are none, which is known before it starts; and they are waited for longer. With ray[default] they can have the real
agent (`agent=True`), whose ports are chosen for it.
"""

from __future__ import annotations

import inspect
import runpy
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

_PATIENCE = 8  # times as long


class _SlowClock:
    """The module `time`, by whose monotonic clock a minute is a few seconds."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    @staticmethod
    def monotonic() -> float:
        return time.monotonic() / _PATIENCE


@contextmanager
def small(*, agent: bool = False) -> Iterator[None]:
    """Nodes that are started in this block. `agent`: with the agent that publishes metrics, and maybe a dashboard."""
    from ray import _raylet as names
    from ray._private import node, services

    usual = services.start_raylet

    def start_raylet(*arguments: Any, **named: Any) -> Any:
        known = inspect.signature(usual).bind(*arguments, **named).arguments
        ports = {"metrics_agent_port": names.METRICS_AGENT_PORT_NAME,
                 "metrics_export_port": names.METRICS_EXPORT_PORT_NAME,
                 "dashboard_agent_listen_port": names.DASHBOARD_AGENT_LISTEN_PORT_NAME}
        for argument, port in ports.items():
            number = _free_port(known["node_ip_address"]) if agent else -1
            names.persist_port(known["session_dir"], known["node_id"], port, number)
            if agent:
                named[argument] = number
        named["runtime_env_agent_port"] = _free_port(known["node_ip_address"])
        return usual(*arguments, **named)

    usual_process = services.start_ray_process

    def start_ray_process(command: list[str], *arguments: Any, **named: Any) -> Any:
        if len(command) > 2 and Path(command[2]).name == "monitor.py":
            command = [*command[:2], __file__, *command[2:]]
        return usual_process(command, *arguments, **named)

    without_dashboard = nullcontext() if agent else patch.dict(sys.modules, {"ray.dashboard.optional_deps": None})
    with patch.object(services, "start_raylet", start_raylet), patch.object(node, "time", _SlowClock()), \
            patch.object(services, "start_ray_process", start_ray_process), without_dashboard:
        yield


def _free_port(address: str) -> int:
    """A port at which nobody listens, below those that a kernel gives to connections: one of them could take it before
    Ray does, whose node then dies."""
    while True:
        with suppress(OSError), socket.create_server((address, 20_000 + secrets.randbelow(12_000))) as free:
            return int(free.getsockname()[1])


if __name__ == "__main__":
    with small():
        if sys.argv[1].endswith(".py"):
            sys.argv = sys.argv[1:]
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            from ray.scripts.scripts import main

            main()

"""How several learners find each other: by a store of keys and values that all of them reach.

Where the run stays on one machine, that is a file of its directory. Where the run's machines have addresses
($WORKBENCH_HOST), the first learner serves the store at its own address, on one of the run's ports, and writes the
address to that file; network file systems see a small file that is written once sooner, and more surely, than one that
all machines append to. The store has no password of its own: its keys begin with a secret made from the run's token.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psutil
import torch.distributed as dist

from workbench.config.ports import ports_of
from workbench.errors import ConnectionLost
from workbench.rundir import RunDirectory, write_atomically
from workbench.wire.endpoints import HOST

_ANSWER_S = 30.0  # for one question to the store
_POLL_S = 0.05
_SOCKET_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def open_store(run: RunDirectory, *, rank: int, size: int, ports: str, waits: Callable[[], bool]) -> Any:
    """The store of this group, or None if `waits` became false before the first learner had said where it is.

    Raises ConnectionLost where the first learner cannot listen.
    """
    if (host := os.environ.get(HOST)) is None:
        return dist.FileStore(str(run.rendezvous), size)  # type: ignore[attr-defined]
    store = _served(run, host, size, ports) if rank == 0 else _reached(run, size, waits)
    secret = hashlib.sha256(f"learners of {run.token()}".encode()).hexdigest()
    return None if store is None else dist.PrefixStore(secret, store)  # type: ignore[attr-defined]


def choose_interface(host: str | None, *, one_machine: bool) -> None:
    """Let gloo and NCCL use loopback within one machine, else the interface of `host`; a variable that is set stays.

    Left alone, both would take what the machine's name resolves to: with Debian's /etc/hosts, 127.0.1.1.
    """
    name = interface_of("127.0.0.1" if one_machine else host or "")
    for variable in _SOCKET_VARIABLES[: 1 if one_machine else 2] if name else ():
        os.environ.setdefault(variable, name)


def interface_of(address: str) -> str:
    """The network interface of this machine that has the address or host name; "" if none has."""
    with suppress(OSError):
        address = str(socket.getaddrinfo(address, None)[0][4][0]) if address else ""
    interfaces = psutil.net_if_addrs().items()
    return next((name for name, own in interfaces if any(one.address.partition("%")[0] == address for one in own)), "")


def _served(run: RunDirectory, host: str, size: int, ports: str) -> Any:
    """The store that this learner serves, at `host` alone."""
    listening = _listening(host, ports)
    port = listening.getsockname()[1]
    store = _tcp_store(host, port, size, is_master=True, master_listen_fd=listening.detach())
    write_atomically(run.rendezvous, json.dumps({"host": host, "port": port}).encode())
    return store


def _listening(host: str, ports: str) -> socket.socket:
    """A socket on the first of the ports that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports_of(ports):
        with suppress(OSError):
            return socket.create_server((host, port), family=family, backlog=1024)
    raise ConnectionLost(f"no port of {ports or 'any'} is free at {host} for the learners to find each other. Give the "
                         "run more: ports='7000-7031', for example.")


def _reached(run: RunDirectory, size: int, waits: Callable[[], bool]) -> Any:
    """The first learner's store, once it has said where that is."""
    while waits():
        with suppress(OSError, ValueError, KeyError, TypeError):
            address = json.loads(run.rendezvous.read_bytes())
            return _tcp_store(str(address["host"]), int(address["port"]), size, is_master=False)
        time.sleep(_POLL_S)
    return None


def _tcp_store(host: str, port: int, size: int, **more: Any) -> Any:
    return dist.TCPStore(  # type: ignore[attr-defined]
        host, port, size, wait_for_workers=False, timeout=timedelta(seconds=_ANSWER_S), **more)

"""Where the servers of a run listen: on a socket, and for other machines with TLS where the run has a certificate.

The launcher sets $WORKBENCH_HOST to the machine's address where other machines must reach it. A server with that
variable also listens there, on one of the run's `ports`, and publishes `endpoints/<name>.json` in the run directory. A
client on the same machine uses the socket; all others connect with TLS and accept the run's own certificate only.
A server whose socket lies outside the run directory publishes it likewise, since where that is depends on TMPDIR.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.config.ports import ports_of
from workbench.errors import AccessDenied, ConnectionLost
from workbench.rundir import RunDirectory, write_atomically
from workbench.rundir.files import own
from workbench.rundir.sockets import is_elsewhere
from workbench.wire.rpc import Endpoint, Handler, Listen, Server, StreamHandler, serve

SUPERVISOR = "supervisor"
SUPERVISOR_CALLS = ("ping", "status", "pause", "resume", "stop", "scale", "tune", "checkpoint", "restart_actor",
                    "watch", "wall", "flights")
MACHINE = "WORKBENCH_MACHINE"
HOST = "WORKBENCH_HOST"  # address of this machine for the run's other machines
_LARGEST = 2**16  # bytes of a certificate, a key, or an address


def serve_run(
    run: RunDirectory,
    name: str,
    *,
    calls: Mapping[str, Handler],
    streams: Mapping[str, StreamHandler] | None = None,
    threads: int = 16,
    on_flood: Callable[[str], None] = print,
) -> Server:
    """The started server of that run's "supervisor", "learner", "learner-1", ...; see `serve`.

    Raises ConnectionLost where it cannot listen.
    """
    listen, socket = _interface(run), _socket(run, name)
    server = serve(socket, run.token(), calls=calls, streams=streams, threads=threads, beyond=listen,
                   on_flood=lambda text: on_flood(f"{name}: {text}"))
    if listen is None and socket.startswith(f"unix:{run.path}/"):
        _address_file(run, name).unlink(missing_ok=True)  # of a life on another machine
    else:
        host = listen.host if listen else None
        address = {"host": host, "port": server.port, "machine": machine(), "socket": socket}
        try:
            run.endpoints.mkdir(mode=0o700, exist_ok=True)
            write_atomically(_address_file(run, name), json.dumps(address).encode())
        except OSError:  # a full disk: whoever has the same TMPDIR needs no file
            if listen is not None:
                raise
    return server


def reach(run: RunDirectory, name: str) -> Endpoint:
    """Where that server of the run is reached from here, by the address published last. Sends nothing.

    Raises AccessDenied where another user could have written the address; ConnectionLost if this is not the run's own
    directory, but a copy for an actor, and nothing is published.
    """
    address = _read(_address_file(run, name))
    if address is None and run.certificate.exists() and not run.certificate_key.exists():
        raise ConnectionLost(f"{name} of {run.name} has not published its address yet. Try again when it has started.")
    if address is None:
        return Endpoint(_socket(run, name))
    socket, is_here_alone = str(address.get("socket")), address.get("host") is None
    if address.get("machine") == machine() and socket.startswith("unix:"):
        path = Path(socket.removeprefix("unix:"))
        if is_elsewhere(run.path, path) if is_here_alone else path.exists():
            return Endpoint(socket)
    if is_here_alone:
        return Endpoint(_socket(run, name))
    try:
        return Endpoint(host_port(str(address["host"]), int(address["port"])), own(run.certificate, largest=_LARGEST))
    except AccessDenied:
        raise
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ConnectionLost(f"{name} of {run.name} listens on another machine, and its address or the run's "
                             f"certificate cannot be read here: {error}.") from None


def reaching(run: RunDirectory, name: str) -> Callable[[], Endpoint]:
    """`reach` as a function, for every call anew: a restarted server has another port, or is on another machine."""
    return lambda: reach(run, name)


def learner_name(rank: int) -> str:
    """The name of the learner of that rank, of its server and of its log."""
    return f"learner-{rank}" if rank else "learner"


def machine() -> str:
    """A name that processes share if they reach each other's sockets: of the running kernel and its network namespace.

    $WORKBENCH_MACHINE replaces it where those mislead.
    """
    if name := os.environ.get(MACHINE):
        return name
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return platform.node()


def host_port(host: str, port: int) -> str:
    """HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _interface(run: RunDirectory) -> Listen | None:
    """Where a server listens for other machines; None: nowhere."""
    host = os.environ.get(HOST)
    if not host or not run.certificate_key.exists():
        return None
    key = own(run.certificate_key, largest=_LARGEST, secret=True)
    ports = ports_of(str(run.read()["config"].get("ports", "")))
    return Listen(host, own(run.certificate, largest=_LARGEST), key, ports)


def _socket(run: RunDirectory, name: str) -> str:
    if name == SUPERVISOR:
        return run.supervisor_address
    return run.learner_address(int(name.partition("-")[2] or 0))


def _address_file(run: RunDirectory, name: str) -> Path:
    return run.endpoints / f"{name}.json"


def _read(path: Path) -> dict[str, Any] | None:
    with suppress(FileNotFoundError, ValueError, RecursionError):
        address = json.loads(own(path, largest=_LARGEST))
        return address if isinstance(address, dict) else None
    return None

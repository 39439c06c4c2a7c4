"""Where the servers of a run are: on a socket for this machine, with TLS for others where the run has a certificate.

A server that is told the address of its machine ($WORKBENCH_HOST, set by whatever places processes on machines) also
listens there, on a free port, and publishes `endpoints/<name>.json` in the run directory. Whoever is on the same
machine and sees its socket takes that; everybody else connects with TLS to the run's own certificate.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.errors import AccessDenied, ConnectionLost
from workbench.rundir import RunDirectory, write_atomically
from workbench.rundir.files import own
from workbench.wire.rpc import Endpoint, Handler, Listen, Server, StreamHandler, serve

SUPERVISOR = "supervisor"
MACHINE = "WORKBENCH_MACHINE"
HOST = "WORKBENCH_HOST"  # address of this machine that the run's other machines reach
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
    """A started server of that run: its "supervisor", "learner", "learner-1", ...; see `serve`.

    Raises ConnectionLost where it cannot listen.
    """
    listen = _beyond(run)
    server = serve(_socket(run, name), run.token(), calls=calls, streams=streams, threads=threads, beyond=listen,
                   on_flood=lambda text: on_flood(f"{name}: {text}"))
    if listen is None:
        _published(run, name).unlink(missing_ok=True)  # of a life on another machine
    else:
        told = {"host": listen.host, "port": server.port, "machine": machine(), "socket": _socket(run, name)}
        run.endpoints.mkdir(mode=0o700, exist_ok=True)
        write_atomically(_published(run, name), json.dumps(told).encode())
    return server


def reach(run: RunDirectory, name: str) -> Endpoint:
    """Where that server of the run is reached from here, as was published last. Asks nobody.

    Raises AccessDenied where somebody else could have written the address; ConnectionLost if this is not the run's own
    directory, but a copy for an actor, and nothing is published.
    """
    told = _read(_published(run, name))
    if told is None and run.certificate.exists() and not run.certificate_key.exists():
        raise ConnectionLost(f"{name} of {run.name} has not said yet where it listens.")
    if told is None:
        return Endpoint(_socket(run, name))
    socket = str(told.get("socket"))
    if told.get("machine") == machine() and socket.startswith("unix:") and Path(socket.removeprefix("unix:")).exists():
        return Endpoint(socket)
    try:
        return Endpoint(joined(str(told["host"]), int(told["port"])), own(run.certificate, largest=_LARGEST))
    except AccessDenied:
        raise
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ConnectionLost(f"{name} of {run.name} listens on another machine, and the certificate to reach it by is "
                             f"not to be had: {error}.") from None


def reaching(run: RunDirectory, name: str) -> Callable[[], Endpoint]:
    """`reach`, to be asked again at every call: a server that is started anew has another port, or machine."""
    return lambda: reach(run, name)


def learner_name(rank: int) -> str:
    """What the learner of that rank, its server and its log are called."""
    return f"learner-{rank}" if rank else "learner"


def machine() -> str:
    """What is the same for processes that reach each other's sockets: the running kernel and its network namespace.

    $WORKBENCH_MACHINE says it where those mislead.
    """
    given = os.environ.get(MACHINE)
    if given:
        return given
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return platform.node()


def joined(host: str, port: int) -> str:
    """HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _beyond(run: RunDirectory) -> Listen | None:
    host = os.environ.get(HOST)
    if not host or not run.certificate_key.exists():
        return None
    key = own(run.certificate_key, largest=_LARGEST, secret=True)
    return Listen(host, own(run.certificate, largest=_LARGEST), key)


def _socket(run: RunDirectory, name: str) -> str:
    if name == SUPERVISOR:
        return run.supervisor_address
    return run.learner_address(int(name.partition("-")[2] or 0))


def _published(run: RunDirectory, name: str) -> Path:
    return run.endpoints / f"{name}.json"


def _read(path: Path) -> dict[str, Any] | None:
    with suppress(FileNotFoundError, ValueError, RecursionError):
        told = json.loads(own(path, largest=_LARGEST))
        return told if isinstance(told, dict) else None
    return None

"""Connects a process of ours to a Ray cluster, with an error in words where that fails."""

from __future__ import annotations

import socket

from workbench.errors import AccessDenied, ConnectionLost, lines_of
from workbench.supervisor.hosts.ray import connected

_KNOCK_S = 10.0
_TRIES = 5
_NO_SERVER = "Initialization failure from server"


def connect(address: str) -> None:
    """Make this process a driver of the cluster at that address. Raises ConnectionLost, AccessDenied."""
    try:
        _knock(address)
        _connected(address)
    except Exception as error:
        _raise_if_denied(address, error)
        _raise_if_other_version(address, str(error))
        first = lines_of(error)[0]
        raise ConnectionLost(
            f"no Ray cluster answers at address={address!r} ({first}). Start one (ray start --head; its other nodes: "
            "ray start --address=HOST:6379), or give the address of yours: HOST:PORT from one of its nodes, "
            "ray://HOST:10001 from anywhere.") from None


def _connected(address: str) -> None:
    """As `connected`, tried again where a busy head did not start a server for this client within Ray's own 30 s."""
    for _ in range(_TRIES - 1):
        try:
            connected(address)
            return
        except ConnectionError as error:
            if _NO_SERVER not in str(error):
                raise
    connected(address)


def _raise_if_denied(address: str, error: BaseException | None) -> None:
    """Raises AccessDenied if the cluster refused Ray's token."""
    while error is not None:
        if type(error).__name__ == "AuthenticationError" or "InvalidAuthToken" in str(error):
            raise AccessDenied(
                f"the Ray cluster at address={address!r} wants Ray's token, and got another one or none. Set "
                "RAY_AUTH_MODE=token here, and RAY_AUTH_TOKEN to its token if that is not in ~/.ray/auth_token (as it "
                "is on the machine of `ray start`: `ray get-auth-token` shows it).") from None
        error = error.__cause__ or error.__context__


def _raise_if_other_version(address: str, message: str) -> None:
    """Raises ConnectionLost with both versions if Ray refused this process for its Ray or its Python."""
    if "Version mismatch" in message:
        versions = " ".join(message.partition("Version mismatch:")[2].split())
        raise ConnectionLost(
            f"the Ray cluster at address={address!r} has another version of Ray or of Python than this notebook. "
            f"{versions}. Use the same here and there; where only Python's last number differs, "
            "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL=minor allows it.") from None


def _knock(address: str) -> None:
    """Raises OSError if no server listens there; Ray itself would try for a minute."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()

"""Clients without the token at a run's port: each address keeps few connections, and one with more is reported."""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import NamedTuple
from urllib.parse import unquote

import psutil

MOST_EACH = 64  # connections of one address without the token
_CHECK_S, _SHARE = 1.0, 0.01  # between two checks: at least a second, and so long that checks take 1 % of a core


class Peer(NamedTuple):
    """The other end of a connection."""

    host: str
    port: int


class Strangers:
    """Counts the connections to a port of this process by address, and closes the oldest of an address with too many.

    A connection whose peer sent the token does not count, so machines behind one address can have any number of these.
    The list of connections is the operating system's: gRPC has none.

    Args:
        on_flood: called once for each address that had too many, with a sentence about it.
    """

    def __init__(self, port: int, on_flood: Callable[[str], None]) -> None:
        self._port, self._on_flood = port, on_flood
        self._authenticated: set[Peer] = set()
        self._strange: dict[Peer, int] = {}  # its descriptor; the oldest first
        self._reported: set[str] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="strangers", daemon=True)
        self._thread.start()

    def exempt(self, peer: str) -> None:
        """Leave out a peer that sent the token, by gRPC's name for it ("ipv4:10.0.0.9:5000")."""
        kind, _, address = unquote(peer).partition(":")
        if kind in ("ipv4", "ipv6"):
            host, _, port = address.rpartition(":")
            self._authenticated.add(Peer(_plain(host.strip("[]")), int(port)))

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()

    def _watch(self) -> None:
        wait_s = _CHECK_S
        while not self._stopping.wait(wait_s):
            started = time.thread_time()
            with suppress(psutil.Error, OSError):  # the next check follows
                self.check()
            wait_s = max(_CHECK_S, (time.thread_time() - started) / _SHARE)

    def check(self) -> None:
        """Close each address's surplus. Raises psutil.Error or OSError where the system lists no connections."""
        authenticated = set(self._authenticated)
        now = _connections(self._port)
        self._authenticated -= authenticated - now.keys()
        strange = {peer: now[peer] for peer in [*self._strange, *now] if peer in now and peer not in authenticated}
        by_host: dict[str, list[Peer]] = {}
        for peer in strange:
            by_host.setdefault(peer.host, []).append(peer)
        for host, peers in by_host.items():
            excess = len(peers) - MOST_EACH
            for peer in islice(peers, max(0, excess)):
                if peer not in self._authenticated:
                    _close(strange.pop(peer), peer)
            if excess > 0 and host not in self._reported:
                self._reported.add(host)
                self._on_flood(f"{host} had {len(peers)} connections without this run's token; of those, one address "
                               f"keeps {MOST_EACH} at most. A firewall keeps it out for good")
        self._strange = strange


def _connections(port: int) -> Mapping[Peer, int]:
    """The descriptor of each connection to that port of this process."""
    return {Peer(_plain(link.raddr.ip), link.raddr.port): link.fd for link in psutil.Process().net_connections("tcp")
            if link.raddr and link.laddr.port == port and link.status == psutil.CONN_ESTABLISHED}


def _close(descriptor: int, peer: Peer) -> None:
    """End the connection with that peer, if the descriptor is still that connection's."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        host, port = connection.getpeername()[:2]
        if Peer(_plain(host), port) == peer:
            connection.shutdown(socket.SHUT_RDWR)


def _plain(host: str) -> str:
    """The address, with IPv4 within IPv6 as IPv4, for comparison."""
    address = ipaddress.ip_address(host)
    return str(getattr(address, "ipv4_mapped", None) or address)

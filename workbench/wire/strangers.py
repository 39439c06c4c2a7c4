"""Whoever reaches a run's port without its token: few connections each, and a word about who wants more."""

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

MOST_EACH = 64  # connections of one address that showed no token
_LOOK_S, _SHARE = 1.0, 0.01  # between two looks: at least a second, and so long that looks take 1 % of a core


class Peer(NamedTuple):
    """The other end of a connection."""

    host: str
    port: int


class Strangers:
    """Looks at the connections to a port of this process, and closes the oldest of whoever has too many.

    A connection whose peer showed the token counts for nobody, so that machines behind one address can have any number.
    gRPC tells nobody who connects: the operating system does.

    Args:
        on_flood: gets a sentence about every address that had too many, once for each.
    """

    def __init__(self, port: int, on_flood: Callable[[str], None]) -> None:
        self._port, self._on_flood = port, on_flood
        self._known: set[Peer] = set()
        self._strange: dict[Peer, int] = {}  # by age: the descriptor
        self._told: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="strangers", daemon=True)
        self._thread.start()

    def knows(self, peer: str) -> None:
        """A peer, by gRPC's name for it ("ipv4:10.0.0.9:5000"), showed the token."""
        kind, _, address = unquote(peer).partition(":")
        if kind in ("ipv4", "ipv6"):
            host, _, port = address.rpartition(":")
            self._known.add(Peer(_plain(host.strip("[]")), int(port)))

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        wait_s = _LOOK_S
        while not self._over.wait(wait_s):
            started = time.thread_time()
            with suppress(psutil.Error, OSError):  # another look follows
                self.look()
            wait_s = max(_LOOK_S, (time.thread_time() - started) / _SHARE)

    def look(self) -> None:
        """Close what is too much of anybody. Raises psutil.Error or OSError where the system does not tell."""
        known = set(self._known)
        now = _connected(self._port)
        self._known -= known - now.keys()
        strange = {peer: now[peer] for peer in [*self._strange, *now] if peer in now and peer not in known}
        by_host: dict[str, list[Peer]] = {}
        for peer in strange:
            by_host.setdefault(peer.host, []).append(peer)
        for host, peers in by_host.items():
            excess = len(peers) - MOST_EACH
            for peer in islice(peers, max(0, excess)):
                if peer not in self._known:
                    _close(strange.pop(peer), peer)
            if excess > 0 and host not in self._told:
                self._told.add(host)
                self._on_flood(f"{host} had {len(peers)} connections without this run's token; of those, one address "
                               f"keeps {MOST_EACH} at most. A firewall keeps it out for good")
        self._strange = strange


def _connected(port: int) -> Mapping[Peer, int]:
    """All who are connected to that port of this process, with the descriptor of each."""
    found = psutil.Process().net_connections("tcp")
    return {Peer(_plain(one.raddr.ip), one.raddr.port): one.fd for one in found
            if one.raddr and one.laddr.port == port and one.status == psutil.CONN_ESTABLISHED}


def _close(descriptor: int, peer: Peer) -> None:
    """End the connection with that peer, if the descriptor is still that."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        host, port = connection.getpeername()[:2]
        if Peer(_plain(host), port) == peer:
            connection.shutdown(socket.SHUT_RDWR)


def _plain(host: str) -> str:
    """An address as it is compared: IPv4 within IPv6 is IPv4."""
    address = ipaddress.ip_address(host)
    return str(getattr(address, "ipv4_mapped", None) or address)

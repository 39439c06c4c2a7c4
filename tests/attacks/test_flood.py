"""Connections without a token: bounded, closed when they do nothing, and never in the way of those who have one."""

from __future__ import annotations

import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import eventually
from workbench.errors import ConnectionLost
from workbench.wire import rpc
from workbench.wire.certificates import _made
from workbench.wire.rpc import Caller, Endpoint, Listen, Server, serve

MOST = 40


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Caller]]:
    """A server that strangers reach, with small bounds; and who has its token."""
    monkeypatch.setattr(rpc, "_HANDSHAKE_MS", 2000)
    monkeypatch.setattr(rpc, "_IDLE_MS", 2000)
    monkeypatch.setattr(rpc, "_most_connections", lambda: MOST)
    certificate, key = _made("flooded")
    beyond = Listen("127.0.0.1", certificate, key)
    running = serve(f"unix:{tmp_path}/s", "secret", calls={"ping": lambda: 1}, beyond=beyond)
    caller = Caller(Endpoint(f"127.0.0.1:{running.port}", certificate), "secret")
    yield running, caller
    caller.close()
    running.stop(0)


def connected(port: int | None, stack: ExitStack, *, number: int, shaken: bool) -> list[socket.socket]:
    """Connections that then do nothing; `shaken`: after TLS's handshake, which anybody can make."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    found = []
    for _ in range(number):
        try:
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            found.append(stack.enter_context(context.wrap_socket(plain)) if shaken else plain)
        except OSError:
            continue  # refused at the bound
    return found


def answers(caller: Caller) -> bool:
    try:
        return bool(caller.call("ping", timeout_s=5.0) == 1)
    except ConnectionLost:
        return False


@pytest.mark.parametrize("shaken", [False, True], ids=["half a handshake", "a whole handshake"])
def test_idle_connections_are_closed_and_whoever_has_the_token_gets_in(
    server: tuple[Server, Caller], shaken: bool
) -> None:
    running, caller = server
    with ExitStack() as stack:
        idle = connected(running.port, stack, number=3 * MOST, shaken=shaken)
        assert idle
        eventually(lambda: answers(caller), what="an answer while all the connections are held open")
        assert answers(caller)


def test_one_who_is_in_stays_in_while_strangers_come(server: tuple[Server, Caller]) -> None:
    running, caller = server
    eventually(lambda: answers(caller))
    with ExitStack() as stack:
        for _ in range(5):
            connected(running.port, stack, number=MOST, shaken=False)
            assert caller.call("ping", timeout_s=240.0) == 1


def test_a_server_raises_its_limit_and_keeps_descriptors_for_itself() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        most = rpc._most_connections()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft == min(hard, rpc._MOST_DESCRIPTORS) and 2 * most <= soft - 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

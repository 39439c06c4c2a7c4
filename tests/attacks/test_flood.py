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
from workbench.wire import rpc, strangers
from workbench.wire.certificates import _self_signed
from workbench.wire.rpc import Caller, Endpoint, Listen, Server, serve

MOST = 40


Flooded = tuple[Server, Caller, list[str]]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Flooded]:
    """A server that strangers reach, with small bounds; who has its token; and what is told of floods."""
    monkeypatch.setattr(rpc, "_HANDSHAKE_MS", getattr(request, "param", 2000))
    monkeypatch.setattr(rpc, "_IDLE_MS", 2000)
    monkeypatch.setattr(rpc, "_most_connections", lambda: MOST)
    certificate, key = _self_signed("flooded")
    beyond, told = Listen("127.0.0.1", certificate, key), list[str]()
    running = serve(f"unix:{tmp_path}/s", "secret", calls={"ping": lambda: 1}, beyond=beyond, on_flood=told.append)
    caller = Caller(Endpoint(f"127.0.0.1:{running.port}", certificate), "secret")
    yield running, caller, told
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
    server: Flooded, shaken: bool
) -> None:
    running, caller, _ = server
    with ExitStack() as stack:
        idle = connected(running.port, stack, number=3 * MOST, shaken=shaken)
        assert idle
        eventually(lambda: answers(caller), what="an answer while all the connections are held open")
        assert answers(caller)


def test_one_who_is_in_stays_in_while_strangers_come(server: Flooded) -> None:
    running, caller, _ = server
    eventually(lambda: answers(caller))
    with ExitStack() as stack:
        for _ in range(5):
            connected(running.port, stack, number=MOST, shaken=False)
            assert caller.call("ping", timeout_s=240.0) == 1


@pytest.mark.parametrize("server", [240_000], indirect=True, ids=["handshakes may take minutes"])
def test_an_address_keeps_few_connections_without_the_token_and_is_named_once(
    server: Flooded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever showed the token counts for nobody, and is never closed."""
    running, caller, told = server
    monkeypatch.setattr(strangers, "MOST_EACH", 5)
    for _ in range(2):
        with ExitStack() as stack:
            assert caller.call("ping", timeout_s=240.0) == 1
            idle = connected(running.port, stack, number=20, shaken=False)
            eventually(lambda found=idle: sum(map(is_open, found)) == 5, what="most of them to be closed")
            [newest] = connected(running.port, stack, number=1, shaken=False)
            eventually(lambda found=idle: sum(map(is_open, found)) == 4, what="an older one to be closed")
            assert is_open(newest), "it may be somebody who is about to show the token"
            assert caller.call("ping", timeout_s=240.0) == 1
    assert len(told) == 1 and "127.0.0.1 had " in told[0] and "without this run's token" in told[0]


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_many_who_have_the_token_come_from_one_address(server: Flooded, monkeypatch: pytest.MonkeyPatch) -> None:
    running, caller, told = server
    monkeypatch.setattr(strangers, "MOST_EACH", 5)
    assert running.port is not None and running._strangers is not None
    more = [Caller(caller._where(), "secret") for _ in range(12)]
    try:
        eventually(lambda: all(answers(one) for one in more))
        for _ in range(3):
            running._strangers.check()
        assert len(strangers._connections(running.port)) >= 12 and all(answers(one) for one in more)
        assert told == []
    finally:
        for one in more:
            one.close()


def test_a_server_raises_its_limit_and_keeps_descriptors_for_itself() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
        most = rpc._most_connections()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft == min(hard, rpc._MOST_DESCRIPTORS) and 2 * most <= soft - 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

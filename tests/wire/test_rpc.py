"""Calls over real gRPC servers on Unix sockets."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import grpc
import psutil
import pytest

from tests.conftest import eventually
from workbench.errors import AccessDenied, ConnectionLost, OutOfBounds, WorkbenchError
from workbench.wire.rpc import Caller, method_path, open_channel, serve, token_metadata


@pytest.fixture
def address():
    with tempfile.TemporaryDirectory() as folder:
        yield f"unix:{folder}/s"


@pytest.fixture
def server(address):
    def refuse(value):
        raise OutOfBounds(f"value={value}")

    def echo_stream(requests, context):
        yield from requests

    running = serve(
        address, "secret", calls={"add": lambda a, b: a + b, "refuse": refuse, "crash": lambda: 1 / 0},
        streams={"echo": echo_stream},
    )
    yield running
    running.stop(0)


def test_a_call_returns_what_the_function_returned(server):
    assert Caller(server.address, "secret").call("add", a=1, b=2) == 3


def test_an_error_arrives_as_the_class_it_was_raised_as(server):
    with pytest.raises(OutOfBounds, match="value=7"):
        Caller(server.address, "secret").call("refuse", value=7)


def test_a_fault_in_a_function_reaches_the_caller_and_the_server_goes_on(server):
    caller = Caller(server.address, "secret")
    with pytest.raises(WorkbenchError, match="ZeroDivisionError"):
        caller.call("crash")
    assert caller.call("add", a=2, b=2) == 4


@pytest.mark.parametrize("token", ["", "wrong", "secre", "secret2"])
def test_a_call_without_the_token_is_refused(server, token):
    with pytest.raises(AccessDenied):
        Caller(server.address, token).call("add", a=1, b=2)


def test_a_stream_without_the_token_is_refused(server):
    with open_channel(server.address) as channel:
        replies = channel.stream_stream(method_path("echo"))(iter([b"x"]), metadata=token_metadata("wrong"))
        with pytest.raises(grpc.RpcError) as caught:
            list(replies)
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_a_stream_with_the_token_is_served(server):
    with open_channel(server.address) as channel:
        replies = channel.stream_stream(method_path("echo"))(iter([b"x", b"y"]), metadata=token_metadata("secret"))
        assert list(replies) == [b"x", b"y"]


def test_streams_that_take_all_threads_but_those_of_calls_leave_calls_answered(address):
    def waits(requests, context):
        yield from requests

    served = serve(address, "secret", calls={"add": lambda a, b: a + b}, streams={"wait": waits},
                   threads=4)
    ended, channels = threading.Event(), [open_channel(address) for _ in range(4)]

    def requests():
        yield b"x"
        ended.wait(240)

    try:
        streams = [channel.stream_stream(method_path("wait"))(requests(), metadata=token_metadata("secret"))
                   for channel in channels[:2]]
        assert [next(stream) for stream in streams] == [b"x", b"x"]
        refused = channels[2].stream_stream(method_path("wait"))(requests(), metadata=token_metadata("secret"))
        with pytest.raises(grpc.RpcError) as caught:
            next(refused)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "learners=2" in caught.value.details()
        assert Caller(address, "secret").call("add", a=1, b=2, timeout_s=240) == 3
        streams[0].cancel()
        ended.set()

        def served_again():
            again = channels[3].stream_stream(method_path("wait"))(iter([b"y"]), metadata=token_metadata("secret"))
            with suppress(grpc.RpcError):
                return next(again) == b"y"

        eventually(served_again)
    finally:
        ended.set()
        for channel in channels:
            channel.close()
        served.stop(0)


def test_a_call_that_nobody_answers_names_the_address(address):
    with pytest.raises(ConnectionLost, match=Path(address).name):
        Caller(address, "secret").call("add", a=1, b=2)


def test_a_call_without_an_answer_is_told_in_words(address):
    with pytest.raises(ConnectionLost, match="did not answer add: it has ended, or cannot be reached$"):
        Caller(address, "secret").call("add", a=1, b=2, timeout_s=1)


def test_a_call_after_the_connection_was_closed_is_a_lost_connection(server):
    caller = Caller(server.address, "secret")
    caller.close()
    with pytest.raises(ConnectionLost, match="was not asked add"):
        caller.call("add", a=1, b=2)


def test_an_unknown_method_is_named(server):
    with pytest.raises(WorkbenchError, match="subtract"):
        Caller(server.address, "secret").call("subtract")


def test_the_socket_is_for_its_owner_alone(server):
    assert stat.S_IMODE(os.stat(server.address.removeprefix("unix:")).st_mode) == 0o600


def test_a_callers_repr_shows_no_token(server):
    assert "secret" not in repr(Caller(server.address, "secret"))


def test_a_server_starts_where_a_killed_one_left_its_socket(address):
    first = serve(address, "t", calls={"who": lambda: 1})
    path = address.removeprefix("unix:")
    first.stop(0)
    Path(path).touch()
    second = serve(address, "t", calls={"who": lambda: 2})
    try:
        assert Caller(address, "t").call("who") == 2
    finally:
        second.stop(0)


def test_a_strangers_large_message_is_not_read(server):
    """It would fill the server's memory before it is refused."""
    stranger = """
import sys, grpc
from workbench.wire.rpc import method_path, open_channel, token_metadata
try:
    open_channel(sys.argv[1]).unary_unary(method_path("add"))(
        bytes(200 * 2**20), metadata=token_metadata("guess"), timeout=240)
except grpc.RpcError as error:
    print(error.code().name)
"""
    own = psutil.Process()
    before = largest = own.memory_info().rss
    client = subprocess.Popen([sys.executable, "-c", stranger, server.address], stdout=subprocess.PIPE, text=True)
    try:
        while client.poll() is None:
            largest = max(largest, own.memory_info().rss)
            time.sleep(0.005)
        assert client.stdout.read().strip() == "UNAUTHENTICATED"
    finally:
        client.kill()
        client.wait()
    assert largest - before < 50 * 2**20


def test_processes_that_are_started_while_calls_go_on_start(address):
    """A notebook's `!command` is forked, and so is what a game or Ray starts: beside gRPC's own handlers of a fork,
    47 of 1,000 died before they were programs of their own."""
    busy = """
import os, subprocess, sys, threading
from workbench.wire.rpc import Caller, serve
assert "GRPC_ENABLE_FORK_SUPPORT" not in os.environ
server = serve(sys.argv[1], "t", calls={"one": lambda: 1})
caller = Caller(sys.argv[1], "t")
def call():
    while True:
        caller.call("one")
for _ in range(2):
    threading.Thread(target=call, daemon=True).start()
codes = [subprocess.run(["true"], preexec_fn=lambda: None, timeout=240).returncode for _ in range(300)]
print(sum(code != 0 for code in codes), flush=True)
os._exit(0)
"""
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    process = subprocess.Popen([sys.executable, "-c", busy, address], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=environment, start_new_session=True)
    try:
        said, complaints = process.communicate(timeout=240)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with a child that hangs in its fork
        process.wait()
    assert said.strip() == "0", complaints[-2000:]

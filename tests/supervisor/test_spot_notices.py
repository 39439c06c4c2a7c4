"""A machine that its cloud takes back. The metadata servers are ours, and answer as the clouds' documentation says."""

from __future__ import annotations

import datetime
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import CALM, eventually
from workbench.supervisor.machines import spot_notices
from workbench.supervisor.machines.spot_notices import SERVER, Notice, notice, watch

TOKEN = "a-session"


class Metadata:
    """What the server answers to GET: a path's text, or a status."""

    def __init__(self) -> None:
        self.answers: dict[str, str | int] = {}
        self.headers: dict[str, str] = {}


@contextmanager
def serving(metadata: Metadata) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            wanted = self.path == "/latest/api/token" and self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
            self.answer(TOKEN if wanted else 400)

        def do_GET(self) -> None:
            missing = [name for name, value in metadata.headers.items() if self.headers[name] != value]
            self.answer(401 if missing else metadata.answers.get(self.path, 404))

        def answer(self, text: str | int) -> None:
            self.send_response(text if isinstance(text, int) else 200)
            self.end_headers()
            if isinstance(text, str):
                self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[Metadata]:
    made = Metadata()
    with serving(made) as address:
        monkeypatch.setenv(SERVER, address)
        yield made


def soon(seconds: float) -> str:
    return (datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


AWS, GCP = "/latest/meta-data/spot/instance-action", "/computeMetadata/v1/instance/preempted"
AZURE = "/metadata/scheduledevents?api-version=2020-07-01"
QUIET: dict[str, dict[str, str | int]] = {
    "aws": {}, "gcp": {GCP: "FALSE"}, "azure": {AZURE: json.dumps({"Events": [{"EventType": "Reboot"}]})}}
TAKEN: dict[str, Callable[[], dict[str, str | int]]] = {
    "aws": lambda: {AWS: json.dumps({"action": "terminate", "time": soon(100)})},
    "gcp": lambda: {GCP: "TRUE"},
    "azure": lambda: {AZURE: json.dumps({"Events": [{"EventType": "Preempt", "NotBefore": soon(25)}]})},
}
HEADERS = {"aws": {"X-aws-ec2-metadata-token": TOKEN}, "gcp": {"Metadata-Flavor": "Google"},
           "azure": {"Metadata": "true"}}
SECONDS = {"aws": (60, 100), "gcp": (30, 30), "azure": (0, 25)}


@pytest.mark.parametrize("cloud", list(spot_notices.CLOUDS))
def test_each_cloud_is_asked_as_it_wants_and_understood(metadata: Metadata, cloud: str) -> None:
    metadata.headers, metadata.answers = HEADERS[cloud], QUIET[cloud]
    assert notice(cloud) is None
    metadata.answers = TAKEN[cloud]()
    given = notice(cloud)
    low, high = SECONDS[cloud]
    assert given is not None and low <= given.seconds <= high
    assert given.words.startswith(f"{cloud} takes this spot machine back in ")


def test_a_server_that_does_not_answer_is_said_once_and_asked_on(
    metadata: Metadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spot_notices, "_EVERY_S", 0.001)
    metadata.answers = {GCP: 500}
    said: list[str] = []
    given: list[Notice] = []
    ended = watch("gcp", on_notice=given.append, on_silence=said.append)
    try:
        eventually(lambda: said)
        assert "Is the machine one of that cloud's?" in said[0]
        metadata.answers = {GCP: "TRUE"}
        eventually(lambda: given)
        assert len(said) == 1
    finally:
        ended.set()


@pytest.mark.parametrize("nonsense", [b"\x00\x01 no HTTP\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n{\"Events\": null}"])
def test_a_server_that_answers_nonsense_is_said_and_asked_on(
    metadata: Metadata, monkeypatch: pytest.MonkeyPatch, nonsense: bytes
) -> None:
    monkeypatch.setattr(spot_notices, "_EVERY_S", 0.001)
    said, given, right = list[str](), list[Notice](), os.environ[SERVER]
    with socket.create_server(("127.0.0.1", 0)) as server:
        def answer() -> None:
            with suppress(OSError):  # closed
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(4096)
                        connection.sendall(nonsense)

        threading.Thread(target=answer, daemon=True).start()
        monkeypatch.setenv(SERVER, f"http://127.0.0.1:{server.getsockname()[1]}")
        ended = watch("azure", on_notice=given.append, on_silence=said.append)
        try:
            eventually(lambda: said)
            metadata.answers = TAKEN["azure"]()
            monkeypatch.setenv(SERVER, right)
            eventually(lambda: given)
        finally:
            ended.set()


def test_a_run_on_a_spot_machine_that_is_taken_back_stops_with_a_checkpoint(metadata: Metadata, home: Path) -> None:
    metadata.answers = {GCP: "FALSE"}
    run = wb.launch("testing/counting-v0", name="spot", spot="gcp", **CALM)
    run.wait(updates=2, timeout_s=240)
    metadata.answers = {GCP: "TRUE"}
    status = run.wait(timeout_s=240)
    assert status.state == "stopped" and "gcp takes this spot machine back in 30 s" in status.reason
    assert run.checkpoints[-1].frames == status.frames

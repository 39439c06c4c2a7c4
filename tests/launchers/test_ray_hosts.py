"""A Ray cluster over two hosts, with a password of Ray's: the run's own traffic between them is TLS, all of it."""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
from tests.hosts import OtherHost, other_host
from tests.launchers.clusters import ray_between
from workbench.errors import AccessDenied

pytestmark = pytest.mark.full

START_S = 240.0
# The learner fits here alone, and leaves no room for actors.
FIELDS = {**SMALL, "launcher": "ray", "learner_cpus": 3.0, "actor_cpus": 1.0, "total_frames": 10**9,
          "ready_timeout_s": START_S}
TOKEN = secrets.token_hex(32)


@pytest.fixture(scope="module")
def host(module_home: Path) -> Iterator[OtherHost]:
    with other_host() as made:
        yield made


@pytest.fixture(scope="module")
def address(host: OtherHost) -> Iterator[str]:
    with ray_between(host, 3, 2, token=TOKEN) as made:
        yield made


@pytest.fixture(scope="module")
def run(address: str) -> Iterator[wb.Run]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", TOKEN)
        made = wb.launch("CartPole-v1", name="apart", address=address, **FIELDS)
    yield made
    made.stop(timeout_s=20)


def test_a_cluster_that_wants_a_password_says_so(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(AccessDenied, match="wants Ray's token.*Set RAY_AUTH_MODE=token"):
        wb.launch("CartPole-v1", name="stranger", address=address, **FIELDS)


def test_actors_on_another_host_reach_the_learner_by_tls_alone(run: wb.Run, host: OtherHost) -> None:
    eventually(lambda: all(one.pid and one.steps_per_second for one in run.status.actors))
    status = run.status
    ours, theirs = network_of(status.learner_pid), {network_of(one.pid) for one in status.actors}
    assert ours == network_of(os.getpid()) and len(theirs) == 1 and ours not in theirs
    told = json.loads((run.directory.endpoints / "learner.json").read_text())
    assert told["host"] == host.here
    with listening(host, told["port"]) as heard:
        run.restart_actor(0)
        eventually(lambda: heard.begun and run.status.actors[0].pid not in (None, status.actors[0].pid)
                   and run.status.actors[0].steps_per_second > 0)
        run.wait(updates=run.status.updates + 3, timeout_s=START_S)
    assert all(first[:2] == b"\x16\x03" for first in heard.begun), "a connection began without TLS's handshake"
    assert heard.data > 10_000
    for secret in (run.directory.token(), "workbench.Run", "x-workbench-token"):
        assert secret.encode() not in heard.said


def test_rays_password_goes_to_the_supervisor_alone(run: wb.Run) -> None:
    status = eventually(lambda: (now := run.status).learner_pid and all(one.pid for one in now.actors) and now)
    supervisor, *others = (psutil.Process(pid).environ() for pid in
                           (status.supervisor_pid, status.learner_pid, *(one.pid for one in status.actors)))
    assert {name for name in supervisor if name.startswith("RAY_")} == {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN"}
    assert supervisor["RAY_AUTH_TOKEN"] == TOKEN
    assert not any(name.startswith("RAY_") or TOKEN in value for one in others for name, value in one.items())


def test_actors_that_no_node_has_room_for_are_named_in_the_status(run: wb.Run) -> None:
    run.scale(actors=3)
    said = "1 of 3 actors waiting {} s for a start on a node of the cluster with 1 CPU to spare"
    eventually(lambda: any(said.format(seconds) in run.status.reason for seconds in range(5, 60)))
    run.scale(actors=2)
    eventually(lambda: run.status.reason == "" and len(run.status.actors) == 2)


def network_of(pid: int | None) -> str:
    """The network namespace of a process."""
    return os.readlink(f"/proc/{pid}/ns/net")


@dataclass
class Heard:
    """What was heard on a cable, of one port.

    Attributes:
        begun: the first bytes of each connection that began meanwhile, from the side that began it.
        said: everything, one packet after the other. data: its bytes.
    """

    begun: list[bytes] = field(default_factory=list)
    said: bytearray = field(default_factory=bytearray)

    @property
    def data(self) -> int:
        return len(self.said)


@contextmanager
def listening(host: OtherHost, port: int) -> Iterator[Heard]:
    """Listen on our end of the cable to what goes to and from that port."""
    heard, over, new = Heard(), threading.Event(), set[int]()

    def listen() -> None:
        while not over.is_set():
            try:
                packet = tap.recv(2**17)[14:]  # without Ethernet's header
            except TimeoutError:
                continue
            if packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
                continue
            segment = packet[(packet[0] & 15) * 4: int.from_bytes(packet[2:4])]
            source, target = int.from_bytes(segment[:2]), int.from_bytes(segment[2:4])
            data = segment[(segment[12] >> 4) * 4:]
            if target == port and segment[13] & 0x02:  # SYN
                new.add(source)
            if data and port in (source, target):
                heard.said += data
                if source in new:
                    heard.begun.append(bytes(data[:16]))
                    new.remove(source)

    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)) as tap:
        tap.bind((f"{host.name}a", 0))
        tap.settimeout(0.2)
        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield heard
        finally:
            over.set()
            thread.join()

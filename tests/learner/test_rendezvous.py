"""How learners find each other: on one machine by a file, on several by a store at the first one's address."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.conftest import eventually
from tests.hosts import OtherHost
from tests.learner.group_rank import config_of, trained
from workbench import rundir
from workbench.config.ports import ANY, ports_of
from workbench.errors import ConnectionLost, OutOfBounds
from workbench.learner.training import rendezvous
from workbench.rundir import RunDirectory
from workbench.wire.endpoints import HOST

PORTS = range(23400, 23408)


@pytest.fixture
def run(home: Path) -> RunDirectory:
    return rundir.create("pair", {"config": config_of("ports", 2).to_json()})


def learner(run: RunDirectory, rank: int, address: str, *prefix: str) -> subprocess.Popen[bytes]:
    """A learner of two, on a machine of that address, whose name resolves to loopback as Debian's does."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", HOST: address}
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        environment.pop(variable, None)
    command = [*prefix, sys.executable, "-m", "tests.learner.group_rank", str(run.path), str(rank), "ports"]
    return subprocess.Popen(command, env=environment)


@pytest.mark.parametrize("first_is_here", [True, pytest.param(False, marks=pytest.mark.full)])
def test_learners_on_two_machines_train_as_one_would(run: RunDirectory, host: OtherHost, first_is_here: bool) -> None:
    here, there = (0, 1) if first_is_here else (1, 0)
    started = [learner(run, here, host.here), learner(run, there, host.there, *host.prefix)]
    try:
        assert [process.wait(240) for process in started] == [0, 0]
    finally:
        for process in started:
            process.kill()
            process.wait()
    address = json.loads(run.rendezvous.read_bytes())
    assert address["host"] == (host.here if first_is_here else host.there) and address["port"] in PORTS
    alone = trained("vtrace", config_of("vtrace", 1), None)
    alone.pop("drawn")  # random numbers, of each learner its own
    for rank in range(2):
        found = dict(np.load(run.path / f"{rank}.npz"))
        for name, array in alone.items():
            np.testing.assert_allclose(found[name], array, rtol=2e-4, atol=1e-5, err_msg=name)


def test_the_store_listens_at_the_learners_own_address_alone(run: RunDirectory, host: OtherHost) -> None:
    first = learner(run, 0, host.here)
    try:
        port = eventually(lambda: run.rendezvous.exists() and json.loads(run.rendezvous.read_bytes())["port"])
        listening = [one.laddr for one in psutil.Process(first.pid).net_connections() if one.status == "LISTEN"]
        assert (host.here, port) in listening and not [one for one in listening if one.port == port and
                                                       one.ip != host.here]
    finally:
        first.kill()
        first.wait()


def test_the_interface_is_that_of_the_address() -> None:
    assert rendezvous.interface_of("127.0.0.1") == "lo"
    assert rendezvous.interface_of("192.0.2.7") == "" == rendezvous.interface_of("")


def test_a_variable_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "tunnel0")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "tunnel0")
    rendezvous.choose_interface("127.0.0.1", one_machine=True)
    assert os.environ["GLOO_SOCKET_IFNAME"] == "tunnel0" == os.environ["NCCL_SOCKET_IFNAME"]


def test_ports_that_are_taken_are_passed_over_and_the_last_one_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConnectionLost, match=rf"no port of {port} is free at 127\.0\.0\.1"):
            rendezvous._listening("127.0.0.1", str(port))


@pytest.mark.parametrize(("text", "ports"), [("", ANY), ("7000", [7000]), ("7000-7002", [7000, 7001, 7002])])
def test_ports_are_one_or_a_range(text: str, ports: list[int]) -> None:
    assert list(ports_of(text)) == list(ports)


@pytest.mark.parametrize("text", ["80", "7002-7000", "7000-70000", "any", "-", "7000,7001"])
def test_other_ports_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(OutOfBounds, match="7000-7015"):
        ports_of(text)


def test_too_few_ports_for_a_machine_are_refused_with_a_range_that_suffices() -> None:
    with pytest.raises(OutOfBounds, match=r"has 3 where one machine may need 4.*ports='7000-7003'"):
        config_of("vtrace", 2).replaced(ports="7000-7002")

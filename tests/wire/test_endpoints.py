"""Servers of a run, for this machine and for others; a network namespace stands for another machine."""

from __future__ import annotations

import json
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts import other_host
from workbench import rundir
from workbench.actor.main import _remove_bundle
from workbench.errors import AccessDenied, ConnectionLost, InvalidInput
from workbench.rundir import RunDirectory
from workbench.wire import certificates
from workbench.wire.endpoints import HOST, host_port, reach, reaching, serve_run
from workbench.wire.rpc import Caller, Endpoint, Server, open_channel, serve

pytest.importorskip("cryptography")

CALL = """
import sys
from pathlib import Path
from workbench.rundir import RunDirectory
from workbench.wire.endpoints import reaching
from workbench.wire.rpc import Caller
run = RunDirectory(Path(sys.argv[1]))
caller = Caller(reaching(run, "learner"), run.token())
print(caller.address.partition(":")[0], caller.call("add", a=1, b=2, timeout_s=240))
"""


@pytest.fixture
def run(home: Path) -> RunDirectory:
    made = rundir.create("tls", {"config": {}})
    certificates.ensure(made)
    return made


def serving(run: RunDirectory) -> Server:
    return serve_run(run, "learner", calls={"add": lambda a, b: a + b})


@pytest.fixture
def server(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv(HOST, "127.0.0.1")
    made = serving(run)
    yield made
    made.stop(0)


def as_from_elsewhere(run: RunDirectory) -> None:
    """Let what is published look as if it came from another machine."""
    path = run.endpoints / "learner.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "machine": "another"}))


def test_certificate_and_key_are_for_their_owner_alone_and_made_once(run: RunDirectory) -> None:
    made = run.certificate.read_bytes()
    assert {stat.S_IMODE(path.stat().st_mode) for path in (run.certificate, run.certificate_key)} == {0o600}
    assert stat.S_IMODE(run.certificate.parent.stat().st_mode) == 0o700
    certificates.ensure(run)
    assert run.certificate.read_bytes() == made


def test_whoever_is_on_the_same_machine_takes_the_socket(run: RunDirectory, server: Server) -> None:
    assert server.port
    caller = Caller(reaching(run, "learner"), run.token())
    assert caller.address == run.learner_address()
    assert caller.call("add", a=1, b=2) == 3


def test_whoever_does_not_see_the_socket_takes_tls(run: RunDirectory, server: Server) -> None:
    as_from_elsewhere(run)
    caller = Caller(reaching(run, "learner"), run.token())
    assert caller.address == f"127.0.0.1:{server.port}"
    assert caller.call("add", a=1, b=2) == 3
    with pytest.raises(AccessDenied):
        Caller(reaching(run, "learner"), "wrong").call("add", a=1, b=2)


def test_another_runs_certificate_is_not_accepted(run: RunDirectory, server: Server) -> None:
    as_from_elsewhere(run)
    certificates.remove(other := rundir.create("other", {"config": {}}))
    certificates.ensure(other)
    endpoint = Endpoint(reach(run, "learner").address, other.certificate.read_bytes())
    with pytest.raises(ConnectionLost, match="did not answer"):
        Caller(endpoint, run.token()).call("add", a=1, b=2, timeout_s=1)


def test_the_tls_port_answers_nobody_in_the_clear(run: RunDirectory, server: Server) -> None:
    with pytest.raises(ConnectionLost):
        Caller(f"127.0.0.1:{server.port}", run.token()).call("add", a=1, b=2, timeout_s=1)


def test_a_run_whose_sockets_lie_elsewhere_is_reached_with_another_tmpdir(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = rundir.create("long" * 25, {"config": {}})
    with tempfile.TemporaryDirectory(prefix="wb") as job, tempfile.TemporaryDirectory(prefix="wb") as terminal:
        monkeypatch.setattr(tempfile, "tempdir", job)
        server = serving(run)
        monkeypatch.setattr(tempfile, "tempdir", terminal)
        try:
            caller = Caller(reaching(run, "learner"), run.token())
            assert caller.address.startswith(f"unix:{job}/") and caller.call("add", a=1, b=2) == 3
            copy = RunDirectory(shutil.copytree(run.path, home / "runs" / ("copy" * 25)))
            assert reach(copy, "learner") == Endpoint(copy.learner_address()), "the socket is that of another run"
            next(Path(job).iterdir()).chmod(0o777)
            assert reach(run, "learner") == Endpoint(run.learner_address()), "others could listen there"
        finally:
            server.stop(0)


@pytest.mark.parametrize("address", ["10.1.2.3:80", "learner.example.com:80", "[2001:db8::1]:80"])
def test_plain_tcp_beyond_this_machine_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match="everybody on the way could read the run's token"):
        open_channel(address)
    with pytest.raises(InvalidInput, match="beyond this machine"):
        serve(address, "token", calls={})


@pytest.mark.parametrize("address", ["127.0.0.1:80", "localhost:80", "[::1]:80", "unix:/x"])
def test_plain_connections_within_this_machine_are_fine(address: str) -> None:
    open_channel(address).close()


def test_a_caller_goes_on_where_the_server_started_anew(run: RunDirectory, server: Server) -> None:
    as_from_elsewhere(run)
    caller = Caller(reaching(run, "learner"), run.token())
    assert caller.call("add", a=1, b=2) == 3
    server.stop(0)
    again = serving(run)
    as_from_elsewhere(run)
    try:
        assert again.port != server.port
        assert caller.call("add", a=2, b=2) == 4
    finally:
        again.stop(0)


def test_a_server_on_this_machine_alone_takes_the_published_one_back(
    run: RunDirectory, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.stop(0)
    monkeypatch.delenv(HOST)
    again = serving(run)
    try:
        assert again.port is None
        assert reach(run, "learner") == Endpoint(run.learner_address())
    finally:
        again.stop(0)


def test_an_address_that_is_not_of_this_machine_is_named(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOST, "192.0.2.7")
    with pytest.raises(ConnectionLost, match=r"192\.0\.2\.7: is it an address of this machine"):
        serving(run)


def test_a_server_listens_on_a_free_one_of_the_runs_ports(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOST, "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        first = taken.getsockname()[1]
        ports = f"{first}-{min(first + 20, 65_535)}"
        run = rundir.create("firewalled", {"config": {"ports": ports}})
        certificates.ensure(run)
        one = serving(run)
        try:
            assert one.port in range(first + 1, first + 21)
            with pytest.raises(ConnectionLost, match=f"ports {one.port} to {one.port}: .* one of them free"):
                monkeypatch.setattr("workbench.wire.endpoints.ports_of", lambda _: [one.port])
                serve_run(run, "learner-1", calls={})
        finally:
            one.stop(0)


def test_a_server_listens_on_ipv6(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOST, "::1")
    server = serving(run)
    try:
        as_from_elsewhere(run)
        assert Caller(reaching(run, "learner"), run.token()).call("add", a=1, b=2, timeout_s=240) == 3
    finally:
        server.stop(0)


def test_ipv6_addresses_get_brackets() -> None:
    assert host_port("10.0.0.1", 80) == "10.0.0.1:80"
    assert host_port("::1", 80) == "[::1]:80"


# --- another machine ------------------------------------------------------------------------------------------------


def test_another_machine_reaches_a_run_by_the_bundle_of_an_actor(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    with other_host() as elsewhere:
        monkeypatch.setenv(HOST, elsewhere.here)
        server = serving(run)
        for given in ("token", "endpoints"):
            (shutil.copytree if given == "endpoints" else shutil.copy2)(run.path / given, bundle / given)
        command = [*elsewhere.prefix, sys.executable, "-c", CALL, str(bundle)]
        try:
            without = subprocess.run(command, capture_output=True, text=True, timeout=240)
            assert "certificate cannot be read here" in without.stderr
            (bundle / "tls").mkdir(mode=0o700)
            shutil.copy2(run.certificate, bundle / "tls")
            told = subprocess.run(command, capture_output=True, text=True, timeout=240)
            assert told.stdout.split() == [elsewhere.here, "3"], told.stderr
        finally:
            server.stop(0)


def test_an_actor_that_outlives_its_host_removes_its_bundle_and_no_run(run: RunDirectory, tmp_path: Path) -> None:
    bundle = RunDirectory(tmp_path / "bundle")
    shutil.copytree(run.certificate.parent, bundle.certificate.parent)
    bundle.certificate_key.unlink()
    run.certificate_key.unlink()  # as where its certificate is being removed
    run.metrics.touch()
    for one in (run, bundle):
        _remove_bundle(one)
    assert run.record.exists() and not bundle.path.exists()

"""Secrets go only to the run that they belong to, whatever a directory that somebody planted says."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench as wb
from tests.widgets import recorded
from workbench.errors import AccessDenied
from workbench.rundir import RunDirectory, lock
from workbench.wire import endpoints
from workbench.wire.certificates import _self_signed
from workbench.wire.endpoints import SUPERVISOR, reach

SOMEBODY = 65534  # another user
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def planter() -> Iterator[socket.socket]:
    """A port that waits for secrets."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


@pytest.fixture
def run(addressed: RunDirectory) -> Iterator[RunDirectory]:
    """The same, and somebody holds its lock, as its supervisor would."""
    with lock.held(lock.of_supervisor(addressed), wait_s=1.0):
        yield addressed


@pytest.fixture
def addressed(home: Path, planter: socket.socket) -> RunDirectory:
    """A run that says it is alive, and listens where the planter does."""
    made = recorded.vtrace("planted")
    made.write(state="training")
    certificate, key = _self_signed("planted")
    for path, data in ((made.certificate, certificate), (made.certificate_key, key)):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o600)
    made.endpoints.mkdir(mode=0o700)
    told = {"host": "127.0.0.1", "port": planter.getsockname()[1], "machine": "elsewhere", "socket": "unix:/nowhere"}
    published = made.endpoints / f"{SUPERVISOR}.json"
    published.write_text(json.dumps(told))
    published.chmod(0o600)
    return made


def nobody_called(planter: socket.socket) -> bool:
    try:
        planter.accept()[0].close()
    except BlockingIOError:
        return True
    return False


def given_away(path: Path) -> None:
    for one in (path, *path.rglob("*")):
        os.chown(one, SOMEBODY, SOMEBODY)


def test_a_run_of_ones_own_is_called_where_it_says(run: RunDirectory, planter: socket.socket) -> None:
    with pytest.raises(wb.errors.WorkbenchError):
        wb.attach(run.path)._control.call("tune", timeout_s=1.0)
    assert not nobody_called(planter), "the planter hears a call, so the tests below would see one"


def test_nobody_is_called_by_a_look_at_a_run_that_is_dead(addressed: RunDirectory, planter: socket.socket) -> None:
    assert wb.attach(addressed.path).status.state == "dead"
    with pytest.raises(wb.errors.RunNotAlive):
        wb.attach(addressed.path).tune(learning_rate=1e-3)
    assert nobody_called(planter)


@pytest.mark.full
def test_a_run_that_is_resumed_forgets_the_addresses_that_lay_there(home: Path, planter: socket.socket) -> None:
    run = wb.launch("CartPole-v1", name="mine", actors=1, envs_per_actor=2, device="cpu")
    run.wait(updates=1)
    run.stop()
    certificate, _ = _self_signed("mine")
    told = {"host": "127.0.0.1", "port": planter.getsockname()[1], "machine": "elsewhere", "socket": "unix:/nowhere"}
    for path, data in ((run.directory.certificate, certificate),
                       *((run.directory.endpoints / f"{name}.json", json.dumps(told).encode())
                         for name in (SUPERVISOR, "learner", "learner-7"))):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o600)
    wb.resume("mine").wait(updates=run.status.updates + 2)
    run.stop()
    assert nobody_called(planter) and not run.directory.endpoints.exists()


def test_a_connection_is_of_the_folder_that_it_was_opened_for(run: RunDirectory) -> None:
    control = wb.attach(run.path)._control
    kept = control._open()
    assert control._open() is kept
    shutil.copytree(run.path, run.path.with_name("other"))
    run.path.rename(run.path.with_name("before"))
    run.path.with_name("other").rename(run.path)
    assert control._open() is not kept


@pytest.mark.parametrize("planted", ["link", "hard link of another's", "words", "readable"])
def test_a_token_that_is_not_the_runs_own_is_sent_to_nobody(
    run: RunDirectory, planter: socket.socket, tmp_path: Path, planted: str
) -> None:
    token, secret = run.path / "token", tmp_path / "secret"
    secret.write_text("ab" * 32)
    secret.chmod(0o600)
    token.unlink()
    if planted == "link":
        token.symlink_to(secret)
    elif planted == "hard link of another's":
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        os.link(secret, token)
        os.chown(secret, SOMEBODY, SOMEBODY)
    else:
        token.write_text("a line of some other file" if planted == "words" else "ab" * 32)
        token.chmod(0o600 if planted == "words" else 0o644)
    for ask in (lambda: wb.attach(run.path).status, lambda: wb.attach(run.path).tune(learning_rate=1e-3)):
        with pytest.raises(AccessDenied, match="token"):
            ask()
    assert nobody_called(planter)


def test_nothing_is_told_to_a_run_in_whose_place_everybody_can_put_another(
    run: RunDirectory, planter: socket.socket
) -> None:
    above = run.path.parent
    for mode, refused in ((0o777, True), (0o1777, False)):  # in a folder like /tmp one renames what is one's own
        above.chmod(mode)
        with pytest.raises(wb.errors.WorkbenchError) as told:
            wb.attach(run.path)._control.call("tune", timeout_s=1.0)
        assert nobody_called(planter) == refused
        assert (isinstance(told.value, AccessDenied) and "chmod o-w" in str(told.value)) == refused


@root
def test_another_users_run_is_looked_at_without_a_secret_and_cannot_be_steered(
    run: RunDirectory, planter: socket.socket
) -> None:
    given_away(run.path)
    handle = wb.attach(run.path)
    assert handle.status.reason == "the run is nobody's: this is what its files say." or handle.status.state == "dead"
    assert len(handle.metrics("loss")) > 0 and len(handle.events) > 0
    assert "planted" in repr(wb.runs())
    for steer in (lambda: handle.tune(learning_rate=1e-3), handle.pause, handle.stop, handle.checkpoint,
                  lambda: wb.resume(run.path)):
        with pytest.raises(AccessDenied, match="is nobody's: you can look at it"):
            steer()
    assert nobody_called(planter)


@root
@pytest.mark.parametrize("what", ["certificate", "address", "folder"])
def test_an_address_that_somebody_else_could_have_written_is_not_called(
    run: RunDirectory, planter: socket.socket, what: str
) -> None:
    path = {"certificate": run.certificate, "address": run.endpoints / f"{SUPERVISOR}.json",
            "folder": run.endpoints}[what]
    os.chown(path, SOMEBODY, SOMEBODY)
    with pytest.raises(AccessDenied, match="is nobody's, not yours"):
        wb.attach(run.path).tune(learning_rate=1e-3)
    assert nobody_called(planter)


def test_an_address_in_words_is_no_way_around_tls(run: RunDirectory, planter: socket.socket) -> None:
    published = run.endpoints / f"{SUPERVISOR}.json"
    host, port = planter.getsockname()
    for told in ({"socket": f"{host}:{port}", "machine": endpoints.machine()}, {"host": [host], "port": {}}, []):
        published.write_text(json.dumps(told))
        with pytest.raises(wb.errors.WorkbenchError):
            wb.attach(run.path)._control.call("tune", timeout_s=1.0)
    assert nobody_called(planter)
    assert reach(run, "learner").address.startswith("unix:")

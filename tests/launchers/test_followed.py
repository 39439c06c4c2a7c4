"""Whoever follows a run stands in for its supervisor; here its run and its reader are of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.conftest import CALM, eventually
from workbench.errors import AccessDenied, ConnectionLost, InvalidInput, OutOfBounds
from workbench.launchers.ray.finding import parted
from workbench.launchers.ray.follower import Follower, stand_by
from workbench.launchers.ray.run_reader import RunReader, look
from workbench.rundir import RunDirectory, lock
from workbench.rundir.files import decoded
from workbench.wire.rpc import Caller

ADDRESS = "ray://10.0.0.9:10001/near"


class Nearby(Follower):
    """Follows a run whose reader is an object of this process.

    Attributes:
        cable: whether anything arrives.
    """

    run: RunDirectory
    cable = True

    def _reach(self) -> None:
        self._reader = None
        if not self.cable:
            raise ConnectionLost("no cluster answers")
        self._path, self._reader = str(self.run.path), RunReader(str(self.run.path))

    def _sent(self, reader: Any, method: str, request: bytes, wait_s: float) -> Any:
        if not self.cable:
            raise RuntimeError("the cable is cut")
        return reader.ask(method, request)


@pytest.fixture(scope="module")
def run(module_home: Path) -> wb.Run:
    return wb.launch("testing/counting-v0", name="near", **{**CALM, "actors": 1}, total_frames=10**9)


@pytest.fixture(scope="module")
def follower(run: wb.Run) -> Iterator[Nearby]:
    said: dict[str, Any] = {}
    made = Nearby(ADDRESS, said.update)
    made.run = run.directory
    copy = made.begin()
    stand_by(copy.directory, said.update)
    threading.Thread(target=made.follow, args=[copy], daemon=True).start()
    eventually(lambda: said.get("following") == str(copy.directory.path))
    yield made


@pytest.fixture
def followed(follower: Nearby) -> wb.Run:
    assert follower._copy is not None
    return wb.attach(follower._copy.directory.path)


def test_what_is_done_to_the_copy_is_done_to_the_run(run: wb.Run, followed: wb.Run) -> None:
    assert followed.path != run.path and followed.name == ADDRESS
    assert followed.status.supervisor_pid == run.status.supervisor_pid
    assert followed.tune(entropy_cost=0.02)["new"] == {"entropy_cost": 0.02}
    assert followed.config.value("entropy_cost") == 0.02 == run.config.value("entropy_cost")
    assert followed.undo()["new"] == {"entropy_cost": followed.config.value("entropy_cost")}
    checkpoint = followed.checkpoint()
    assert checkpoint.path.parent == followed.directory.checkpoints
    checkpoint.verify()
    assert checkpoint.meta == run.checkpoints[-1].meta
    with followed.paused():
        assert run.state == "paused"
    frames = followed.status.frames
    assert followed.wait(frames=frames + 100, timeout_s=240, progress=False).frames >= frames + 100
    with pytest.raises(OutOfBounds):
        followed.scale(actors=10**6)


def test_the_copy_s_socket_wants_the_copy_s_own_token(run: wb.Run, followed: wb.Run) -> None:
    for token in ("0" * 64, run.directory.token()):
        with pytest.raises(AccessDenied):
            Caller(followed.directory.supervisor_address, token).call("ping")
    known = Caller(followed.directory.supervisor_address, followed.directory.token())
    assert known.call("ping")["name"] == ADDRESS


def test_a_cut_connection_is_no_death_and_mends_itself(follower: Nearby, followed: wb.Run) -> None:
    follower.cable = False
    try:
        with pytest.raises(ConnectionLost, match="cannot be reached|did not answer"):
            followed.scale(actors=1)
        assert followed.state == "training", "as far as is known, with the status's age"
        eventually(lambda: followed.status.age_s > 3)
    finally:
        follower.cable = True
    frames = followed.status.frames
    eventually(lambda: followed.status.age_s < 3 and followed.status.frames > frames)
    followed.scale(actors=1)


def test_who_comes_second_waits_until_the_first_has_gone(followed: wb.Run) -> None:
    path, said, taken = lock.of_follower(followed.directory).parent / "second", [], []
    path.mkdir()
    (path / "run.json").write_text("{}")
    second = RunDirectory(path)
    with lock.held(lock.of_follower(second), wait_s=0):
        waiting = threading.Thread(target=lambda: taken.append(stand_by(second, lambda **text: said.append(text))))
        waiting.start()
        eventually(lambda: said == [{"following": str(path)}])
        assert not taken
    waiting.join(240)
    assert taken and lock.is_held(lock.of_follower(second))


def test_a_node_shows_its_own_runs_and_no_copies(run: wb.Run, followed: wb.Run) -> None:
    seen = decoded(look("near", None))
    assert [one["path"] for one in seen["runs"]] == [str(run.path)] and seen["names"] == ["near"]
    assert decoded(look(str(followed.path), None))["runs"] == []
    assert decoded(look("far", str(run.path)))["runs"] == seen["runs"]
    assert decoded(look("../near", None))["runs"] == []


def test_an_address_has_a_cluster_and_a_run() -> None:
    assert parted("ray://10.0.0.9:10001/pong-1") == ("ray://10.0.0.9:10001", "pong-1")
    assert parted("ray://[::1]:10001/pong-1/") == ("ray://[::1]:10001", "pong-1")
    assert parted("ray://head:10001//nfs/runs/pong") == ("ray://head:10001", "/nfs/runs/pong")
    assert parted("ray://head:10001//home/me/.workbench/runs/pong")[1] == "/home/me/.workbench/runs/pong"
    for wrong in ("ray://head/pong", "ray://head:10001", "ray://head:10001/", "ray://head:10001/../x",
                  "ray://head:10001/a b", "ray://head:10001/a/../b", "ray://head:10001//a/../b",
                  "ray://head:10001//a/./b", "ray://head:10001/.pong",
                  "ray://head:10001/a/b", "ray://head:10001/-x", "http://head:1/x", "ray://a:1/x\nb"):
        with pytest.raises(InvalidInput, match="ray://HOST:PORT/NAME"):
            parted(wrong)


def test_the_end_of_the_run_is_the_end_of_the_copy_s_life(run: wb.Run, followed: wb.Run) -> None:
    assert followed.stop(timeout_s=60).state == "stopped"
    assert followed.checkpoints[-1].path.name == run.checkpoints[-1].path.name
    assert not lock.is_alive(run.directory) and not lock.is_held(lock.of_supervisor(followed.directory))

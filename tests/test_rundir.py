"""A run's directory: what is damaged or goes away costs no other run anything."""

from __future__ import annotations

import resource
import threading
from pathlib import Path

import pytest

import workbench as wb
from workbench import rundir
from workbench.config import RunConfig
from workbench.errors import HomeNotWritable, RunNotFound, StorageFailed
from workbench.rundir import files


def record(created: float) -> dict[str, object]:
    return {"created": created, "config": RunConfig.build("CartPole-v1").to_json(), "state": "stopped"}


@pytest.mark.parametrize("damage", ["{", "[]", ""])
def test_a_damaged_record_hides_its_own_run_alone(home: Path, damage: str) -> None:
    rundir.create("old", record(1.0))
    rundir.create("new", record(3.0))
    rundir.create("damaged", record(2.0)).record.write_text(damage)
    assert [one.name for one in wb.runs()] == ["new", "old", "damaged"]
    assert (wb.runs()["old"].state, wb.runs()["damaged"].state) == ("stopped", "damaged")
    with pytest.raises(StorageFailed, match=r"cannot read .*damaged/run\.json"):
        wb.attach("damaged")


def test_runs_that_are_deleted_meanwhile_are_left_out(home: Path) -> None:
    rundir.create("stays", record(1.0))
    done = threading.Event()

    def come_and_go() -> None:
        while not done.is_set():
            rundir.create("goes", record(2.0)).record.unlink()
            (home / "runs" / "goes").rename(home / f"gone-{len(list(home.iterdir()))}")

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(200):
            assert "stays" in [one.name for one in rundir.every()]
    finally:
        done.set()
        thread.join()


def test_a_run_that_a_full_disk_refuses_leaves_nothing(home: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # no file can be written
    try:
        with pytest.raises(HomeNotWritable, match="cannot create the run 'half' in"):
            rundir.create("half", record(1.0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert rundir.create("half", record(1.0)).read()["state"] == "stopped"


def test_whatever_adds_to_a_new_run_and_fails_leaves_nothing(home: Path) -> None:
    def failing(run: rundir.RunDirectory) -> None:
        (run.checkpoints / "half").touch()
        assert [one.name for one in rundir.every()] == [], "it is a run when it is complete"
        raise StorageFailed("the disk is full")

    with pytest.raises(StorageFailed, match="the disk is full"):
        rundir.create("half", record(1.0), prepare=failing)
    assert list((home / "runs").iterdir()) == []


def test_the_parent_of_a_run_is_known_in_every_form_that_a_record_had(home: Path) -> None:
    assert rundir.create("alone", record(1.0)).parent() is None
    assert rundir.create("none", {**record(1.0), "parent": None}).parent() is None
    path = home / "runs" / "alone" / "checkpoints" / "000000000100"
    old = rundir.create("old", {**record(1.0), "parent": str(path)}).parent()
    assert old == {"checkpoint": str(path), "take": "weights", "optimizer": False, "replay": False, "run": "alone"}
    new = rundir.parent_of(Path("/elsewhere/100"), take="all", optimizer=True, replay=True)
    assert rundir.create("new", {**record(1.0), "parent": new}).parent() == new
    assert new["run"] is None


@pytest.mark.parametrize(("text", "size", "most", "lines"), [
    (b"a\nb\nc", 99, 9, [b"a", b"b", b"c"]), (b"a\nb\nc", 4, 9, [b"b", b"c"]), (b"a\nb\nc", 99, 2, [b"b", b"c"]),
    (b"", 99, 9, [b""]), (b"abcdef", 3, 9, []),
])  # fmt: skip
def test_the_newest_lines_of_a_file_are_whole_ones(
    tmp_path: Path, text: bytes, size: int, most: int, lines: list[bytes]
) -> None:
    (tmp_path / "list").write_bytes(text)
    assert files.last_lines(tmp_path / "list", size=size, most=most) == lines


def test_a_run_is_refused_its_path_once_another_run_has_it(home: Path) -> None:
    run = rundir.create("pong", record(7.0)).that_is_there()
    run.check_place()
    run.path.rename(run.path.with_name("away"))
    with pytest.raises(StorageFailed, match="moved or deleted while the run is alive"):
        run.check_place()
    rundir.create("pong", record(8.0))
    with pytest.raises(StorageFailed, match="moved or deleted while the run is alive"):
        run.check_place()
    with pytest.raises(RunNotFound, match="another run now"):
        run.write(state="stopped")


def test_the_url_of_a_copy_is_no_run_and_the_error_says_how_it_becomes_one(home: Path) -> None:
    for call in (rundir.find, wb.attach, wb.rollout):
        with pytest.raises(RunNotFound, match=r"wb.resume\('file:///kept/pong'\) brings it here and goes on with it"):
            call("file:///kept/pong")

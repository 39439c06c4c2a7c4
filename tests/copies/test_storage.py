"""A run's copy in storage: on a plain file system, and on a server that speaks S3."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import psutil
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import workbench as wb
from tests.conftest import CALM, eventually
from tests.written_checkpoints import flip, meta, save
from workbench import checkpoints, copies, rundir
from workbench.checkpoints.checkpoint import META
from workbench.config import RunConfig
from workbench.copies import FOLDER, LAST_COPY_S, places, restored_run, run_copy, url_storage
from workbench.copies.url_storage import Storage, is_url
from workbench.errors import (
    AccessDenied,
    CheckpointCorrupt,
    InvalidInput,
    MissingPackage,
    RunExists,
    RunNotFound,
    StorageFailed,
)
from workbench.launchers.colab import ColabLauncher
from workbench.metrics import MetricsReader, MetricsWriter, Progress
from workbench.rundir import RunDirectory, lock
from workbench.running.starts import starting
from workbench.supervisor import storing
from workbench.supervisor.storing import StoredCopy

BUCKET = "runs"


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    """The address of a server of our own that speaks S3."""
    pytest.importorskip("moto")
    pytest.importorskip("s3fs")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: _answers(port), what="the server of S3 answers")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


@pytest.fixture(params=["file", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty folder of storage."""
    return f"file://{tmp_path}/kept" if request.param == "file" else _in_s3(request, tmp_path, monkeypatch)


def _in_s3(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    server = request.getfixturevalue("s3_server")
    for name, value in {"AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s",
                        "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    fsspec.filesystem("s3").makedirs(BUCKET, exist_ok=True)
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture(params=["memory", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty folder of storage that neither renames nor has folders of its own."""
    return f"memory://{tmp_path.name}" if request.param == "memory" else _in_s3(request, tmp_path, monkeypatch)


def made(name: str = "pong", **record: Any) -> RunDirectory:
    config = RunConfig.build("CartPole-v1").to_json()
    run = rundir.create(name, {"created": 7.0, "config": config, "state": "stopped", **record})
    MetricsWriter(run.metrics).close()
    return run


def files_of(url: str) -> list[str]:
    file_system, root = fsspec.core.url_to_fs(url)
    file_system.invalidate_cache()
    return sorted(path.removeprefix(f"{root}/") for path in file_system.find(root))


def test_what_is_kept_comes_back_and_goes_on(url: str, home: Path) -> None:
    run = made()
    newest = save(run.checkpoints, frames=100)
    assert Storage(url).keep(run) == 100
    assert Storage(url).keep(run) is None, "it is there already"
    assert Storage(url).names() == ["pong"]
    shutil.rmtree(run.path)
    assert url_storage.restored(f"{url}/pong") == "pong"
    assert checkpoints.every(run.checkpoints)[-1].verify() is None
    assert checkpoints.every(run.checkpoints)[-1].frames == newest.frames
    assert RunDirectory(run.path).read()["created"] == 7.0


def test_only_the_newest_checkpoints_and_the_best_one_are_kept(url: str, home: Path) -> None:
    run = made()
    for frames in (100, 200, 300, 400):
        save(run.checkpoints, frames=frames)
        assert Storage(url).keep(run) == frames
    kept = {path.split("/")[2] for path in files_of(url) if "/checkpoints/" in path}
    assert kept == {checkpoint.path.name for checkpoint in checkpoints.every(run.checkpoints)[-2:]}


def mean_of(value: float) -> dict[str, Any]:
    """How good a checkpoint is, as its description tells it."""
    return {"by": "episode_return", "mean": value, "episodes": 100}


def test_the_best_checkpoint_is_copied_though_a_newer_one_came_first(url: str, home: Path) -> None:
    run, kept = made(), Storage(url)
    save(run.checkpoints, frames=100, judged=mean_of(1.0))
    assert kept.keep(run) == 100
    best = save(run.checkpoints, frames=200, judged=mean_of(9.0))
    for frames in (300, 400, 500):
        save(run.checkpoints, frames=frames, judged=mean_of(2.0))
    assert checkpoints.best(checkpoints.every(run.checkpoints)) == best
    assert kept.keep(run) == 500 and kept.keep(run) is None
    save(run.checkpoints, frames=600, judged=mean_of(2.0))
    assert kept.keep(run) == 600
    folders = {path.split("/")[2] for path in files_of(url) if path.endswith(META)}
    assert {int(folder) for folder in folders} == {200, 500, 600}
    shutil.rmtree(run.path)
    url_storage.restored(f"{url}/pong")
    assert checkpoints.best(checkpoints.every(run.checkpoints)).frames == 200


def test_a_best_checkpoint_that_is_damaged_here_keeps_no_copy_away(url: str, home: Path) -> None:
    run = made()
    best = save(run.checkpoints, frames=100, judged=mean_of(9.0))
    save(run.checkpoints, frames=200, judged=mean_of(1.0))
    flip(next(best.path.glob("*.safetensors")), -1)
    assert Storage(url).keep(run) == 200 and Storage(url).keep(run) is None


@pytest.mark.parametrize("fails", ["copy_demonstrations", "tracked", "_copy_metrics"])
def test_a_copy_counts_when_all_that_belongs_to_its_checkpoint_is_there(
    fails: str, url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, works = made(), getattr(run_copy, fails)
    save(run.checkpoints, frames=100)

    def breaks(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(run_copy, fails, breaks)
    with pytest.raises(OSError, match="no space left"):
        Storage(url).keep(run)
    monkeypatch.setattr(run_copy, fails, works)
    assert Storage(url).keep(run) == 100
    assert "pong/metrics.sqlite" in files_of(url)


def test_what_a_copy_left_that_broke_off_is_gone_after_the_next(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, rename, replace = made(), os.rename, os.replace
    for number, name in enumerate(("rename", "replace")):
        save(run.checkpoints, frames=100 + number)

        def breaks(*_: object) -> None:
            raise OSError("no space left on device")

        monkeypatch.setattr(run_copy.os, name, breaks)
        with pytest.raises(OSError, match="no space left"):
            Storage(str(tmp_path)).keep(run)
        assert list((tmp_path / "pong").rglob(".writing-*"))
        monkeypatch.setattr(run_copy.os, "rename", rename)
        monkeypatch.setattr(run_copy.os, "replace", replace)
    save(run.checkpoints, frames=300)
    assert Storage(str(tmp_path)).keep(run) == 300
    assert not list((tmp_path / "pong").rglob(".writing-*"))


def test_nothing_is_written_below_a_mount_point_whose_disk_was_taken_away(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts, is_mount = {str(tmp_path / "disk")}, os.path.ismount
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) in mounts or is_mount(path))
    run, kept = made(), Storage(str(tmp_path / "disk" / "runs"))
    save(run.checkpoints, frames=100)
    assert kept.keep(run) == 100
    mounts.clear()
    shutil.rmtree(tmp_path / "disk" / "runs")
    save(run.checkpoints, frames=200)
    with pytest.raises(StorageFailed, match="is mounted no more, on which .*runs was. Mount it again"):
        kept.keep(run)
    assert not list((tmp_path / "disk").iterdir())


def test_a_copy_that_is_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    run, victim = made(), tmp_path / "mine"
    save(run.checkpoints, frames=100)
    victim.mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "pong").symlink_to(victim)
    with pytest.raises(StorageFailed, match="is a link to"):
        Storage(str(tmp_path / "kept")).keep(run)
    assert not list(victim.iterdir())


def test_a_run_claims_its_name_before_its_first_checkpoint_and_gives_it_back(
    url: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = made()
    assert Storage(url).keep(ours) is None and Storage(url).taken("pong")
    assert Storage(url).keep(ours) is None, "it is ours"
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "elsewhere"))
    theirs = made(created=8.0)
    with pytest.raises(StorageFailed, match="is another run than 'pong'"):
        Storage(url).keep(theirs)
    Storage(url).release(theirs)
    assert Storage(url).taken("pong")
    Storage(url).release(ours)
    assert not Storage(url).taken("pong") and not Storage(url).names()
    Storage(url).keep(ours)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2 * run_copy._CLAIMED_S)
    assert not Storage(url).taken("pong"), "its machine is gone"
    if Storage(url).folder is not None:
        monkeypatch.setenv(FOLDER, str(Storage(url).folder))
        ColabLauncher().check_name("pong")
    save(theirs.checkpoints, frames=100)
    assert Storage(url).keep(theirs) == 100
    assert Storage(url).taken("pong")
    Storage(url).release(theirs)
    assert Storage(url).taken("pong"), "there is a checkpoint"


def test_the_last_copy_is_tried_again_where_storage_was_away_for_a_moment(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "_EVERY_S", 0.05)
    run, said = made(), list[str]()
    save(run.checkpoints, frames=100)
    (tmp_path / "kept").write_text("no folder")
    copy = StoredCopy(run, str(tmp_path / "kept"), on_failure=said.append)
    copy.ended.set()
    eventually(lambda: said, what="it failed once")
    (tmp_path / "kept").unlink()
    copy.close()
    assert Storage(str(tmp_path / "kept"))._whole("pong") and len(said) == 1
    monkeypatch.setattr(storing, "_TRY_LAST_S", 0.5)
    shutil.rmtree(tmp_path / "kept")
    (tmp_path / "kept").write_text("no folder")
    StoredCopy(run, str(tmp_path / "kept"), on_failure=said.append).close()
    assert ["is tried again" in one for one in said] == [True, True, False]


def test_storage_that_connects_at_once_and_is_away_keeps_no_run_that_is_here_from_going_on(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made(config=RunConfig.build("CartPole-v1", storage="ftp://127.0.0.1:1/runs").to_json())
    save(run.checkpoints, frames=100)
    with pytest.raises(StorageFailed, match="cannot be used now: ConnectionRefusedError"):
        Storage("ftp://127.0.0.1:1/runs")
    starting.catch_up(run, run.config())
    assert "pong goes on without its copy: storage at ftp" in capsys.readouterr().out


def test_only_where_the_run_is_here_a_damaged_record_of_its_copy_is_to_be_deleted(home: Path, tmp_path: Path) -> None:
    run = made()
    save(run.checkpoints, frames=100)
    Storage(str(tmp_path)).keep(run)
    (tmp_path / "pong" / "run.json").write_text('{"mirrored": "x"}')
    with pytest.raises(StorageFailed, match="delete it there: then it is written anew"):
        Storage(str(tmp_path)).check_free(run)
    shutil.rmtree(run.path)
    with pytest.raises(StorageFailed, match="run.json is damaged") as error:
        url_storage.restored(f"file://{tmp_path}/pong")
    assert "delete it" not in str(error.value)


def test_a_claim_that_is_renewed_holds_and_one_beside_a_checkpoint_is_none(
    url: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, run = time.time(), made()
    Storage(url).keep(run)
    monkeypatch.setattr(time, "time", lambda: now + 0.9 * run_copy._CLAIMED_S)
    Storage(url).keep(run)
    monkeypatch.setattr(time, "time", lambda: now + 1.8 * run_copy._CLAIMED_S)
    assert Storage(url).taken("pong")
    save(run.checkpoints, frames=100)
    Storage(url).keep(run)
    there = Storage(url)
    there._files.pipe_file(there._at("pong", "run.json"), json.dumps({**run.read(), "claimed": 1.0}).encode())
    assert Storage(url).taken("pong"), "a Drive uploads in any order"
    shutil.rmtree(run.path)
    url_storage.restored(f"{url}/pong")
    assert "claimed" not in rundir.find("pong").read()


def test_a_name_is_given_back_without_what_else_lies_there(home: Path, tmp_path: Path) -> None:
    run, there = made(), tmp_path / "pong" / "thesis.txt"
    there.parent.mkdir()
    there.write_text("dear to me")
    Storage(str(tmp_path)).keep(run)
    assert "for a run that has no checkpoint yet" in Storage(str(tmp_path)).taken("pong")
    Storage(str(tmp_path)).release(run)
    assert there.read_text() == "dear to me" and list(there.parent.iterdir()) == [there]


def test_a_run_that_ends_without_a_checkpoint_gives_its_name_back(
    url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "_EVERY_S", 0.01)
    copy = StoredCopy(made(), url, on_failure=pytest.fail)
    eventually(lambda: Storage(url).taken("pong"), what="its name is claimed")
    copy.close()
    assert not Storage(url).names()


def test_a_copy_has_how_its_run_ended_also_without_a_new_checkpoint(
    url: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "_EVERY_S", 0.01)
    run = made()
    save(run.checkpoints, frames=100)
    copy = StoredCopy(run, url, on_failure=pytest.fail)
    eventually(lambda: copy._copied, what="it is there, of a run that trains")
    error = {"type": "RunFailed", "message": "the learner keeps failing"}
    with closing(MetricsWriter(run.metrics)) as writer:
        writer.event("failed", error["message"], progress=Progress(0, 0, 0, 0.0))
        writer.commit()
    run.write(state="failed", error=error)
    copy.close()
    Storage(url).fetch("pong", tmp_path / "fetched")
    fetched = RunDirectory(tmp_path / "fetched" / "pong")
    assert (fetched.read()["state"], fetched.read()["error"]) == ("failed", error)
    assert MetricsReader(fetched.metrics).events()[-1]["kind"] == "failed"


def test_a_copy_is_not_resumed_or_deleted_by_its_path(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    run = made(config=RunConfig.build("testing/counting-v0", storage=str(folder)).to_json())
    save(run.checkpoints, frames=100)
    Storage(str(folder)).keep(run)
    with pytest.raises(InvalidInput, match=r"is the copy of a run.*wb\.resume\('file:///.*/kept/pong'\)"):
        wb.resume(folder / "pong")
    with pytest.raises(InvalidInput, match=r"is the copy of a run.*delete that folder itself"):
        wb.attach(folder / "pong").delete()
    assert (folder / "pong").is_dir() and run.path.is_dir()
    assert not lock.is_alive(RunDirectory(folder / "pong"))


def test_nothing_is_copied_onto_a_run_that_lives_in_the_place_of_the_copy(home: Path, tmp_path: Path) -> None:
    run = made()
    save(run.checkpoints, frames=100)
    Storage(str(tmp_path)).keep(run)
    save(run.checkpoints, frames=200)
    before = files_of(str(tmp_path / "pong"))
    with (
        lock.held(lock.of_supervisor(RunDirectory(tmp_path / "pong")), wait_s=0.0),
        pytest.raises(StorageFailed, match="a run lives in"),
    ):
        Storage(str(tmp_path)).keep(run)
    assert set(files_of(str(tmp_path / "pong"))) - {"lock"} == set(before)


@pytest.mark.parametrize(("given", "recorded"), [
    ("kept", "{here}/kept"), ("~/kept", "{home}/kept"), ("file://kept", "file://{here}/kept"), ("/kept/", "/kept"),
    ("s3://bucket/runs", "s3://bucket/runs"), ("", ""),
])
def test_a_relative_folder_is_recorded_from_the_root(
    given: str, recorded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/somebody")
    assert copies.absolute(given) == recorded.format(here=tmp_path, home="/somebody")


def test_a_storage_that_cannot_be_meant_is_refused(home: Path, tmp_path: Path) -> None:
    for place, words in {"memory://runs": "the memory of one process", "~nobody-here/runs": "can be no folder",
                         "a\0b": "a NUL in it", "dir://runs": "no folder that can be written"}.items():
        with pytest.raises(InvalidInput, match=words):
            wb.launch("testing/counting-v0", storage=place, **CALM)
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "runs", tmp_path / ("long" * 100)):
        with pytest.raises(StorageFailed, match="cannot write .* Give another storage"):
            wb.launch("testing/counting-v0", storage=str(place), **CALM)
    for url in (f"file://{tmp_path}/..", f"file://{tmp_path}/{'long' * 100}", f"file://{tmp_path}/."):
        with pytest.raises(InvalidInput, match="names no run"):
            wb.resume(url)
    with pytest.raises(InvalidInput, match="one slash where a URL has two: 's3://bucket/runs'"):
        wb.launch("testing/counting-v0", storage="s3:/bucket/runs", **CALM)
    with pytest.raises(InvalidInput, match="is the folder of the runs themselves"):
        wb.launch("testing/counting-v0", storage=str(home / "runs"), **CALM)


def test_a_reader_never_sees_half_of_a_checkpoint(objects: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever object the connection breaks at."""
    url, run, files = objects, made(), Storage(objects)._files
    put = files.put_file
    save(run.checkpoints, frames=100)
    Storage(url).keep(run)
    save(run.checkpoints, frames=200)
    for broken in range(20):
        left = iter(range(broken))

        def breaks(path: str, there: str, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise OSError("the network is gone")
            put(path, there)

        monkeypatch.setattr(files, "put_file", breaks)
        try:
            done = Storage(url).keep(run) == 200
        except StorageFailed as error:
            assert "the network is gone" in str(error)
            done = False
        monkeypatch.setattr(files, "put_file", put)
        into = home / f"seen-{broken}"
        Storage(url).fetch("pong", into)
        newest, _ = checkpoints.newest_good(RunDirectory(into / "pong").checkpoints, replay=False)
        assert newest is not None and newest.frames in (100, 200)
        if done:
            assert broken > 3 and newest.frames == 200
            return
    raise AssertionError("it never came through")


def test_uploads_that_broke_off_do_not_fill_the_storage(
    objects: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, run, kept = objects, made(), Storage(objects)
    put = kept._files.put_file
    save(run.checkpoints, frames=100)

    def breaks(path: str, there: str) -> None:
        if there.endswith(META):
            raise OSError("the network is gone")
        put(path, there)

    with monkeypatch.context() as patch:
        patch.setattr(kept._files, "put_file", breaks)
        with pytest.raises(StorageFailed, match="the network is gone"):
            kept.keep(run)
    other = Path(files_of(url)[0].split("/")[0], "checkpoints/000000000150/rng.safetensors")
    kept._files.makedirs(kept._at(str(other.parent)), exist_ok=True)
    kept._files.pipe_file(kept._at(str(other)), b"of another machine, which is uploading")
    save(run.checkpoints, frames=200)
    assert kept.keep(run) == 200
    folders = {path.split("/")[2] for path in files_of(url) if "/checkpoints/" in path}
    assert folders == {"000000000150", "000000000200"}


def test_after_a_step_back_the_newest_are_kept_and_not_those_with_most_frames(url: str, home: Path) -> None:
    run = made()
    for created, frames in enumerate((700, 800)):
        save(run.checkpoints, frames=frames, created=created)
        Storage(url).keep(run)
    shutil.rmtree(run.checkpoints)
    for created, frames in enumerate((300, 310, 320), start=2):
        save(run.checkpoints, frames=frames, created=created)
        assert Storage(url).keep(run) == frames
    kept = {path.split("/")[2] for path in files_of(url) if "/checkpoints/" in path}
    assert kept == {"000000000310", "000000000320"}


def test_errors_about_what_is_damaged_there_name_the_url(url: str, home: Path) -> None:
    run = made()
    save(run.checkpoints, frames=100)
    Storage(url).keep(run)
    storage_there = Storage(url)
    weights = next(path for path in files_of(url) if path.endswith("model.safetensors"))
    storage_there._files.pipe_file(storage_there._at(weights), b"torn")
    shutil.rmtree(run.path)
    with pytest.raises(CheckpointCorrupt, match=f"^{url}/pong holds no checkpoint that is whole"):
        url_storage.restored(f"{url}/pong")
    storage_there._files.pipe_file(storage_there._at("pong", "run.json"), b"{")
    with pytest.raises(StorageFailed, match=f"^cannot read {url}/pong/run.json"):
        url_storage.restored(f"{url}/pong")
    with pytest.raises(InvalidInput, match="names no run: give the storage and the run's name"):
        url_storage.restored("file:///")


def test_another_run_of_that_name_stays_as_it_is(url: str, home: Path) -> None:
    save(made().checkpoints, frames=100)
    Storage(url).keep(rundir.find("pong"))
    shutil.rmtree(rundir.find("pong").path)
    other = made(created=8.0)
    save(other.checkpoints, frames=300)
    with pytest.raises(StorageFailed, match=r"/pong is another run than 'pong' .*fork"):
        Storage(url).keep(other)


def on_two_machines(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[RunDirectory, RunDirectory]:
    """A run that trains, and the same one on a machine that has restored it from its copy."""
    first = made(state="running")
    save(first.checkpoints, frames=100)
    Storage(url).keep(first)
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "second"))
    return first, rundir.find(url_storage.restored(f"{url}/pong"))


def test_who_restores_a_copy_holds_it_and_whoever_held_it_copies_no_more(
    url: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = on_two_machines(url, tmp_path, monkeypatch)
    assert "s ago by a machine that had not ended it; should it still train there" in capsys.readouterr().out
    save(first.checkpoints, frames=200)
    assert Storage(url).keep(first) == 200, "until the other has a checkpoint"
    save(second.checkpoints, frames=150)
    assert Storage(url).keep(second) == 150
    save(first.checkpoints, frames=300)
    with pytest.raises(StorageFailed, match=r"/pong is 'pong' .*, which another machine goes on with; both .*fork"):
        Storage(url).keep(first)
    monkeypatch.setenv("WORKBENCH_HOME", str(home))
    with pytest.raises(StorageFailed, match="another machine goes on with"):
        url_storage.restored(f"{url}/pong")
    shutil.rmtree(first.path)
    third = rundir.find(url_storage.restored(f"{url}/pong"))
    assert checkpoints.every(third.checkpoints)[-1].frames == 150
    save(third.checkpoints, frames=170)
    assert Storage(url).keep(third) == 170
    save(second.checkpoints, frames=160)
    with pytest.raises(StorageFailed, match="another machine goes on with"):
        Storage(url).keep(second)


def test_an_upload_of_the_machine_before_does_not_take_the_copy_back(
    url: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has asked whose the copy is, and writes run.json after the next machine has."""
    first, second = on_two_machines(url, tmp_path, monkeypatch)
    save(second.checkpoints, frames=150)
    save(first.checkpoints, frames=200)
    with monkeypatch.context() as patch:
        upload = Storage._upload

        def uploaded(self: Storage, *arguments: Any) -> None:
            patch.undo()
            Storage(url).keep(second)
            upload(self, *arguments)

        patch.setattr(Storage, "_upload", uploaded)
        patch.setattr(run_copy, "check_same", lambda *_: None)
        assert Storage(url).keep(first) == 200
    save(second.checkpoints, frames=160)
    assert Storage(url).keep(second) == 160
    save(first.checkpoints, frames=210)
    with pytest.raises(StorageFailed, match="another machine goes on with"):
        Storage(url).keep(first)


def test_a_run_that_was_restored_long_ago_takes_no_copy_over_that_went_on_since(
    url: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = on_two_machines(url, tmp_path, monkeypatch)
    save(second.checkpoints, frames=150)
    now = time.time()
    monkeypatch.setattr(run_copy.time, "time", lambda: now + LAST_COPY_S - 10)
    last = {**first.read(), "mirrored": run_copy.time.time()}
    run_copy.check_same(second, last, "the last copy of a machine that ends")
    monkeypatch.setattr(run_copy.time, "time", lambda: now + LAST_COPY_S + 10)
    save(first.checkpoints, frames=200)
    assert Storage(url).keep(first) == 200
    with pytest.raises(StorageFailed, match="another machine goes on with"):
        Storage(url).keep(second)
    save(first.checkpoints, frames=300)
    assert Storage(url).keep(first) == 300


def test_a_drives_copy_counts_as_well_and_one_folder_is_one_place(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my::drive [old]"
    monkeypatch.setenv(FOLDER, str(folder))
    config = RunConfig.build("CartPole-v1", launcher="colab", storage=f"file://{folder}/")
    assert places(config) == {str(folder): True}
    assert places(RunConfig.build("CartPole-v1", launcher="colab", storage="s3://a/b")) == {
        "s3://a/b": False, str(folder): True}
    assert places(RunConfig.build("CartPole-v1")) == {}
    run = made()
    save(run.checkpoints, frames=100)
    assert Storage(str(folder)).keep(run) == 100
    assert Storage(str(folder)).names() == ["pong"] and Storage("/").folder == Path("/")
    shutil.rmtree(run.checkpoints)
    starting.catch_up(run, config)
    assert checkpoints.newest(run.checkpoints).frames == 100
    with pytest.raises(RunExists, match=r"Go on with it: wb\.resume\('file:///"):
        wb.launch("CartPole-v1", name="pong", storage=str(folder))


def test_copies_that_hang_end_in_the_same_time(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, said, hangs = made(), [], threading.Event()
    save(run.checkpoints, frames=100)
    monkeypatch.setattr(Storage, "keep", lambda self, run, ended: hangs.wait(240))
    monkeypatch.setattr(storing, "_LAST_S", 2.0)
    copies = [StoredCopy(run, f"file://{tmp_path}/{name}", on_failure=said.append) for name in ("a", "b", "c")]
    began = time.monotonic()
    storing.end(copies)
    took_s = time.monotonic() - began
    hangs.set()
    assert took_s < 5.0 and len(said) == 3 and "were not copied to" in said[0]


def test_a_clock_that_was_ahead_on_the_machine_before_stops_no_copy(
    url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    with monkeypatch.context() as fast:
        fast.setattr(time, "time", lambda: real() + 3600)
        run = made()
        for frames in (100, 200):
            save(run.checkpoints, frames=frames)
            assert Storage(url).keep(run) == frames
    shutil.rmtree(run.path)
    assert url_storage.restored(f"{url}/pong") == "pong"
    for frames in (300, 400):
        save(run.checkpoints, frames=frames)
        assert Storage(url).keep(run) == frames
    shutil.rmtree(run.path)
    assert url_storage.restored(f"{url}/pong") == "pong"
    assert checkpoints.newest(run.checkpoints).frames == 400


@pytest.mark.parametrize("lost", ["all", "newest", "damaged", "description"])
def test_a_run_that_has_lost_checkpoints_gets_those_of_its_copy(
    lost: str, url: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, drive, stored = made(), tmp_path / "drive", RunConfig.build("CartPole-v1", storage=url)
    save(run.checkpoints, frames=50)
    newest = save(run.checkpoints, frames=100)
    assert Storage(url).keep(run) == 100 and run_copy.copy(run, drive) == 100
    starting.catch_up(run, stored)
    assert not capsys.readouterr().out
    for go_on in (lambda: url_storage.restored(f"{url}/pong"), lambda: restored_run.restored("pong", drive),
                  lambda: starting.catch_up(run, stored)):
        if lost in ("all", "newest"):
            shutil.rmtree(run.checkpoints if lost == "all" else newest.path)
        else:
            flip(newest.path / META if lost == "description" else next(newest.path.glob("*.safetensors")), -1)
        go_on()
        whole, damaged = checkpoints.newest_good(run.checkpoints)
        assert whole is not None and (whole.path, whole.frames, damaged) == (newest.path, 100, [])
        assert whole.meta["brought"] in (url, str(drive))
        what = "all checkpoints" if lost == "all" else "what came after 50 frames"
        assert f"pong has lost {what}: what it had at 100 frames was brought from" in capsys.readouterr().out
        assert Storage(url).keep(run) is None, "it is there already"
    aside = [path.name for path in run.checkpoints.iterdir() if path.name.startswith("damaged-000000000100-")]
    assert len(aside) == (0 if lost in ("all", "newest") else 3)
    starting.catch_up(made("new"), stored)  # of which nothing is there
    assert not capsys.readouterr().out


def test_a_run_that_has_lost_its_history_gets_that_of_its_copy(
    url: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And does not take its place with an empty one."""
    run, drive, stored = made(), tmp_path / "drive", RunConfig.build("CartPole-v1", storage=url)
    run.trackers.mkdir()
    rundir.write_record(run.trackers / "wandb.json", {"identity": "pong-1", "rows": {"loss": 1}, "event": 1, "sent": 7})
    with closing(MetricsWriter(run.metrics)) as writer:
        writer.event("launch", "launched", progress=Progress(0, 0, 0, 0.0))
        writer.commit()
    save(run.checkpoints, frames=100)
    assert Storage(url).keep(run) == 100 and run_copy.copy(run, drive) == 100
    place = {"identity": "pong-1", "rows": {"loss": 9}, "event": 9, "sent": 20}
    rundir.write_record(run.trackers / "wandb.json", place)
    for lose, go_on in ((Path.unlink, lambda: url_storage.restored(f"{url}/pong")),
                        (Path.unlink, lambda: restored_run.restored("pong", drive)),
                        (lambda path: path.write_bytes(b""), lambda: starting.catch_up(run, stored))):
        lose(run.metrics)
        Path(f"{run.metrics}-wal").write_bytes(b"of the file that is gone")
        go_on()
        said = "pong has lost its history, metrics.sqlite: that of its copy in"
        assert said in capsys.readouterr().out
        first, then = [event["message"] for event in MetricsReader(run.metrics).events()]
        assert first == "launched" and then.startswith(said)
        place = rundir.read_record(run.trackers / "wandb.json")
        assert place["rows"] == {"loss": 1} and place["sent"] > 100_000
        go_on()
        assert not capsys.readouterr().out
    assert len(list(run.path.glob("damaged-metrics.sqlite-wal-*"))) == 3


def test_a_run_whose_history_is_gone_waits_for_a_copy_that_is_away_and_says_so_without_one(
    home: Path, tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = made()
    save(run.checkpoints, frames=100)
    run.metrics.unlink(missing_ok=True)
    away = RunConfig.build("CartPole-v1", storage=f"file://{tmp_path}/away/kept")
    starting.catch_up(run, away)  # it has not trained yet
    run.write(lives=1)
    with pytest.raises(StorageFailed, match="no history here and would begin an empty one, and its copy cannot be"):
        starting.catch_up(run, away)
    capsys.readouterr()
    starting.catch_up(run, RunConfig.build("CartPole-v1"))
    assert "pong has lost its history, " in capsys.readouterr().out


def test_a_run_that_is_whole_here_is_told_how_to_do_without_a_copy_that_cannot_be_read(
    home: Path, tmp_path: Path
) -> None:
    run, config = made(), RunConfig.build("CartPole-v1", storage=f"file://{tmp_path}/kept")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "pong").write_bytes(b"no folder")
    with pytest.raises(StorageFailed) as without:
        starting.catch_up(run, config)
    save(run.checkpoints, frames=100)
    with pytest.raises(StorageFailed) as whole:
        starting.catch_up(run, config)
    assert str(whole.value) == f"{without.value} Or go on without that copy: wb.attach('pong').fork(storage='')."


@pytest.mark.parametrize("held", [lock.of_supervisor, lock.of_start])
def test_nothing_is_brought_where_processes_of_the_run_may_write(
    held: Callable[[RunDirectory], Path], url: str, home: Path
) -> None:
    run = made()
    save(run.checkpoints, frames=100)
    Storage(url).keep(run)
    shutil.rmtree(run.checkpoints)
    with lock.held(held(run), wait_s=0):
        assert url_storage.restored(f"{url}/pong") == "pong" and not checkpoints.every(run.checkpoints)


def test_the_best_checkpoint_comes_back_too_and_stays_in_the_copy(
    url: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, stored = made(), RunConfig.build("CartPole-v1", storage=url)
    for frames, mean in ((100, 9.0), (200, 1.0), (300, 1.0)):
        save(run.checkpoints, frames=frames, judged=mean_of(mean))
        Storage(url).keep(run)
    shutil.rmtree(run.checkpoints)
    starting.catch_up(run, stored)
    assert [one.frames for one in checkpoints.every(run.checkpoints)] == [100, 300]
    for harm in (shutil.rmtree, lambda path: flip(path / META, -1), lambda path: flip(path / "model.safetensors", -1)):
        best = next(one.path for one in checkpoints.every(run.checkpoints) if one.frames == 100)
        harm(best)
        capsys.readouterr()
        starting.catch_up(run, stored)
        assert "pong has lost its best checkpoint: what it had at 100 frames was brought" in capsys.readouterr().out
        assert checkpoints.best_good(checkpoints.every(run.checkpoints))[0].frames == 100
    for frames in (400, 500):
        save(run.checkpoints, frames=frames, judged=mean_of(1.0))
        Storage(url).keep(run)
    assert {int(path.split("/")[2]) for path in files_of(url) if path.endswith(META)} == {100, 400, 500}


def test_the_best_checkpoint_stays_in_the_copy_also_where_it_is_not_here(url: str, home: Path) -> None:
    run = made()
    for frames, mean in ((100, 9.0), (200, 1.0), (300, 1.0), (400, 1.0), (500, 1.0)):
        save(run.checkpoints, frames=frames, judged=mean_of(mean))
        Storage(url).keep(run)
        shutil.rmtree(run.checkpoints)
    assert {int(path.split("/")[2]) for path in files_of(url) if path.endswith(META)} == {100, 400, 500}


def test_what_comes_back_is_as_old_and_as_much_asked_for_as_it_was(url: str, home: Path) -> None:
    run = made()
    asked_for = save(run.checkpoints, frames=100, requested=True)
    Storage(url).keep(run)
    for lost in (run.checkpoints, run.path):
        shutil.rmtree(lost)
        url_storage.restored(f"{url}/pong")
        [back] = checkpoints.every(run.checkpoints)
        assert (back.requested, back.created) == (True, asked_for.created)


def test_a_checkpoint_that_cannot_be_brought_is_an_error(
    home: Path, tmp_path: Path, objects: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, stored = made(), RunConfig.build("CartPole-v1").replaced(storage=objects)
    save(run.checkpoints, frames=100)
    Storage(objects).keep(run)
    shutil.rmtree(run.checkpoints)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Storage, "_fetch", full)
    with pytest.raises(StorageFailed, match="No space left"):
        starting.catch_up(run, stored)


def test_a_run_whose_checkpoints_are_gone_waits_for_a_copy_that_is_away(
    home: Path, tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = made()
    stored = RunConfig.build("CartPole-v1", storage=f"file://{tmp_path}/away/kept")
    starting.catch_up(run, stored)  # it has not trained yet
    assert "no route to host" in capsys.readouterr().out
    with closing(MetricsWriter(run.metrics)) as writer:
        writer.event("checkpoint", "checkpoint at 100 frames", data={"path": "checkpoints/000000000100"})
    with pytest.raises(StorageFailed, match="would begin at 0 frames, and its copy cannot be asked.*no route to host"):
        starting.catch_up(run, stored)
    empty = RunConfig.build("CartPole-v1", storage=f"file://{tmp_path}/not-mounted")
    with pytest.raises(StorageFailed, match="There is nothing of it in file:.*is that what was mounted there"):
        starting.catch_up(run, empty)
    Storage(empty.storage)._claim(run)
    starting.catch_up(run, empty)  # it was stopped before its first checkpoint
    save(run.checkpoints, frames=100)
    starting.catch_up(run, stored)


def test_of_two_copies_the_one_that_is_ahead_is_taken(
    url: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "drive"))
    run = made()
    save(run.checkpoints, frames=100)
    Storage(url).keep(run)
    save(run.checkpoints, frames=150)
    Storage(str(tmp_path / "drive")).keep(run)
    shutil.rmtree(run.checkpoints)
    starting.catch_up(run, RunConfig.build("CartPole-v1", launcher="colab", storage=url))
    assert checkpoints.newest(run.checkpoints).frames == 150


def test_where_nothing_is_whole_here_and_in_the_copy_a_run_does_not_begin_anew(url: str, home: Path) -> None:
    run = made()
    save(run.checkpoints, frames=100)
    Storage(url).keep(run)
    shutil.rmtree(run.checkpoints)
    file_system, root = fsspec.core.url_to_fs(url)
    for path in file_system.find(f"{root}/pong/checkpoints"):
        if "safetensors" in path:
            file_system.pipe_file(path, b"torn")
    with pytest.raises(CheckpointCorrupt, match="has no checkpoint here that is whole, and its copy in .* has none"):
        starting.catch_up(run, RunConfig.build("CartPole-v1", storage=url))


def test_what_is_left_here_is_not_replaced_by_a_copy_that_is_behind_it(url: str, home: Path) -> None:
    run = made()
    save(run.checkpoints, frames=100)
    assert Storage(url).keep(run) == 100
    save(run.checkpoints, frames=200)
    flip(next(save(run.checkpoints, frames=300).path.glob("*.safetensors")), -1)
    assert url_storage.restored(f"{url}/pong") == "pong"
    assert [one.frames for one in checkpoints.every(run.checkpoints)] == [100, 200, 300]


def test_each_copy_of_a_run_goes_on_after_it_was_restored_from_one(url: str, home: Path, tmp_path: Path) -> None:
    run, other = made(), f"file://{tmp_path}/other"
    save(run.checkpoints, frames=100)
    for copy in (url, other):
        Storage(copy).keep(run)
    for frames in (200, 300):
        shutil.rmtree(run.path)
        url_storage.restored(f"{url}/pong")
        save(run.checkpoints, frames=frames)
        for copy in (url, other):
            assert Storage(copy).keep(run) == frames


def test_nothing_is_restored_where_processes_of_a_run_whose_folder_is_gone_still_write(
    url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made()
    save(run.checkpoints, frames=100)
    Storage(url).keep(run)
    shutil.rmtree(run.path)
    monkeypatch.setattr(lock, "processes", lambda *_: [psutil.Process()])
    monkeypatch.setattr(lock, "LAST_MOMENTS_S", 0.0)
    with pytest.raises(RunExists, match=r"'pong' was moved or deleted while it lives.* end process \d+"):
        url_storage.restored(f"{url}/pong")
    assert not run.path.exists()


def test_a_tracker_file_that_is_damaged_is_left_behind(
    url: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made()
    save(run.checkpoints, frames=100)
    run.trackers.mkdir()
    (run.trackers / "wandb.json").write_text("{")
    assert Storage(url).keep(run) == 100
    assert "pong leaves wandb.json of its trackers behind, which begins anew: cannot read" in capsys.readouterr().out


def test_a_tracker_goes_on_where_it_was_on_another_machine(url: str, home: Path) -> None:
    run = made()
    run.trackers.mkdir()
    rundir.write_record(run.trackers / "wandb.json", {"identity": "pong-1", "rows": {"loss": 5}, "event": 2, "sent": 7})
    (run.trackers / "wandb.batch.json").write_bytes(b"{}")
    save(run.checkpoints, frames=100)
    Storage(url).keep(run)
    shutil.rmtree(run.path)
    url_storage.restored(f"{url}/pong")
    assert [path.name for path in run.trackers.iterdir()] == ["wandb.json"]
    place = rundir.read_record(run.trackers / "wandb.json")
    assert (place["identity"], place["rows"], place["event"]) == ("pong-1", {"loss": 5}, 2)
    assert place["sent"] > 100_000, "services drop rows of numbers that they were given, by the machine before as well"


def test_trackers_get_the_whole_history_where_the_one_before_is_lost(url: str, home: Path, tmp_path: Path) -> None:
    run = made()
    run.trackers.mkdir()
    rundir.write_record(run.trackers / "wandb.json", {"identity": "pong-1", "rows": {"loss": 5}, "event": 2, "sent": 7})
    save(run.checkpoints, frames=100)
    run_copy.copy(run, tmp_path / "drive")
    (tmp_path / "drive/pong/metrics.sqlite").write_bytes(b"torn")
    shutil.rmtree(run.path)
    restored_run.restored("pong", tmp_path / "drive")
    place = rundir.read_record(run.trackers / "wandb.json")
    assert place["identity"] == "pong-1" and not place.get("rows") and place["sent"] > 100_000
    run.write(lives=1)
    restored_run.restored("pong", tmp_path / "drive")  # as a resume does, for what the run has lost
    (kept,) = run.path.glob("damaged-metrics.sqlite-*")  # the next copy takes its place there
    assert kept.read_bytes() == b"torn"


def test_a_copy_comes_back_while_it_is_written(
    objects: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was listed may be pruned before it is read."""
    url, run = objects, made()
    for frames in (100, 200, 300):
        save(run.checkpoints, frames=frames)
        Storage(url).keep(run)
    kept = Storage(url)
    files, find, pruned = kept._files, kept._files.find, []

    def found(path: str, **more: Any) -> Any:
        paths = find(path, **more)  # with details, for a glob
        oldest = next(one for one in paths if one.endswith("meta.json"))
        if not pruned and not more:
            pruned.append(oldest)
            files.rm(oldest.rpartition("/")[0], recursive=True)
        return paths

    monkeypatch.setattr(files, "find", found)
    kept.fetch("pong", tmp_path / "seen")
    there = RunDirectory(tmp_path / "seen" / "pong").checkpoints
    assert [one.frames for one in checkpoints.every(there)] == [200, 300][-len(checkpoints.every(there)):]
    assert pruned


def test_a_run_that_went_back_keeps_its_newest_checkpoints_not_its_furthest(url: str, home: Path) -> None:
    run = made()
    for frames in (100, 200, 300):
        save(run.checkpoints, frames=frames)
        Storage(url).keep(run)
    for checkpoint in checkpoints.every(run.checkpoints)[-2:]:
        shutil.rmtree(checkpoint.path)
    for frames in (110, 120):
        save(run.checkpoints, frames=frames)
        assert Storage(url).keep(run) == frames
    kept = {path.split("/")[2] for path in files_of(url) if "/checkpoints/" in path}
    assert kept == {checkpoint.path.name for checkpoint in checkpoints.every(run.checkpoints)[-2:]}


def test_a_checkpoint_that_was_damaged_there_is_passed_over_for_the_one_before(url: str, home: Path) -> None:
    run = made()
    for frames in (100, 200):
        save(run.checkpoints, frames=frames)
        Storage(url).keep(run)
    newest = checkpoints.every(run.checkpoints)[-1].path.name
    file_system, root = fsspec.core.url_to_fs(url)
    weights = next(path for path in file_system.find(f"{root}/pong/checkpoints/{newest}") if "safetensors" in path)
    file_system.pipe_file(weights, b"torn")
    shutil.rmtree(run.path)
    url_storage.restored(f"{url}/pong")
    assert checkpoints.every(run.checkpoints)[-1].frames == 100


def test_a_name_that_is_not_there_has_a_near_one(url: str, home: Path) -> None:
    save(made().checkpoints, frames=100)
    Storage(url).keep(rundir.find("pong"))
    with pytest.raises(RunNotFound, match="Did you mean 'pong'"):
        url_storage.restored(f"{url}/pnog")


def test_a_run_keeps_its_copy_and_another_machine_goes_on(url: str, home: Path, tmp_path: Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    run = wb.launch("testing/counting-v0", name="moves", storage=url, **CALM)
    run.wait(updates=2, timeout_s=240)
    run.checkpoint()
    eventually(lambda: "moves" in Storage(url).names())
    last = run.stop()
    Storage(url).fetch("moves", tmp_path / "fetched")
    copied = RunDirectory(tmp_path / "fetched" / "moves")
    assert (copied.read()["name"], copied.read()["state"]) == ("moves", "stopped")
    assert checkpoints.every(copied.checkpoints)[-1].frames == last.frames
    with pytest.raises(RunExists, match=r"has a run 'moves'\. Go on with it"):
        monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "elsewhere"))
        wb.launch("testing/counting-v0", name="moves", storage=url, **CALM)
    again = wb.resume(f"{url}/moves")
    try:
        assert again.path.is_relative_to(tmp_path / "elsewhere")
        assert again.wait(updates=last.updates + 1, timeout_s=240).frames >= last.frames
        assert again.metrics("loss").updates.min() <= last.updates, "its history came along"
    finally:
        again.stop()


@pytest.mark.full
def test_storage_that_goes_away_is_said_once_and_the_run_goes_on(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    run = wb.launch("testing/counting-v0", name="outage", storage=str(folder), **CALM)
    try:
        run.wait(updates=1, timeout_s=240)
        folder.mkdir(exist_ok=True)
        folder.rename(tmp_path / "away")
        folder.write_text("no folder")
        run.checkpoint()
        eventually(lambda: f"not copied to {folder}, and is tried again" in " ".join(run.events["message"]))
        folder.unlink()
        (tmp_path / "away").rename(folder)
        eventually(lambda: "outage" in Storage(str(folder)).names())
        assert run.status.state == "training"
    finally:
        run.stop()


class Refused(Exception):
    """An error of some file system's own."""


def test_a_checkpoint_that_storage_does_not_delete_keeps_no_newer_one_away(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Refused("objects are locked")

    monkeypatch.setattr(MemoryFileSystem, "rm_file", refuse)
    run = made()
    for frames in (100, 200, 300, 400):
        save(run.checkpoints, frames=frames)
        assert Storage(f"memory://{tmp_path.name}").keep(run) == frames


@pytest.mark.parametrize("wrong", ["a read fails", "the clock of the machine before was fast"])
def test_a_checkpoint_that_was_copied_just_now_stays(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    run, kept, real = made(), Storage(f"memory://{tmp_path.name}"), time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600.0 * (wrong != "a read fails"))
    for frames in (100, 200):
        save(run.checkpoints, frames=frames)
        assert kept.keep(run) == frames
    monkeypatch.setattr(time, "time", real)
    if wrong == "a read fails":
        get_file = MemoryFileSystem.get_file

        def fail(self: Any, path: str, *more: Any, **others: Any) -> Any:
            if path.endswith(META):
                raise OSError(5, "Input/output error", path)
            return get_file(self, path, *more, **others)

        monkeypatch.setattr(MemoryFileSystem, "get_file", fail)
    else:
        shutil.rmtree(run.checkpoints)  # by which a new one would be the newest
    third = save(run.checkpoints, frames=300)
    assert kept.keep(run) == 300
    assert f"pong/checkpoints/{third.path.name}/{META}" in files_of(f"memory://{tmp_path.name}")


def test_another_machines_checkpoint_of_the_same_frames_is_not_taken_for_this_ones(url: str, home: Path) -> None:
    run = made()
    save(run.checkpoints, frames=100)
    assert Storage(url).keep(run) == 100
    shutil.rmtree(run.checkpoints)
    model = {"model": {"a": np.ones(3, np.float32)}}
    ours = checkpoints.write(run.checkpoints, frames=100, groups=model, meta=meta(), requested=False)
    assert Storage(url).keep(run) == 100
    shutil.rmtree(run.path)
    url_storage.restored(f"{url}/pong")
    assert checkpoints.newest(run.checkpoints).files == ours.files
    assert Storage(url).keep(run) is None, "nothing is new yet"


@pytest.mark.parametrize("error", [sqlite3.OperationalError("database or disk is full"), Refused("objects are locked")],
                         ids=["SQLite", "file system"])
def test_a_copy_that_fails_of_anything_is_said_once_and_tried_again(
    error: Exception, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, copy_metrics = [error] * 3, run_copy._copy_metrics

    def copied(metrics: Path, target: Path) -> None:
        if failures:
            raise failures.pop()
        copy_metrics(metrics, target)

    monkeypatch.setattr(run_copy, "_copy_metrics", copied)
    monkeypatch.setattr(storing, "_EVERY_S", 0.01)
    run = made()
    said: list[str] = []
    save(run.checkpoints, frames=100)
    copy = StoredCopy(run, f"file://{tmp_path}/kept", on_failure=said.append)
    try:
        eventually(lambda: not failures, what="it was tried so often")
    finally:
        copy.close()
    assert Storage(f"file://{tmp_path}/kept").names() == ["pong"]
    why = f"{type(error).__name__}: {error}"
    assert said == [f"the run was not copied to storage, and is tried again: {why}"]


def test_a_supervisors_next_copy_removes_what_its_last_upload_left(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"memory://{tmp_path.name}/kept"
    put = MemoryFileSystem.put_file

    def breaks(self: MemoryFileSystem, path: str, there: str) -> None:
        if there.endswith(f"000000000100/{META}"):
            raise OSError("the network is gone")
        put(self, path, there)

    monkeypatch.setattr(MemoryFileSystem, "put_file", breaks)  # each thread has an object of its own
    monkeypatch.setattr(storing, "_EVERY_S", 0.01)
    run, said = made(), []
    save(run.checkpoints, frames=100)
    copy = StoredCopy(run, url, on_failure=said.append)
    try:
        eventually(lambda: said, what="the upload broke off")
        save(run.checkpoints, frames=200)
        eventually(lambda: "pong/checkpoints/000000000200/meta.json" in files_of(url), what="the next one is there")
    finally:
        copy.close()
    assert {path.split("/")[2] for path in files_of(url) if "/checkpoints/" in path} == {"000000000200"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders of storage that this process has listed; one below "away" cannot be reached."""
    folders, glob, get_file = [], LocalFileSystem.glob, LocalFileSystem.get_file

    def listed(self: LocalFileSystem, path: str, **more: Any) -> Any:
        folders.append(path)
        if "/away/" in path:
            raise OSError("no route to host")
        return glob(self, path, **more)

    def got(self: LocalFileSystem, path: str, *more: Any) -> Any:
        if "/away/" in path:
            raise OSError("no route to host")
        return get_file(self, path, *more)

    monkeypatch.setattr(LocalFileSystem, "glob", listed)
    monkeypatch.setattr(LocalFileSystem, "get_file", got)
    return folders


@pytest.mark.parametrize("by", ["{name}", "{url}/{name}"])
def test_an_outage_of_the_storage_keeps_no_run_that_is_here_from_going_on(
    by: str, home: Path, tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file://{tmp_path}/away/kept"
    run = made("here")
    config = RunConfig.build("testing/counting-v0", storage=url, **CALM)
    run.write(config=config.to_json())
    resumed = wb.resume(by.format(url=url, name="here"))
    try:
        assert resumed.wait(updates=1, timeout_s=240).updates >= 1
        assert "here goes on without its copy" in (said := capsys.readouterr().out) and "no route to host" in said
    finally:
        resumed.stop()


@pytest.mark.parametrize("storage_here", ["", "file:///elsewhere"])
def test_the_url_of_another_run_never_stands_for_the_run_of_that_name_that_is_here(
    storage_here: str, home: Path, tmp_path: Path
) -> None:
    url = f"file://{tmp_path}/colleague"
    save(made().checkpoints, frames=100)
    Storage(url).keep(rundir.find("pong"))
    shutil.rmtree(rundir.find("pong").path)
    ours = made(created=8.0, config=RunConfig.build("CartPole-v1", storage=storage_here).to_json())
    with pytest.raises(StorageFailed, match=r"/pong is another run than 'pong' .*wb\.attach\('pong'\)\.delete"):
        wb.resume(f"{url}/pong")
    assert ours.read()["state"] == "stopped"
    with pytest.raises(RunNotFound, match="there is no run 'pong' at"):
        url_storage.restored(f"file://{tmp_path}/empty/pong")
    ours.write(created=7.0)
    save(ours.checkpoints, frames=100)
    assert url_storage.restored(f"{url}/pong") == "pong", "the same run, which was copied there"


@pytest.mark.parametrize("own", ["file://{folder}", "{folder}", "file://{folder}/"])
def test_a_run_that_is_here_is_told_by_its_own_folder_also_while_that_is_away(
    own: str, home: Path, tmp_path: Path, asked: list[str]
) -> None:
    folder = f"{tmp_path}/away/kept"
    made(config=RunConfig.build("CartPole-v1", storage=own.format(folder=folder)).to_json())
    assert url_storage.restored(f"file://{folder}/pong") == "pong"


def test_a_launch_asks_the_storage_for_its_runs_once(home: Path, tmp_path: Path, asked: list[str]) -> None:
    for number in (1, 2):
        save(made(f"counting-vtrace-{number}").checkpoints, frames=100)
        Storage(f"file://{tmp_path}/kept").keep(rundir.find(f"counting-vtrace-{number}"))
        shutil.rmtree(rundir.find(f"counting-vtrace-{number}").path)
    asked.clear()
    run = wb.launch("testing/counting-v0", storage=f"file://{tmp_path}/kept", wait_ready=False, **CALM)
    run.stop()
    assert run.name == "counting-vtrace-3", "those names are taken there"
    assert len(asked) == 1
    with pytest.raises(StorageFailed, match="no route to host"):
        wb.launch("testing/counting-v0", storage=f"file://{tmp_path}/away", **CALM)


def test_code_from_storage_needs_trust(home: Path, tmp_path: Path) -> None:
    run = made()
    save(run.checkpoints, frames=100)
    run.code.mkdir(mode=0o700, exist_ok=True)
    (run.code / "environment.pkl").write_bytes(b"code")
    url = f"file://{tmp_path}/kept"
    Storage(url).keep(run)
    shutil.rmtree(run.path)
    with pytest.raises((AccessDenied, CheckpointCorrupt, InvalidInput)):
        url_storage.restored(f"{url}/pong")
    assert not run.path.exists()


@pytest.mark.parametrize(("url", "error", "words"), [
    ("nowhere://bucket", InvalidInput, "no URL that fsspec knows"), ("adl://x/y", MissingPackage, "pip install"),
])
def test_a_url_that_cannot_be_opened_is_refused_in_words(url: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Storage(url)


def test_a_url_is_told_from_a_name_and_from_a_clusters_address() -> None:
    assert [is_url(text) for text in ("s3://b/pong", "file:///x/pong", "pong", "/runs/pong", "ray://h:1", None)] == [
        True, True, False, False, False, False]


def test_a_history_that_cannot_be_brought_now_is_an_error_and_stays_in_the_copy(
    url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's next copy would replace it with that of a run that went on without."""
    run, stored = made(), RunConfig.build("CartPole-v1", storage=url)
    save(run.checkpoints, frames=100)
    Storage(url).keep(run)
    run.metrics.unlink()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as no_room:
        no_room.setattr(rundir, "write_atomically", full)
        with pytest.raises(StorageFailed, match="cannot be copied here: No space left on device. Mend that"):
            starting.catch_up(run, stored)
    assert not run.metrics.exists()
    starting.catch_up(run, stored)
    assert run.metrics.exists()


def test_a_run_that_has_nothing_left_at_all_does_not_begin_anew(home: Path) -> None:
    run = made()
    run.metrics.unlink()
    run.write(lives=1)
    with pytest.raises(StorageFailed, match="pong has neither a checkpoint nor a history in .*would begin anew"):
        starting.catch_up(run, RunConfig.build("CartPole-v1"))

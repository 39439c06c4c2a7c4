"""The copy of a run on another machine: what arrives is what the run has, and a stranger's answers do no harm."""

from __future__ import annotations

import base64
import gc
import hashlib
import json
import os
import shutil
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.conftest import mounted_disk
from tests.written_checkpoints import save, with_replay
from workbench import checkpoints, rundir
from workbench.config import RunConfig
from workbench.copies import served_files
from workbench.copies.remote_copy import RemoteCopy, folder_of, served
from workbench.errors import ConnectionLost, InvalidInput, RunNotFound, StorageFailed, WorkbenchError
from workbench.metrics import MetricsReader, MetricsWriter, Progress, copied_rows
from workbench.rundir import RunDirectory, lock, sealed
from workbench.rundir.record_folder import identity
from workbench.running.connection import Control
from workbench.wire.rpc import answered, result_of

ADDRESS = "ray://10.0.0.9:10001/pong"


def at(update: int) -> Progress:
    return Progress(frames=80 * update, steps=20 * update, updates=update, time_s=0.5 * update)


def made(name: str = "pong", **record: Any) -> RunDirectory:
    """A run, as on its own machine."""
    config = RunConfig.build("CartPole-v1").to_json()
    return rundir.create(name, {"created": 7.0, "config": config, "state": "stopped", "lives": 1, **record})


def write(run: RunDirectory, updates: range, *, value: Callable[[int], float] = float) -> None:
    with closing(MetricsWriter(run.metrics)) as writer:
        for update in updates:
            writer.scalars(at(update), {"loss": value(update), "speed": float("nan") if update % 7 else 3.0})
            writer.commit()


def ask_of(run: RunDirectory, *, alive: bool = True) -> Callable[..., Any]:
    """Calls to the machine of that run, as JSON that travels."""
    calls = served(run, lambda _: alive)

    def ask(method: str, **arguments: Any) -> Any:
        return result_of(answered(calls[method], json.dumps(arguments).encode()), method, ADDRESS)

    return ask


def copy_of(run: RunDirectory, ask: Callable[..., Any] | None = None) -> RemoteCopy:
    copy = RemoteCopy(ADDRESS, str(run.path), run.read(), ask or ask_of(run))
    copy.begin()
    return copy


def same_history(one: Path, other: Path) -> None:
    ours, theirs = MetricsReader(one), MetricsReader(other)
    assert ours.names() == theirs.names()
    for name in ours.names():
        for options in ({}, {"max_points": 10}):
            for column, values in ours.series(name, **options).items():
                np.testing.assert_array_equal(values, theirs.series(name, **options)[column])
        for column, values in ours.means(name, points=7).items():
            np.testing.assert_array_equal(values, theirs.means(name, points=7)[column])
    assert ours.events() == theirs.events()
    for column, values in ours.episodes().items():
        np.testing.assert_array_equal(values, theirs.episodes()[column])
    assert repr(ours.distribution("weights")) == repr(theirs.distribution("weights"))


def filled(run: RunDirectory, first: int, last: int) -> None:
    """Everything that a history holds."""
    write(run, range(first, last))
    with closing(MetricsWriter(run.metrics)) as writer:
        writer.event("restart", "actor-0 restarted", data={"index": 0})
        writer.event("tune", "learning_rate", progress=at(last))
        writer.episode(at(last), env_id=2, episode_return=5.0, length_steps=9)
        writer.episode(at(last), env_id=3, episode_return=float("inf"), length_steps=9, kind="evaluation", score=2.0)
        writer.distribution("weights", at(last), [0.0, 1.0, float(last)], [3, last])
        writer.status({"state": "training", "frames": 80 * last})


def test_a_history_arrives_whole_and_goes_on(home: Path) -> None:
    run = made()
    filled(run, 0, 200)
    copy = copy_of(run)
    copy.update()
    same_history(run.metrics, copy.directory.metrics)
    filled(run, 200, 300)
    copy.update()
    copy.update()
    same_history(run.metrics, copy.directory.metrics)
    row, stored_at = MetricsReader(copy.directory.metrics).status() or ({}, 0.0)
    _, written_at = MetricsReader(run.metrics).status() or ({}, 0.0)
    assert row["frames"] == 80 * 300
    assert abs(stored_at - written_at) < 60, "its age is the age there, by whatever clock"


def test_a_long_history_comes_in_pieces_of_which_none_is_lost(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_rows, "_MOST_AT_ONCE", {"events": 3})
    run, asked = made(), []
    filled(run, 0, 120)
    with closing(MetricsWriter(run.metrics)) as writer:
        for number in range(8):
            writer.event("note", str(number))
    ask = ask_of(run)

    def little(method: str, **arguments: Any) -> Any:
        if method != "history":
            return ask(method, **arguments)
        asked.append(arguments)
        return json.loads(json.dumps(copied_rows.rows_since(run.metrics, arguments["since"], most=7)))

    copy = copy_of(run, little)
    copy.update()
    assert len(asked) > 240 / 7
    same_history(run.metrics, copy.directory.metrics)


def test_rows_that_a_restore_left_behind_are_no_part_of_the_copy_s_curves_either(home: Path) -> None:
    run = made()
    write(run, range(0, 50))
    with closing(MetricsWriter(run.metrics)) as writer:
        lengths = MetricsReader(run.metrics).lengths()
        writer.event("restore", "from 20", progress=at(20), data={"rows": lengths})
    write(run, range(21, 40), value=lambda update: -update)
    copy = copy_of(run)
    copy.update()
    assert len(MetricsReader(copy.directory.metrics).series("loss")["value"]) == 21 + 19
    same_history(run.metrics, copy.directory.metrics)


def test_a_history_that_was_replaced_is_copied_anew(home: Path) -> None:
    run = made()
    filled(run, 0, 100)
    copy = copy_of(run)
    copy.update()
    run.metrics.unlink()
    for suffix in ("-wal", "-shm", "-journal"):
        run.metrics.with_name(f"{run.metrics.name}{suffix}").unlink(missing_ok=True)
    filled(run, 0, 150)
    copy.update()
    same_history(run.metrics, copy.directory.metrics)


def test_a_checkpoint_arrives_without_its_replay_and_can_be_loaded(home: Path) -> None:
    run = made()
    first = with_replay(run.checkpoints, 1000)
    copy = copy_of(run)
    copy.update()
    copy.copy_checkpoints()
    (here,) = checkpoints.every(copy.directory.checkpoints)
    assert here.meta == first.meta and not here.has_replay and first.has_replay
    here.verify()
    np.testing.assert_array_equal(here.load("model")["bias"], first.load("model")["bias"])
    assert [path.name for path in copy.directory.checkpoints.iterdir()] == [first.path.name]


def test_what_is_pruned_there_goes_here_but_not_what_a_person_asked_for_or_made(home: Path) -> None:
    run = made()
    automatic, asked = save(run.checkpoints, 100), save(run.checkpoints, 200, requested=True)
    copy = copy_of(run)
    copy.copy_checkpoints()
    mine = copy.directory.rollouts / "000000000100-0-0"
    mine.mkdir(parents=True)
    (mine / "steps.json").write_text("mine")
    (copy.directory.path / "evaluations.jsonl").write_text("mine")
    for checkpoint in (automatic, asked):
        shutil.rmtree(checkpoint.path)
    save(run.checkpoints, 300)
    copy.copy_checkpoints()
    copy.update()
    assert [here.frames for here in checkpoints.every(copy.directory.checkpoints)] == [200, 300]
    assert (mine / "steps.json").read_text() == "mine"
    assert (copy.directory.path / "evaluations.jsonl").read_text() == "mine"


def test_a_process_that_is_killed_while_it_removes_a_checkpoint_leaves_no_half_of_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made()
    pruned = save(run.checkpoints, 100)
    copy = copy_of(run)
    copy.copy_checkpoints()
    shutil.rmtree(pruned.path)
    save(run.checkpoints, 200)

    def killed(folder: Path, **_: Any) -> None:
        if (model := folder / "model.safetensors").exists():
            model.unlink()
            raise SystemExit

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(shutil, "rmtree", killed)
        copy.copy_checkpoints()
    (here,) = checkpoints.every(copy.directory.checkpoints)
    here.verify()
    copy_of(run).copy_checkpoints()
    assert list(copy.directory.checkpoints.iterdir()) == [here.path]


def test_what_a_killed_process_left_of_a_checkpoint_goes_and_what_it_had_set_aside_comes_back(home: Path) -> None:
    run = made()
    asked, pruned = save(run.checkpoints, 100, requested=True), save(run.checkpoints, 200)
    copy = copy_of(run)
    copy.copy_checkpoints()
    here = copy.directory.checkpoints
    (here / asked.path.name).rename(here / f".former-{asked.path.name}")
    (here / pruned.path.name).rename(here / f".copying-{pruned.path.name}")
    shutil.copytree(asked.path, here / ".former-000000000300")
    for checkpoint in (asked, pruned):
        shutil.rmtree(checkpoint.path)
    save(run.checkpoints, 300)
    again = copy_of(run)
    again.copy_checkpoints()
    assert sorted(path.name for path in here.iterdir()) == ["000000000100", "000000000300"]
    for checkpoint in checkpoints.every(here):
        checkpoint.verify()


def test_another_checkpoint_of_the_same_name_replaces_the_former_one(home: Path) -> None:
    run = made()
    former = save(run.checkpoints, 100)
    copy = copy_of(run)
    copy.copy_checkpoints()
    shutil.rmtree(former.path)
    save(run.checkpoints, 100, requested=True, episode_return=4.0)
    copy.copy_checkpoints()
    (here,) = checkpoints.every(copy.directory.checkpoints)
    assert here.requested and here.episode_return == 4.0
    here.verify()


def test_wherever_the_connection_breaks_a_reader_sees_a_whole_checkpoint_or_none(home: Path) -> None:
    run = made()
    save(run.checkpoints, 100)
    ask = ask_of(run)
    for broken in range(20):
        left = iter(range(broken))

        def breaks(method: str, left: Any = left, **arguments: Any) -> Any:
            if next(left, None) is None:
                raise ConnectionLost("the network is gone")
            return ask(method, **arguments)

        copy = copy_of(run, breaks)
        try:
            copy.copy_checkpoints()
        except ConnectionLost:
            assert checkpoints.every(copy.directory.checkpoints) == []
        else:
            (here,) = checkpoints.every(copy.directory.checkpoints)
            here.verify()
            assert broken > 3
            return
    raise AssertionError("it never came through")


def test_the_record_of_a_run_that_ended_comes_after_its_last_checkpoint(home: Path) -> None:
    """So that whoever waits for the end finds all of it."""
    run = made(state="training")
    write(run, range(3))
    copy = copy_of(run)
    assert copy.update() is True
    save(run.checkpoints, 240)
    run.write(state="stopped")
    asked, ask = [], ask_of(run, alive=False)

    def noted(method: str, **arguments: Any) -> Any:
        asked.append((method, copy.directory.read()["state"]))
        return ask(method, **arguments)

    copy._ask = noted
    assert copy.update() is False
    assert {state for _, state in asked} == {"training"} and "piece" in dict(asked)
    assert copy.directory.read()["state"] == "stopped"
    assert [here.frames for here in checkpoints.every(copy.directory.checkpoints)] == [240]


def test_a_log_is_followed_and_begins_with_its_tail(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.copies.remote_copy._TAIL_BYTES", 100)
    run = made()
    log, copy = run.logs / "learner.log", copy_of(run)
    here = copy.directory.logs / "learner.log"
    log.write_bytes(b"x" * 1000 + b"end")
    copy.update()
    assert here.read_bytes() == (b"x" * 1000 + b"end")[-100:]
    with open(log, "ab") as file:
        file.write(b" more")
    copy.update()
    assert here.read_bytes().endswith(b"end more")
    log.write_bytes(b"anew")
    copy.update()
    assert here.read_bytes() == b"anew"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    yield from mounted_disk(tmp_path / "small", size="1m")


def test_a_full_disk_is_said_and_the_copy_goes_on_once_there_is_room(
    home: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made()
    write(run, range(5))
    save(run.checkpoints, 100)
    monkeypatch.setenv("WORKBENCH_HOME", str(small_disk))
    monkeypatch.setattr("workbench.copies.remote_copy._SPARE_BYTES", -2**30)  # the disk is full in the middle of it
    copy = copy_of(run)
    copy.update()
    (run.logs / "learner.log").write_text("a line\n" * 100)
    filler = small_disk / "filler"
    with suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    with pytest.raises(StorageFailed, match="No space left on device. Make room there"):
        copy.update()
    copy.copy_checkpoints()
    assert "No space left on device. Make room there" in copy.problem
    filler.unlink()
    copy.update()
    copy.copy_checkpoints()
    assert not copy.problem and (copy.directory.logs / "learner.log").read_text() == "a line\n" * 100
    checkpoints.every(copy.directory.checkpoints)[0].verify()


def test_a_copy_that_somebody_removed_is_not_written_any_more(home: Path) -> None:
    run = made()
    filled(run, 0, 20)
    save(run.checkpoints, 100)
    copy = copy_of(run)
    copy.update()
    shutil.rmtree(copy.directory.path)
    for look in (copy.update, copy.copy_checkpoints):
        with pytest.raises(RunNotFound, match=f"was removed. wb.attach\\('{ADDRESS}'\\) makes another one"):
            look()
    assert not copy.directory.path.exists()
    other = copy_of(run)
    other.update()
    assert other.is_there and not copy.is_there, "it is another one's folder by now"
    same_history(run.metrics, other.directory.metrics)


def test_code_of_a_cell_keeps_its_seal(home: Path) -> None:
    code = {"environment.pkl": sealed.sealed("environment.pkl", b"code")}
    record = {"created": 7.0, "config": RunConfig.build("CartPole-v1").to_json(), "state": "stopped"}
    run = rundir.create("pong", record, code=code)
    copy = copy_of(run)
    copy.update()
    assert sealed.read(copy.directory.code / "environment.pkl") == b"code"


# --- what a copy is not ---------------------------------------------------------------------------------------------


@dataclass
class Followed:
    """In place of a process."""

    directory: RunDirectory


def attached(run: RunDirectory) -> wb.Run:
    copy = copy_of(run)
    copy.update()
    copy.close()
    return wb.attach(copy.directory.path)


def test_a_copy_is_no_run_of_this_machine(home: Path) -> None:
    run = made()
    save(run.checkpoints, 100)
    handle = attached(run)
    assert handle.name == ADDRESS
    assert [row.name for row in wb.runs()] == ["pong"]
    refusals = {
        "nothing of it is deleted from here": handle.delete,
        "its history is sent from there": lambda: handle.track("wandb"),
        "a fork would lie here, where its nodes do not see it": handle.fork,
        "nothing follows now": lambda: wb.resume(handle),
        "leave launcher and address out": lambda: wb.resume(handle.path, launcher="local"),
    }
    for words, refused in refusals.items():
        with pytest.raises(InvalidInput, match=words):
            refused()
    with pytest.raises(RunNotFound, match="is on a cluster"):
        wb.evaluate(ADDRESS)
    assert handle.directory.read()["state"] == "stopped" and run.record.exists()


def test_a_copy_that_nothing_follows_says_so_and_is_not_called_dead(home: Path) -> None:
    run = made(state="training")
    filled(run, 0, 5)
    handle = attached(run)
    status = handle.status
    assert status.state == "training" and status.frames == 400
    assert f"wb.attach('{ADDRESS}') follows it" in status.reason
    with pytest.raises(ConnectionLost, match="nothing follows this run here now"):
        handle.tune(learning_rate=1e-3)
    with lock.held(lock.of_follower(handle.directory), wait_s=0):
        assert handle.status.state == "dead", "whoever follows it would hold its lock"


def test_whoever_follows_a_run_does_so_while_anything_of_its_handle_is_there(home: Path) -> None:
    """A view that a handle has opened, for example."""
    copy = copy_of(made())
    copy.update()
    ended = []
    following = Followed(copy.directory)
    weakref.finalize(following, ended.append, "ended")
    run = wb.Run(copy.directory, following=following)
    view, again = run._control, wb.attach(run)
    del following, run
    gc.collect()
    assert not ended
    del view
    gc.collect()
    assert not ended
    del again
    gc.collect()
    assert ended


def test_two_runs_of_one_name_have_copies_of_their_own(home: Path) -> None:
    first = copy_of(made())
    shutil.rmtree(rundir.find("pong").path)
    second = made(created=8.0)
    other = copy_of(second)
    assert first.directory.path != other.directory.path
    assert identity("/a/pong", 7.0) != identity("/b/pong", 7.0)
    first._ask = ask_of(second)
    with pytest.raises(RunNotFound, match="another run lies in its place"):
        first.update()


def test_the_secrets_of_a_copy_are_its_own(home: Path) -> None:
    run = made()
    copy = copy_of(run)
    copy.update()
    assert copy.directory.token() != run.token()
    assert all(path.stat().st_mode & 0o077 == 0 for path in (copy.directory.path, copy.directory.path / "token"))
    assert run.token() not in "".join(path.read_text(errors="replace") for path in copy.directory.path.rglob("*")
                                      if path.is_file())


# --- strangers --------------------------------------------------------------------------------------------------------

OUT = ("../token", "token", "tls/key.pem", "checkpoints/../token", "checkpoints/000000000100/../../token",
       "/etc/passwd", "checkpoints/000000000100/replay.safetensors", "checkpoints/000000000100/meta.json/x",
       "logs/../run.json",
       "logs/a.log/../../token", "code/.hidden.pkl", "code/address.txt", "checkpoints/000000000100/\nmeta.json",
       "rollouts/x/steps.json", "evaluations.jsonl", "", None, 7, ["logs/a.log"], "logs/learner.log\n",
       "checkpoints/٠٠٠٠٠٠٠٠٠١٠٠/meta.json")


@pytest.mark.parametrize("name", OUT)
def test_neither_end_takes_a_name_that_leads_elsewhere(home: Path, name: Any) -> None:
    run = made()
    with pytest.raises(InvalidInput, match="is no file that a copy of a run has"):
        served_files.piece(run, name, 0)
    with pytest.raises(InvalidInput, match="is no file that a copy of a run has"):
        served_files.path_in(run.path, name)


def test_no_file_is_shown_through_a_link(home: Path) -> None:
    run = made()
    (run.logs / "learner.log").symlink_to(run.path / "token")
    with pytest.raises(StorageFailed, match="it is a link"):
        served_files.piece(run, "logs/learner.log", 0)
    assert served_files.logs_of(run) == {}


@pytest.mark.parametrize("name", ["logs/private.log", "code/network.pkl", "checkpoints/000000000100/meta.json"])
def test_no_file_is_shown_through_a_linked_folder(home: Path, tmp_path: Path, name: str) -> None:
    run = made()
    save(run.checkpoints, 100)
    (run.logs / "private.log").write_text("mine")
    (run.code / "network.pkl").write_text("mine")
    lists = (served_files.logs_of, served_files.code_of, served_files.checkpoints_of)
    assert served_files.piece(run, name, 0)["size"] and all(shown(run) for shown in lists)
    for folder in (run.logs, run.code, run.checkpoints):
        folder.symlink_to(folder.rename(tmp_path / folder.name))
    with pytest.raises(StorageFailed, match="a folder on the way to it is a link"):
        served_files.piece(run, name, 0)
    assert [shown(run) for shown in lists] == [{}, {}, {}]


def piece_of(data: bytes, size: int | None = None) -> dict[str, Any]:
    return {"data": base64.b64encode(data).decode(), "size": len(data) if size is None else size}


def outside_of(copy: Path) -> dict[Path, bytes]:
    """All files in the home but for those of the copy, and those that SQLite makes to read."""
    return {path: path.read_bytes() for path in rundir.home().rglob("*")
            if path.is_file() and copy not in path.parents and not path.name.endswith(("-shm", "-wal"))}


EMPTY = {"anew": False, "more": False, "series": {}, "events": [], "episodes": [], "distributions": [], "status": None}
HOSTILE: list[tuple[str, Any]] = [
    ("record", None), ("record", {"alive": True}), ("record", {"alive": "yes", "record": {}}),
    ("record", {"alive": True, "record": {"created": 7.0, "state": 5}}),
    ("record", {"alive": True, "record": {"created": 9.0, "state": "stopped"}}),
    ("history", None), ("history", {}), ("history", {**EMPTY, "series": {"x" * 2000: []}}),
    ("history", {**EMPTY, "series": {"loss": [[1, 2, 3]]}}),
    ("history", {**EMPTY, "series": {"loss": [[1, 2, 3, 4, {"a": 1}]]}}),
    ("history", {**EMPTY, "series": {"loss": [[2**70, 2, 3, 4, 5]]}}),
    ("history", {**EMPTY, "series": {"loss": [[1, 2, 3, 4, 5]] * (2 * copied_rows.MOST_ROWS + 1)}}),
    ("history", {**EMPTY, "events": [["a", 2, "k", "m", 1, 1, 1, 1, "{}"]]}),
    ("history", {**EMPTY, "events": [[1, 2, "k", "m" * 2**23, 1, 1, 1, 1, "{}"]]}),
    ("history", {**EMPTY, "status": ["now", "{}"]}), ("history", {**EMPTY, "status": [1]}),
    ("history", {**EMPTY, "distributions": [["w", 1, 1, 1, 1, "[]"]]}),
    ("code", {"code/../../x.pkl": "0"}), ("code", ["code/network.pkl"]), ("code", {"../code/network.pkl": "0"}),
    ("logs", {"../lock": 5}), ("logs", {"logs/../token": 5}), ("logs", 5),
    ("checkpoints", {"checkpoints/..": "0"}), ("checkpoints", {"rollouts": "0"}), ("checkpoints", [1]),
]


@pytest.mark.parametrize(("method", "answer"), HOSTILE, ids=range(len(HOSTILE)))
def test_an_answer_that_no_run_gives_is_refused_and_changes_nothing(home: Path, method: str, answer: Any) -> None:
    run = made()
    write(run, range(5))
    save(run.checkpoints, 100)
    ask = ask_of(run, alive=False)
    copy = copy_of(run, lambda asked, **arguments: answer if asked == method else ask(asked, **arguments))
    outside = outside_of(copy.directory.path)
    with pytest.raises((StorageFailed, InvalidInput, RunNotFound)):
        copy.update()
    assert not copy.directory.record.exists(), "it is no run that could be attached"
    assert outside_of(copy.directory.path) == outside


def hostile_checkpoint(run: RunDirectory, copy: RemoteCopy, pieces: Callable[[str, int], Any]) -> str:
    """Copies checkpoints where the pieces are a stranger's; the problem."""
    ask = ask_of(run)
    copy._ask = lambda method, **arguments: (
        pieces(arguments["name"], arguments["offset"]) if method == "piece" else ask(method, **arguments))
    copy.copy_checkpoints()
    assert checkpoints.every(copy.directory.checkpoints) == []
    assert list(copy.directory.checkpoints.iterdir()) == []
    return copy.problem


def test_files_that_do_not_fit_their_digests_sizes_or_names_are_refused(home: Path) -> None:
    run = made()
    there = save(run.checkpoints, 100)
    copy, meta = copy_of(run), (there.path / "meta.json").read_bytes()
    sizes = {name: facts["size_bytes"] for name, facts in there.files.items()}

    def real(name: str, offset: int) -> Any:
        return served_files.piece(run, name, offset)

    def flipped(name: str, offset: int) -> Any:
        return real(name, offset) if name.endswith("meta.json") else piece_of(b"\0" * sizes[Path(name).name])

    def endless(name: str, offset: int) -> Any:
        return real(name, offset) if name.endswith("meta.json") else piece_of(b"\0" * 2**20, 2**50)

    def growing(name: str, offset: int) -> Any:
        return real(name, offset) if name.endswith("meta.json") else piece_of(b"\0" * 2**20, 1)

    named = json.loads(meta)
    named["files"]["../../token"] = named["files"]["model.safetensors"]
    named.pop("sha256")
    digest = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()
    outside = json.dumps({**named, "sha256": digest}).encode()
    for pieces, words in ((flipped, "wrong checksum"), (endless, "has more than"), (growing, "has more than"),
                          (lambda name, offset: piece_of(outside), "names a file outside the checkpoint"),
                          (lambda name, offset: piece_of(b"{}", 2**40), "has more than"),
                          (lambda name, offset: {"data": "?", "size": 1}, "a piece of a file was sent that is none"),
                          (lambda name, offset: None, "a piece of a file was sent that is none"),
                          (lambda name, offset: piece_of(b"[]"), "is damaged")):
        assert words in hostile_checkpoint(run, copy, pieces)


def test_a_disk_without_room_is_said_and_the_history_goes_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made()
    save(run.checkpoints, 100)
    write(run, range(5))
    monkeypatch.setattr("workbench.copies.remote_copy._SPARE_BYTES", 2**60)
    copy = copy_of(run, ask_of(run, alive=False))
    copy.update()
    assert "that disk is full" in copy.problem
    assert copy.directory.read()["state"] == "stopped" and MetricsReader(copy.directory.metrics).names()


def test_an_ended_run_whose_checkpoint_was_not_copied_says_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made()
    filled(run, 0, 5)
    save(run.checkpoints, 100)
    copy = copy_of(run, ask_of(run, alive=False))
    with monkeypatch.context() as patch:
        patch.setattr("workbench.copies.remote_copy._SPARE_BYTES", 2**60)
        copy.update()
        copy.update()
        assert "that disk is full" in Control(copy.directory).status().warning
    copy.update()
    copy.update()
    assert Control(copy.directory).status().warning == "" and checkpoints.every(copy.directory.checkpoints)


def test_a_link_in_the_place_of_a_copy_s_file_is_not_followed(home: Path) -> None:
    run = made()
    write(run, range(5))
    victim = home / "victim"
    victim.write_text("mine")
    copy = copy_of(run)
    (copy.directory.path / "metrics.sqlite").symlink_to(victim)
    with pytest.raises(WorkbenchError):
        copy_of(run).update()
    assert victim.read_text() == "mine"


def test_a_run_with_an_odd_name_has_no_copy(home: Path) -> None:
    for path in ("/runs/..", "/runs/.hidden", "/runs/a b", "/runs/", "/runs/a\nb", "/runs/" + "a" * 101):
        with pytest.raises(InvalidInput, match="has a name that no copy can have"):
            folder_of(path, 7.0)


def test_an_address_in_a_strangers_folder_is_shown_and_not_believed(home: Path) -> None:
    run = made()
    for planted in ('{"address": "ray://evil:1/x\\u001b[31m"}', "{", '{"address": 5}', '{"address": "http://evil/x"}'):
        (run.path / rundir.REMOTE).write_text(planted)
        assert run.name == "ray://unknown/pong" and run.is_copy
        with pytest.raises(InvalidInput, match="is a copy, which nothing follows now"):
            wb.resume(run.path)
    assert Control(run).status().state == "stopped"
    os.unlink(run.path / rundir.REMOTE)
    assert run.name == "pong"

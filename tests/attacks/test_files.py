"""Every file of a run as a stranger might have made it: our own error soon, and the other runs are still listed."""

from __future__ import annotations

import copy
import errno
import json
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial, reduce
from operator import attrgetter, getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.attacks.hostile import replaced
from tests.played import branching_here, checkpoint_in, rolled_out
from tests.widgets import recorded, swept
from workbench import checkpoints
from workbench.checkpoints import Checkpoint
from workbench.checkpoints.tensorfile import Content
from workbench.errors import CheckpointCorrupt, StorageFailed, WorkbenchError
from workbench.launchers import colab
from workbench.metrics import MetricsReader, MetricsWriter
from workbench.metrics.status import RunStatus
from workbench.playing import film, store
from workbench.playing import rollout as rollouts
from workbench.playing.evaluating import evaluation_log
from workbench.playing.rollout import Rollout
from workbench.playing.rollout import every as rollouts_of
from workbench.rundir import RunDirectory
from workbench.sweeping import sweep_folder
from workbench.widgets.charts import static_render
from workbench.widgets.episodes import player
from workbench.widgets.episodes.player import RolloutPlayer
from workbench.widgets.panel import facts, snapshot
from workbench.widgets.views.runs_table import RunsTable

SOON_S = 10.0  # of this process's processor, on a machine several times slower than one that needs less than 2


@contextmanager
def soon() -> Iterator[None]:
    """The block takes no longer, by the processor: nothing that waits would ever end by itself."""
    begun = time.process_time()
    yield
    assert time.process_time() - begun < SOON_S


@pytest.fixture
def good(home: Path) -> RunDirectory:
    return recorded.vtrace("good")


@pytest.fixture
def bad(good: RunDirectory) -> RunDirectory:
    return recorded.vtrace("bad")


def looked_at(run: RunDirectory) -> list[Callable[[], Any]]:
    """All that looks at a run without steering it."""
    def handle() -> wb.Run:
        return wb.attach(run.name)

    return [
        lambda: handle().status, lambda: handle().metrics("loss"), lambda: handle().events, lambda: handle().config,
        lambda: handle().checkpoints, lambda: handle().rollouts, lambda: handle().card().markdown,
        lambda: handle().card()._repr_html_(), lambda: repr(handle()), lambda: handle().hyperparameters,
        lambda: wb.compare([run.path, "good"]).differences, lambda: evaluation_log.kept(run), lambda: rollouts_of(run),
        lambda: wb.attach("gooood"), lambda: handle().tune(learning_rate=1e-3),
    ]


FILES = ("run.json", "metrics.sqlite", "metrics.sqlite-wal", "token", "lock", "start.lock", "evaluations.jsonl",
         "code/environment.pkl", "endpoints/supervisor.json", "rollouts/1-x/rollout.json",
         "rollouts/1-x/steps.safetensors", "checkpoints/000000000007/meta.json")
KINDS = ("fifo", "device", "folder", "dangling link", "sparse")


@pytest.mark.parametrize("kind", KINDS)
def test_each_file_of_a_run_as_something_else(good: RunDirectory, bad: RunDirectory, kind: str) -> None:
    bad.write(state="stopped")
    kept = {file: (bad.path / file).read_bytes() for file in FILES if (bad.path / file).is_file()}
    for file in FILES:
        path = bad.path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        replaced(path, kind)
        with soon():
            listed = repr(wb.runs())
        assert "good" in listed, file
        for look in looked_at(bad):
            with soon(), suppress(WorkbenchError):
                look()
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
        if file in kept:
            path.write_bytes(kept[file])
            path.chmod(0o600)


DEEP = "[" * 100_000
RECORDS: dict[str, Any] = {
    "no JSON": "{", "a list": "[]", "deep": DEEP, "deep inside": '{"config": ' + '{"a":' * 100_000, "empty": "",
    "created is a word": {"created": "yesterday"}, "created is nothing": {"created": None},
    "created is endless": '{"created": Infinity}', "state is a list": {"state": ["training"]},
    "an error in words": {"error": "it failed"}, "an error of nothing": {"error": {}},
    "a parent of nothing": {"parent": {}},
    "config is a word": {"config": "x"}, "config is empty": {"config": {}},
    "config of types": {"config": {"environment": 1, "algorithm": [], "hyperparameters": 7}},
    "code is a list": {"code": ["environment"]}, "versions": {"versions": 1}, "lives": {"lives": "nine"},
    "binary": "\x00\x01\x02", "name is a number": {"name": 7}, "pid is a word": {"supervisor_pid": "1"},
    "created without end": {"created": 10**400}, "created after all times": {"created": 1e300},
    "a parent of types": {"parent": {"checkpoint": 7, "take": []}}, "machine is a word": {"machine": "x"},
}


@pytest.mark.parametrize("case", RECORDS)
def test_a_record_of_anything_is_named_and_hides_no_other_run(
    good: RunDirectory, bad: RunDirectory, case: str
) -> None:
    told = RECORDS[case]
    replaced(bad.record, told if isinstance(told, str) else json.dumps({**bad.read(), **told}))
    with soon():
        rows = wb.runs()
    assert rows["good"].state == "dead" and rows["bad"].state == "damaged"
    said = repr(rows)
    assert f"bad: cannot read {bad.record}" in said or f"bad: {bad.record} is damaged" in said
    assert "damaged" in rows._repr_html_()
    table = RunsTable({"text/plain": ""})
    try:
        shown = {row["key"]: row for row in table.table.rows}
        assert shown["bad"]["actions"] == [] and "bad" in shown["bad"]["note"] and shown["good"]["state"] == "dead"
    finally:
        table.close()
    for look in looked_at(bad):
        with soon(), suppress(WorkbenchError):
            look()


SCHEMAS = {
    "an endless view": "CREATE VIEW status AS WITH RECURSIVE t(status, time) AS (SELECT '{}', 1 UNION ALL SELECT "
                       "status, time + 1 FROM t) SELECT * FROM t",
    "a large view": "CREATE VIEW status AS SELECT hex(zeroblob(450000000)) AS status, 1 AS time",
    "a generated column": "CREATE TABLE status (time, status AS (hex(zeroblob(450000000))))",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM metrics; END",
}


@pytest.mark.parametrize("case", SCHEMAS)
def test_a_database_with_another_schema_is_refused(good: RunDirectory, bad: RunDirectory, case: str) -> None:
    with closing(sqlite3.connect(bad.metrics)) as connection:
        if "status" in SCHEMAS[case]:
            connection.execute("DROP TABLE status")
        connection.execute(SCHEMAS[case])
        connection.commit()
    reader = MetricsReader(bad.metrics)
    for look in (reader.status, reader.names, reader.events, reader.episodes, lambda: reader.series("loss")):
        with soon(), pytest.raises(WorkbenchError, match="no run writes a "):
            look()
    with soon():
        assert {row.name for row in wb.runs()} == {"good", "bad"}


VALUES = (b"\xff\xfe", "words", 1e308, -1, None, DEEP, '{"frames": "many", "actors": [1], "reason": 7}', "[]", 2**62)


@pytest.mark.parametrize("value", VALUES, ids=[f"{value!r:.20}" for value in VALUES])
def test_a_database_with_other_types_raises_our_own_errors(good: RunDirectory, bad: RunDirectory, value: Any) -> None:
    with closing(sqlite3.connect(bad.metrics)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for table in tables:
            for column in [one[1] for one in connection.execute(f"PRAGMA table_info({table})")]:
                try:
                    connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE rowid < 9", (value,))
                except sqlite3.Error:
                    continue  # the column itself refuses it
        connection.commit()
    reader = MetricsReader(bad.metrics)
    for look in (*looked_at(bad), reader.names, reader.episodes, reader.status, lambda: reader.distribution("x"),
                 lambda: reader.means("loss", points=5), lambda: reader.newer({"loss": 0}, max_points=5)):
        with soon(), suppress(WorkbenchError):
            look()
    with soon():
        assert {row.name for row in wb.runs()} == {"good", "bad"}


@pytest.mark.parametrize("odd", [10**400, math.nan, *(pytest.param(one, marks=pytest.mark.full) for one in (
    None, math.inf, -math.inf, -1, 1e300, "<script>", [], {"0": 1}))], ids=lambda odd: str(odd)[:9])
def test_a_status_of_anything_is_shown_and_hides_no_other_run(good: RunDirectory, bad: RunDirectory, odd: Any) -> None:
    status = {name: value for name, value in RunStatus("bad", "training").to_json().items() if name != "name"}
    told = {**status, **recorded.STATUS, "actors": {"0": {"pid": 1}}}
    for name in told:
        with closing(MetricsWriter(bad.metrics)) as writer:
            writer.status({**told, name: odd})
        now = snapshot.read(bad)
        for shown in (wb.runs(), wb.attach("bad"), now.status, snapshot.sentence(now), snapshot.facts(now),
                      facts.facts(now), facts.progress(now), static_render.page(now, "")):
            text = repr(shown) if not isinstance(shown, str) else shown
            assert text and "<script>" not in getattr(shown, "_repr_html_", str)()
        assert "<script>" not in facts.facts(now) + static_render.page(now, "")
        assert "Card(" in repr(wb.attach("bad").card()) and "bad" in wb.attach("bad").card().markdown
    assert [row.name for row in wb.runs() if row.state == "dead"] == ["bad", "good"]


def test_a_question_that_has_no_end_is_ended(bad: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.metrics.schema._LONGEST_READ_S", 0.1)
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
    with soon(), pytest.raises(WorkbenchError, match="interrupted"):
        MetricsReader(bad.metrics)._rows(endless)


SWEEP = {"state": "stopped", "config": {}, "created": 0.0, "trials": 2, "parallel": 1, "sampler": "random", "space": {},
         "goal": "max", "metric": "return", "error": None, "parent": None, "lives": 1, "seed": 1, "pruner": "none"}


@pytest.mark.parametrize("kind", [*KINDS, "no database"])
def test_a_sweeps_study_as_something_else_is_named(home: Path, kind: str) -> None:
    folder = sweep_folder.folder() / "bad"
    folder.mkdir(parents=True)
    (folder / "sweep.json").write_text(json.dumps(SWEEP))
    replaced(folder / "study.sqlite", kind)
    wb.sweeps()  # Optuna is imported
    with soon():
        [row] = wb.sweeps()
    assert row.state == "damaged" and "study.sqlite" in repr(wb.sweeps())


@pytest.mark.parametrize(("values", "problem"), [
    ("""(select 100 union all select x + 1 from n where x < 1000000)
        insert into trial_intermediate_values (trial_id, step, intermediate_value, intermediate_value_type)
        select 1, x, 1.0, 'FINITE' from n""", "more than 200,000 rows"),
    ("""(select 1 union all select x + 1 from n where x < 150)
        insert into trial_user_attributes (trial_id, key, value_json)
        select 1, 'k' || x, hex(zeroblob(500000)) from n""", "more than 134,217,728 bytes"),
], ids=["a million", "of many mebibytes"])  # fmt: skip
def test_a_study_of_too_many_or_too_large_values_is_named_at_once(home: Path, values: str, problem: str) -> None:
    swept.by_hand("bad")
    with closing(sqlite3.connect(sweep_folder.folder() / "bad" / "study.sqlite")) as theirs:
        theirs.execute(f"with recursive n(x) as {values}")
        theirs.commit()
    with soon():
        [row] = wb.sweeps()
    assert row.state == "damaged" and problem in row.problem


@pytest.mark.parametrize("sql", [
    "update trial_params set param_value = 1e9", "update trial_params set param_value = -1", "delete from trial_params",
    "update trial_params set distribution_json = '{}'", "update trial_params set param_name = param_name || 'x'",
    "update trial_values set value = 'x'", "update trial_values set value = null", "update trials set state = 'GONE'",
    "update trial_intermediate_values set step = step || 'x'", "update trial_intermediate_values set step = step - 5",
    "update trials set number = 0", "update trials set number = -1", "update trials set datetime_start = 'x'",
    "insert into trial_user_attributes (trial_id, key, value_json) select trial_id, 'frames', '[]' from trials",
    "update trial_user_attributes set value_json = '{'", "update trial_user_attributes set value_json = '[1]'",
    "update studies set study_name = 'other'", "delete from trials",
])  # fmt: skip
def test_a_study_of_odd_values_is_shown_or_refused_by_our_own_errors(home: Path, sql: str) -> None:
    sweep = swept.by_hand("bad")
    with closing(sqlite3.connect(sweep_folder.folder() / "bad" / "study.sqlite")) as theirs:
        theirs.execute(sql)
        theirs.commit()
    sweep = wb.attach_sweep("bad")
    for view in ("trials", "status", "best", "best_fields", "importance", "table", "panel"):
        with suppress(WorkbenchError):
            getattr(sweep, view)() if view == "panel" else getattr(sweep, view)
    repr(sweep)
    assert [row.name for row in wb.sweeps()] == ["bad"]


@pytest.mark.parametrize("sql", [
    "update trial_params set param_value = -1", "update trial_params set param_value = 'x'",
    "update trial_params set param_name = param_name || 'x'",
    """update trial_params set param_value = 0,
       distribution_json = '{"name": "CategoricalDistribution", "attributes": {"choices": [[1]]}}'""",
])  # fmt: skip
def test_trials_of_other_fields_than_the_sweep_searches_are_named(home: Path, sql: str) -> None:
    swept.by_hand("bad")
    with closing(sqlite3.connect(sweep_folder.folder() / "bad" / "study.sqlite")) as theirs:
        theirs.execute("delete from trials where number > 2")  # too few for their importance, which is looked at before
        theirs.execute(sql)
        theirs.commit()
    for view in ("trials", "panel"):
        with pytest.raises(StorageFailed, match=r"cannot read .*study.sqlite"):
            getattr(wb.attach_sweep("bad"), view) if view == "trials" else wb.attach_sweep("bad").panel()
    [row] = wb.sweeps()
    assert row.state == "damaged"


def test_trials_without_fields_are_shown(home: Path) -> None:
    swept.by_hand("bad")
    with closing(sqlite3.connect(sweep_folder.folder() / "bad" / "study.sqlite")) as theirs:
        theirs.execute("delete from trials where number > 2")
        theirs.execute("delete from trial_params where trial_id = 1")
        theirs.commit()
    sweep = wb.attach_sweep("bad")
    assert len(sweep.trials) == len(sweep.panel().table.rows) == 3


@pytest.mark.parametrize("odd", [
    *({"space": {"learning_rate": {"low": low, "high": 1.0, "log": True, "whole": False}}} for low in (
        None, "x", [1], 0, -1, 1.0, math.nan, math.inf, -math.inf)),
    *({"space": {"network": {"choices": choices}}} for choices in ([], ["mlp"], 5, list(range(50_000)))),
    {"space": {f"f{at}": {"choices": [1, 2]} for at in range(20_000)}}, {"error": {}}, {"error": {"message": 1}},
    {"parent": {}}, {"parent": {"checkpoint": 1, "take": "all"}},
], ids=lambda odd: f"{odd!s:.60}")  # fmt: skip
def test_a_sweep_of_odd_values_is_named(home: Path, odd: dict[str, Any]) -> None:
    sweep = swept.by_hand("bad")
    record = json.loads((sweep.path / "sweep.json").read_text())
    replaced(sweep.path / "sweep.json", json.dumps({**record, **odd}))
    with soon():
        [row] = wb.sweeps()
    assert row.name == "bad" and row.state == "damaged" and row.problem
    with soon(), pytest.raises(StorageFailed):
        wb.attach_sweep("bad")


def test_a_trigger_in_a_sweeps_study_does_not_run(home: Path) -> None:
    swept.by_hand("bad")
    with closing(sqlite3.connect(sweep_folder.folder() / "bad" / "study.sqlite")) as theirs:
        theirs.execute(TRIGGER.replace("on events", "on trials"))
    with soon():
        [row] = wb.sweeps()
    assert row.state == "damaged"
    with soon(), pytest.raises(StorageFailed, match="no run writes a trigger"):
        wb.attach_sweep("bad").resume(trials=30)


def test_a_sweep_of_anything_is_named(home: Path) -> None:
    folder = sweep_folder.folder() / "bad"
    folder.mkdir(parents=True)
    wb.sweeps()  # Optuna is imported
    for told in RECORDS.values():
        replaced(folder / "sweep.json", told if isinstance(told, str) else json.dumps({"state": "stopped", **told}))
        with soon():
            [row] = wb.sweeps()
        assert row.state == "damaged" and str(folder) in repr(wb.sweeps())


TRIGGER = """create trigger more after insert on events begin
    select (select count(*) from (with recursive c(x) as (select 1 union all select x + 1 from c) select x from c));
end"""


def test_a_trigger_in_the_metrics_does_not_run_where_a_run_goes_on(bad: RunDirectory) -> None:
    with closing(sqlite3.connect(bad.metrics)) as theirs:
        theirs.execute(TRIGGER)
    with soon(), pytest.raises(StorageFailed, match="no run writes a trigger such as 'more'"):
        MetricsWriter(bad.metrics)
    with soon(), pytest.raises(WorkbenchError):
        wb.resume(bad.path)


@pytest.mark.parametrize("file", ["run.json", "metrics.sqlite", "checkpoint"])
def test_a_link_to_a_file_is_none_of_a_run(bad: RunDirectory, tmp_path: Path, file: str) -> None:
    """It leads to a file of somebody's, who can change it at any time."""
    made = checkpoints.write(bad.checkpoints, frames=1, requested=True, meta=META,
                             groups={"model": {"weight": np.eye(3, dtype=np.float32)}})
    path = {"run.json": bad.record, "metrics.sqlite": bad.metrics, "checkpoint": made.path / "model.safetensors"}[file]
    path.symlink_to(path.rename(tmp_path / "elsewhere"))
    reads: dict[str, Callable[[], Any]] = {
        "run.json": bad.read, "metrics.sqlite": MetricsReader(bad.metrics).events, "checkpoint": made.verify}
    with pytest.raises(WorkbenchError, match="it is a link|it is no plain file"):
        reads[file]()


@pytest.mark.parametrize("by", ["device", "sparse", "trigger", "link"])
def test_a_mirrors_history_that_is_none_is_left_behind(
    bad: RunDirectory, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], by: str
) -> None:
    checkpoints.write(bad.checkpoints, frames=1, requested=True, meta=META,
                      groups={"model": {"weight": np.eye(3, dtype=np.float32)}})
    mirror = bad.path.rename(tmp_path / "bad")
    metrics = mirror / "metrics.sqlite"
    if by == "trigger":
        with closing(sqlite3.connect(metrics)) as theirs:
            theirs.execute(TRIGGER)
    elif by == "link":
        metrics.symlink_to(metrics.rename(tmp_path / "elsewhere"))
    else:
        replaced(metrics, by)
    with soon():
        assert colab.restored("bad", tmp_path) == "bad"
    assert "The history so far is lost" in capsys.readouterr().out
    assert not (home / "runs" / "bad" / "metrics.sqlite").exists()


META = {"steps": 1, "updates": 1, "time_s": 1.0}


@pytest.mark.parametrize("kind", ["pipe", "endless", "hollow"])
def test_weights_on_another_disk_that_are_no_file_are_not_copied(
    bad: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    groups = {"model": {"weight": np.eye(3, dtype=np.float32)}}
    checkpoints.write(bad.checkpoints, frames=1, requested=True, meta=META, groups=groups)
    theirs = checkpoints.write(bad.opponent.checkpoints, frames=1, requested=True, meta=META, groups=groups)
    weights = theirs.path / "model.safetensors"
    weights.unlink()
    if kind == "pipe":
        os.mkfifo(weights)
    elif kind == "endless":
        weights.symlink_to("/dev/zero")
    else:
        weights.touch()
        os.truncate(weights, 2**40)
    bad.path.rename(tmp_path / "bad")

    def refused(*_: Any) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", refused)
    with soon(), pytest.raises((StorageFailed, CheckpointCorrupt)):
        colab.restored("bad", tmp_path)
    assert not bad.path.exists()


@pytest.mark.parametrize("target", ["taken", "taken.zip"])
def test_an_export_takes_no_file_along_that_took_the_place_of_the_weights(
    bad: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    made = checkpoints.write(bad.checkpoints, frames=1, requested=True, meta=META,
                             groups={"model": {"weight": np.eye(3, dtype=np.float32)}})
    weights, secret = made.path / "model.safetensors", tmp_path / "secret"
    secret.write_bytes(b"x" * weights.stat().st_size)
    verify = Checkpoint.verify

    def verified(self: Checkpoint, **how: Any) -> None:
        verify(self, **how)
        weights.unlink()
        weights.symlink_to(secret)

    monkeypatch.setattr(Checkpoint, "verify", verified)
    with pytest.raises(StorageFailed, match="it is a link"):
        checkpoints.export(made, tmp_path / target)
    assert not (tmp_path / target).exists()


@pytest.mark.parametrize("meta", [
    {}, {"config": 1, "environment": 1}, {"config": {}, "environment": {}}, {"config": {"hyperparameters": []}},
    {"environment": {"name": "x", "observation_shape": 5}}, {"environment": {"observation_shape": [10**9] * 9}},
], ids=str)  # fmt: skip
def test_a_checkpoint_that_says_little_or_nonsense_of_its_run_is_one_of_our_errors(
    good: RunDirectory, meta: dict[str, Any]
) -> None:
    made = checkpoints.write(good.checkpoints, frames=1, requested=True, meta=META | meta,
                             groups={"model": {"weight": np.eye(3, dtype=np.float32)}})
    policy = partial(wb.load_policy, env=None)
    for use in (wb.evaluate, wb.rollout, wb.play, policy, attrgetter("config"), attrgetter("spec")):
        with soon(), pytest.raises(WorkbenchError):
            use(made)
    with soon(), pytest.raises(WorkbenchError):
        wb.attach(good.path).fork(checkpoint=made, name="forked")
    with soon(), pytest.raises(CheckpointCorrupt, match=r"meta\.json has no such environment"):
        wb.attach(good.path).card()
    assert [one.name for one in wb.runs()] == ["good"]


NONSENSE: tuple[Any, ...] = (None, -1, 0, 1e308, float("nan"), 10**30, "x", [], ["x"], [[1]], {}, {"x": 1}, True)


def leaves(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a record of JSON."""
    if path:
        yield path
    for key in record if isinstance(record, dict) else range(len(record)) if isinstance(record, list) else ():
        yield from leaves(record[key], (*path, key))


def views_of(episode: Rollout) -> list[Callable[[], Any]]:
    """All that shows a rollout."""
    return [
        lambda: repr(episode), lambda: episode.observations, lambda: episode.end, lambda: episode.pictures(),
        lambda: [episode.said, episode.explains_what_frames_do_not_show, episode.episode_score],
        lambda: RolloutPlayer([episode]), lambda: episode.frames is None or next(iter(film.with_overlay(episode))),
        lambda: player.episode(episode), lambda: episode.parent, lambda: episode.branches,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["episode", "branch"])
def test_a_rollout_of_anything_is_damaged_or_shown(home: Path, tmp_path: Path, kind: str) -> None:
    """Nothing of it raises an error that is not ours."""
    made = rolled_out(checkpoint_in(tmp_path / "made", "CartPole-v1"), tmp_path / "played", max_steps=5,
                      saliency="gradient" if kind == "episode" else None)  # fmt: skip
    if kind == "branch":
        with branching_here():
            made = made.branch(2, action=[0, 1], observation=[0, 0, 0, 0], hold=2)
    record, arrays, frames = store.read(made.path)
    assert frames is not None
    ends = frames._bounds[1:]
    steps = {name: rows.copy() for name, rows in arrays.items()} | {"frame_ends": np.array(ends)}
    seen, damaged = 0, 0

    def tried() -> None:
        nonlocal seen, damaged
        try:
            episode = rollouts.load(made.path)
        except StorageFailed:
            damaged += 1
            return
        seen += 1
        for view in views_of(episode):
            with suppress(WorkbenchError):
                view()

    for path in leaves(record):
        for value in NONSENSE:
            other = copy.deepcopy(record)
            place = reduce(getitem, path[:-1], other)
            place[path[-1]] = value
            (made.path / store.RECORD).write_text(json.dumps(other))
            tried()
    (made.path / store.RECORD).write_text(json.dumps(record))
    for name in steps:
        for value in (steps[name][:-1], steps[name][None], steps[name].astype(np.int8), steps[name][:0], None,
                      np.full_like(steps[name], 255 if steps[name].dtype == np.uint8 else 10**6)):  # fmt: skip
            other = {key: one for key, one in {**steps, name: value}.items() if one is not None}
            with open(made.path / "steps.safetensors", "wb") as file:
                Content.of("steps", other).write(file)
            tried()
    assert seen > 10 and damaged > 100

"""Files of a run within the sizes that are read, but made to take all memory, or all time."""

from __future__ import annotations

import json
import resource
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

import workbench as wb
from tests.attacks.hostile import replaced
from tests.attacks.overflowing import overflow
from tests.attacks.test_files import bad, good, soon
from tests.widgets import swept
from workbench.errors import StorageFailed, WorkbenchError
from workbench.metrics import MetricsReader, MetricsWriter, Progress
from workbench.metrics.schema import _TABLES
from workbench.metrics.status import RunStatus
from workbench.rundir import RunDirectory, files, sealed
from workbench.running.reading.changes import changes
from workbench.sweeping import sweep_folder
from workbench.widgets.panel import facts, snapshot

__all__ = ["bad", "good"]

MEBIBYTE = 2**20


def anew(run: RunDirectory) -> sqlite3.Connection:
    """A history of that run without rows; its status may have several."""
    for suffix in ("", "-wal", "-shm"):
        run.metrics.with_name(run.metrics.name + suffix).unlink(missing_ok=True)
    connection = sqlite3.connect(run.metrics)
    for statement in _TABLES:
        connection.execute(statement.replace(" CHECK (id = 1)", ""))
    return connection


@pytest.mark.parametrize("size", [60 * MEBIBYTE, 3 * MEBIBYTE + 1560], ids="of {} bytes".format)  # many on a page
def test_rows_that_share_their_pages_take_no_memory(good: RunDirectory, bad: RunDirectory, size: int) -> None:
    for table, row in (("status", (1, 1.0, "a" * size)),
                       ("events", (1, 1.0, "tune", "a" * size, 1, 1, 1, 1.0, "{}"))):
        with closing(anew(bad)) as connection:
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
            connection.commit()
        assert overflow(bad.metrics, table, leaves=120) > 700
        assert bad.metrics.stat().st_blocks * 512 < 2 * MEBIBYTE
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with soon():
            assert {row.name for row in wb.runs()} == {"good", "bad"}
        for look in (MetricsReader(bad.metrics).events, MetricsReader(bad.metrics).status):
            with soon(), suppress(StorageFailed):
                assert not look(), "a table without rows"
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 3 * MEBIBYTE  # in kB: 3 GiB
    with pytest.raises(StorageFailed, match="more than 2,147,483,648 bytes|too big"):
        MetricsReader(bad.metrics).events()


def test_large_files_of_small_things_are_refused_soon(good: RunDirectory, bad: RunDirectory) -> None:
    record = bad.record.read_bytes()
    much = b"[]," * (5 * MEBIBYTE)
    meta = bad.checkpoints / "000000000007/meta.json"
    meta.parent.mkdir(parents=True)
    for path, text in (
        (bad.record, record.rstrip()[:-1] + b', "a": [' + much + b"[]]}"),
        (meta, b'{"format": 1, "sha256": "", "a": [' + much + b"[]]}"),
        (bad.path / "evaluations.jsonl", b"0\n" * (8 * MEBIBYTE)),
    ):
        replaced(path, text.decode())
        for look in (wb.runs, lambda: wb.attach("bad").card(), lambda: wb.attach("bad").checkpoints):
            with soon(), suppress(WorkbenchError):
                look()
        replaced(bad.record, record.decode())


def test_code_that_is_hollow_is_not_read_through(bad: RunDirectory) -> None:
    for index in range(3):
        with open(bad.code / f"e{index}.pkl", "wb") as file:
            file.truncate(2**30)
    with soon():
        assert "1,073,741,824 bytes are no code" in wb.attach("bad").card().markdown
    small = bad.code / "environment.pkl"
    small.write_bytes(sealed.sealed(small.name, b"code"))
    assert sealed.fingerprint(small) == "5694d08a2e53ffcae0c3103e5ad6f6076abd960eb1f8a56577040bc1028f702b"


def test_a_record_that_could_not_be_read_is_not_written(good: RunDirectory) -> None:
    with pytest.raises(StorageFailed, match="at most 2,097,152 are read"):
        good.write(machine={"a": "x" * files.LARGEST_RECORD})
    assert good.read()["state"]


@pytest.mark.parametrize("index", ["9" * 4500, "\u00b2", "\u0661", "-1", ""], ids=ascii)
def test_an_actor_of_any_number_hides_no_run(good: RunDirectory, bad: RunDirectory, index: str) -> None:
    with closing(MetricsWriter(bad.metrics)) as writer:
        writer.status({"actors": {index: {"pid": 1}, "3": {"pid": 7}}})
    with soon():
        assert {row.name for row in wb.runs()} == {"good", "bad"}
    assert [one.index for one in RunStatus.from_json({"actors": {index: {}, "3": {}}}, name="bad").actors] == [3]


def test_of_a_million_actors_few_are_shown() -> None:
    with soon():
        assert len(RunStatus.from_json({"actors": {str(one): {} for one in range(10**6)}}, name="bad").actors) == 4096


def test_a_run_of_no_time_has_no_speed(bad: RunDirectory) -> None:
    with closing(MetricsWriter(bad.metrics)) as writer:
        writer.status({"time_s": 5e-324, "frames": 9 * 10**18, "steps": 9 * 10**18})
    bad.write(state="stopped")
    assert "frames/s" not in facts.facts(snapshot.read(bad)) + wb.attach("bad").status.line()


@pytest.mark.parametrize("returns", [[1e17] * 50, [2.0**62] * 50, [0.0, 5e-324] * 25, [1.7e308, -1.7e308] * 25,
                                     [1e16, 1e16 + 2] * 25],
                         ids=lambda returns: f"{returns[:2]}")
def test_returns_of_any_size_make_a_card(bad: RunDirectory, returns: list[float]) -> None:
    anew(bad).close()
    with closing(MetricsWriter(bad.metrics)) as writer:
        for at, value in enumerate(returns):
            writer.scalars(Progress(at, at, at, float(at)), {"episode_return": value})
    assert wb.attach("bad").card().markdown


CHANGES = ('{"old": 1, "new": 2}', '{"old": {}, "new": [1]}', '{"old": [], "new": {"learning_rate": 1}}',
           '{"old": {"learning_rate": 1}, "new": {"learning_rate": 2}, "undoes": [1]}',
           '{"old": {"learning_rate": 1}, "new": {"learning_rate": 2}, "undoes": {}}',
           '{"old": {"algorithm": "r2d2"}, "new": {"algorithm": "x"}}',
           '{"old": {"hyperparameters": 1}, "new": {"hyperparameters": 2}}',
           '{"old": {"": 1}, "new": {"": 2, "self": 3}}',
           json.dumps({"old": {"learning_rate": 10**400}, "new": {"learning_rate": 10**400}}))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change[:40])
def test_changes_that_no_run_writes_are_no_changes(bad: RunDirectory, change: str) -> None:
    with closing(sqlite3.connect(bad.metrics)) as connection:
        for kind in ("tune", "scale"):
            connection.execute("INSERT INTO events (time, kind, message, data) VALUES (1, ?, 'm', ?)", (kind, change))
        connection.commit()
    shown = wb.attach("bad").card()
    assert shown.markdown and "algorithm='x'" not in shown.code
    assert all(isinstance(one.name, str) for one in changes(MetricsReader(bad.metrics).events()))
    assert repr(wb.compare(["good", "bad"]).differences)


def test_text_that_is_none_can_be_saved(bad: RunDirectory, tmp_path: Path) -> None:
    with closing(MetricsWriter(bad.metrics)) as writer:
        writer.status({"state": "x\ud800", "hint": "\ud800", "device": "\udfff"})
    record = bad.read()
    bad.write(machine={"cpu\ud800": "a\udfff"}, config={**record["config"], "seed": 3})
    for suffix in (".md", ".html"):
        saved = wb.attach("bad").card().save(tmp_path / f"card{suffix}")
        assert "\\ud800" in saved.read_text()
    for shown in (wb.runs(), wb.attach("bad").status, wb.attach("bad")):
        repr(shown).encode()
        getattr(shown, "_repr_html_", str)().encode()


@pytest.mark.parametrize("name", ["bad?mode=memory", "bad#1", "bad%41"])
def test_a_sweep_of_any_name_is_read_where_it_lies(home: Path, name: str) -> None:
    swept.by_hand("good")
    (sweep_folder.folder() / "good").rename(sweep_folder.folder() / name)
    before = sorted(sweep_folder.folder().iterdir())
    [row] = wb.sweeps()
    assert row.state == "stopped" and len(wb.attach_sweep(sweep_folder.folder() / name).trials)
    assert sorted(sweep_folder.folder().iterdir()) == before

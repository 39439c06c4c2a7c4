"""`wb.runs()`: rows from recorded runs, actions on one that trains, and what is shown where there are no widgets."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ipywidgets.widgets.widget import _instances as open_models

import workbench as wb
from tests.conftest import SMALL, eventually
from tests.widgets import recorded
from workbench.metrics import MetricsWriter, Progress
from workbench.rundir import lock
from workbench.widgets.charts.live import VegaLib
from workbench.widgets.views.run_rows import POINTS
from workbench.widgets.views.runs_table import RunsTable

STATIC = {"text/html": "<table></table>", "text/plain": "runs"}


@pytest.fixture
def shown(home: Path) -> Iterator[RunsTable]:
    recorded.vtrace("pong")
    recorded.r2d2("replayed")
    table = RunsTable(STATIC)
    yield table
    table.close()


def rows(table: RunsTable) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in table.table.rows}


def test_a_row_tells_what_the_text_tells_and_draws_the_return(shown: RunsTable) -> None:
    row, text = rows(shown)["pong"], wb.runs()["pong"]
    for name in ("name", "state", "environment", "algorithm", "frames", "episode_return"):
        assert row[name] == getattr(text, name)
    assert abs(row["created"] - time.time()) < 60
    assert row["state"] == "dead" and row["frames_per_second"] is None
    assert 2 <= len(row["curve"]) <= POINTS
    assert row["curve"][-1] == [recorded.UPDATES * 2560, -20.0]
    assert [one["key"] for one in shown.table.rows] == [one.name for one in wb.runs()]


def test_a_run_that_trains_shows_its_speeds_and_what_can_be_done(shown: RunsTable) -> None:
    directory = wb.attach("pong").directory
    with lock.held(lock.of_supervisor(directory), wait_s=1.0):
        shown.refresh()
        row = rows(shown)["pong"]
        assert (row["state"], row["frames_per_second"], row["steps_per_second"]) == ("training", 5000.0, 1250.0)
        assert row["actions"] == ["show", "stop"]
    shown.refresh()
    assert rows(shown)["pong"]["actions"] == ["show", "resume", "delete"]


def test_a_run_that_trains_and_stands_still_has_no_speed_of_zero(shown: RunsTable) -> None:
    directory = wb.attach("pong").directory
    recorded.tell(directory, frames_per_second=0.0, steps_per_second=0.0)
    with lock.held(lock.of_supervisor(directory), wait_s=1.0):
        shown.refresh()
        row = rows(shown)["pong"]
        assert (row["state"], row["frames_per_second"], row["steps_per_second"]) == ("training", None, None)
        line = next(line for line in repr(wb.runs()).splitlines() if line.startswith("pong"))
        assert "—" in line


def test_what_did_not_change_on_disk_is_not_read_again(shown: RunsTable) -> None:
    kept = {directory.name: row for directory, (_, row) in shown._read.items()}
    writer = MetricsWriter(wb.attach("pong").directory.metrics)
    writer.scalars(Progress(10**6, 10**6, 500, 1.0), {"episode_return_mean": 21.0})
    writer.close()
    shown.refresh()
    after = {directory.name: row for directory, (_, row) in shown._read.items()}
    assert after["replayed"] is kept["replayed"] and after["pong"] is not kept["pong"]
    assert rows(shown)["pong"]["curve"][-1] == [10**6, 21.0]


def test_a_curve_is_of_means_that_leave_no_value_out(home: Path) -> None:
    directory = recorded.new("wavy")
    writer = MetricsWriter(directory.metrics)
    values = [100.0 if update % 100 == 0 else 0.0 for update in range(8001)]
    for update, value in enumerate(values):
        writer.scalars(recorded.at(update), {"episode_return_mean": value})
    writer.close()
    table = RunsTable(STATIC)
    *curve, newest = rows(table)["wavy"]["curve"]
    table.close()
    assert newest == [8000 * 2560, 100.0] and len(curve) == POINTS - 1
    assert all(abs(value - 1.0) < 0.6 for _, value in curve), "extremes alone would say 50"


def test_a_closed_table_leaves_nothing_in_the_browser(shown: RunsTable) -> None:
    VegaLib.shared()  # which all charts of a kernel share, and which stays
    before = set(open_models)
    table = RunsTable(STATIC)
    table.table.act("pong", "show")
    eventually(lambda: table.panel is not None and not rows(table)["pong"].get("busy"))
    table.close()
    assert set(open_models) == before


def test_runs_come_and_go(shown: RunsTable) -> None:
    recorded.new("young")
    shown.refresh()
    assert [row["key"] for row in shown.table.rows][0] == "young" and rows(shown)["young"]["curve"] == []
    wb.attach("young").delete()
    shown.refresh()
    assert "young" not in rows(shown)


def test_attach_shows_the_panel_below_and_detach_takes_it_away(shown: RunsTable) -> None:
    shown.table.act("pong", "show")
    eventually(lambda: shown.panel is not None and rows(shown)["pong"]["actions"][0] == "hide")
    panel = shown.panel
    assert panel is not None and shown.view.children[1].children == (panel.view,)
    shown.table.act("replayed", "show")
    eventually(lambda: shown.panel not in (panel, None) and rows(shown)["pong"]["actions"][0] == "show")
    shown.table.act("replayed", "hide")
    eventually(lambda: shown.panel is None)
    assert shown.view.children[1].children == ()


def test_delete_says_where_the_run_is(shown: RunsTable, home: Path) -> None:
    shown.table.act("pong", "show")
    eventually(lambda: shown.panel is not None and "busy" not in rows(shown)["pong"])
    shown.table.act("pong", "delete")
    eventually(lambda: "pong" not in rows(shown))
    eventually(lambda: f"pong is in the trash: {home}/trash/pong-" in shown.table.said)
    assert shown.panel is None


def test_a_refusal_is_said_under_the_row_with_the_remedy(shown: RunsTable) -> None:
    with lock.held(lock.of_supervisor(wb.attach("pong").directory), wait_s=1.0):
        shown.table.act("pong", "delete")
        eventually(lambda: "Stop it first: wb.attach('pong').stop()" in rows(shown)["pong"].get("note", ""))
    assert wb.attach("pong").path.exists()


def test_a_table_that_nobody_sees_is_not_followed_for_ever(shown: RunsTable) -> None:
    assert shown.tick()
    shown._onlookers._seen_at -= 61.0
    assert not shown.tick()
    shown.table._handle_custom_msg({"type": "seen"}, [])
    assert shown.tick()


def test_a_damaged_run_does_not_hide_the_others(shown: RunsTable) -> None:
    wb.attach("pong").directory.metrics.write_bytes(b"this is no database, and long enough to be looked at" * 40)
    assert shown.tick()
    assert set(rows(shown)) == {"pong", "replayed"} and rows(shown)["pong"]["curve"] == []
    assert shown.table.said == ""


def test_a_table_that_cannot_be_refreshed_says_so(shown: RunsTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("the disk went away")

    monkeypatch.setattr("workbench.rundir.listed", broken)
    assert shown.tick()
    assert shown.table.said == "The table could not be refreshed: the disk went away"
    shown.table.say("")
    sent: list[Any] = []
    monkeypatch.setattr(shown.table, "send", lambda content, buffers=None: sent.append(content))
    shown.table._handle_custom_msg({"type": "pull"}, [])
    assert sent[-1]["all"] and "the disk went away" in sent[-1]["said"]["text"], "the page that asked gets its answer"
    monkeypatch.undo()
    assert shown.tick() and shown.table.said == ""


def test_many_ended_runs_cost_little(home: Path) -> None:
    for number in range(30):
        recorded.vtrace(f"run-{number}")
    table = RunsTable(STATIC)
    started = time.thread_time()
    for _ in range(10):
        table.refresh()
    took = (time.thread_time() - started) / 10
    table.close()
    assert took < 0.1, f"{took * 1000:.0f} ms for 30 runs"


def test_in_a_notebook_the_table_is_a_widget_with_a_table_to_keep(home: Path) -> None:
    code = """
import workbench as wb
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.displaypub import CapturingDisplayPublisher
shell = InteractiveShell.instance()
shell.display_pub = CapturingDisplayPublisher()
shell.run_cell("import workbench as wb; wb.runs()")
for one in shell.display_pub.outputs:
    print(sorted(one["data"]), "<table>" in one["data"].get("text/html", ""), one["data"]["text/plain"])
"""
    recorded.vtrace("pong")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert "['application/vnd.jupyter.widget-view+json', 'text/plain'] False name" in out.stdout, out
    assert "['text/html', 'text/plain'] True" in out.stdout, out
    missing = "import sys; sys.modules['ipywidgets'] = None\n" + code
    out = subprocess.run([sys.executable, "-c", missing], capture_output=True, text=True, timeout=240)
    assert "['text/html', 'text/plain'] True name" in out.stdout, out
    assert "pong" in out.stdout


def test_the_table_stays_a_sequence_with_text_and_html(home: Path) -> None:
    recorded.vtrace("pong")
    table = wb.runs()
    assert len(table) == 1 and table["pong"] is table[0] and list(table) == [table[0]]
    assert "pong" in repr(table) and "<table>" in table._repr_html_()


@pytest.mark.full
def test_stop_and_resume_act_on_a_run_that_trains(home: Path) -> None:
    run = wb.launch("CartPole-v1", name="steered", total_frames=10**9, progress=False, **{**SMALL, "actors": 1})
    table = RunsTable(STATIC)
    try:
        assert rows(table)["steered"]["actions"] == ["show", "stop"]
        run.pause()
        table.refresh()
        eventually(lambda: table.refresh() or rows(table)["steered"]["state"] == "paused")
        assert rows(table)["steered"]["actions"] == ["show", "resume", "stop"]
        table.table.act("steered", "resume")
        eventually(lambda: run.state == "training" and table.table.said == "steered goes on")
        table.table.act("steered", "stop")
        assert rows(table)["steered"]["note"] == "Stop …"
        eventually(lambda: run.state == "stopped" and rows(table)["steered"]["state"] == "stopped")
        eventually(lambda: table.table.said.startswith("steered: stopped"))
        table.table.act("steered", "resume")
        eventually(lambda: table.table.said.startswith("steered trains again, from"))
        assert wb.attach("steered").state == "training"
        assert rows(table)["steered"]["actions"] == ["show", "stop"]
    finally:
        table.close()

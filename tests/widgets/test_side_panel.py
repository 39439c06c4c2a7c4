"""The server's half of JupyterLab's side panel: on a real Jupyter server, and what its rows say of real runs."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.browser.driver import Server
from tests.conftest import CALM, eventually, processes_of
from tests.widgets import recorded
from workbench import rundir
from workbench.errors import InvalidInput, RunAlive, RunNotFound
from workbench.metrics import MetricsWriter
from workbench.rundir import lock
from workbench.running.handle import Run
from workbench.widgets.side_panel.overview import SHARE, Overview

STARTED = {**CALM, "actors": 1, "total_frames": 10**9, "progress": False}
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def run(module_home: Path) -> Run:
    run = wb.launch("testing/catch-v0", name="listed", **STARTED)
    run.wait(updates=5, timeout_s=240, progress=False)
    run.stop()
    return run


@pytest.fixture(scope="module")
def server(run: Run, module_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    environment = {"WORKBENCH_HOME": str(module_home), "OMP_NUM_THREADS": "1"}
    with Server(tmp_path_factory.mktemp("root"), environment=environment) as started:
        yield started


@pytest.fixture
def overview() -> Overview:
    return Overview()


def row(overview: Overview, name: str, kind: str = "runs") -> dict[str, Any]:
    overview._due = 0.0
    return next(row for row in overview.look()[kind] if row["name"] == name)


def answer(server: Server, path: str, method: str = "GET", *, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    """Status and content of an answer to a client that is logged in, or has the given headers instead."""
    request = urllib.request.Request(f"{server.base}{path}", method=method, data=b"" if method == "POST" else None,
                                     headers={"Authorization": f"token {server.token}"} if headers is None else headers)
    try:
        with urllib.request.urlopen(request, timeout=240) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


# --- the server -------------------------------------------------------------------------------------------------------


def test_the_server_lists_the_runs_to_who_is_logged_in(server: Server) -> None:
    status, content = answer(server, "/workbench/api/overview")
    assert status == 200
    (listed,) = content["runs"]
    assert listed["name"] == "listed" and listed["state"] == "stopped" and listed["actions"] == ["resume", "delete"]
    assert 0 < listed["frames"] < listed["total_frames"] == 10**9 and len(listed["curve"]) > 1


def test_a_stranger_hears_nothing_and_changes_nothing(server: Server, run: Run) -> None:
    for path, method in (("overview", "GET"), ("runs/listed/delete", "POST")):
        status, content = answer(server, f"/workbench/api/{path}", method, headers={})
        assert status == 403 and "listed" not in content
    assert run.path.exists()


def test_a_page_of_another_site_changes_nothing(server: Server, run: Run) -> None:
    """Its browser sends the cookie of who is logged in, but it does not know the XSRF token."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    opener.open(f"{server.base}/lab?token={server.token}", timeout=240).read()
    assert opener.open(f"{server.base}/workbench/api/overview", timeout=240).status == 200
    with pytest.raises(urllib.error.HTTPError) as refused:
        opener.open(f"{server.base}/workbench/api/runs/listed/delete", data=b"", timeout=240)
    assert refused.value.code == 403 and run.path.exists()


def test_no_answer_holds_a_token_of_a_run(server: Server, run: Run) -> None:
    token = run.directory.token()
    for path, method in (("overview", "GET"), ("runs/listed/stop", "POST")):
        assert token not in json.dumps(answer(server, f"/workbench/api/{path}", method))


@pytest.mark.parametrize("name", ["..", "../runs/listed", "%2e%2e%2fruns%2flisted", ".hidden", "a%20b", "x" * 101])
def test_a_name_that_is_a_path_is_no_address(server: Server, name: str) -> None:
    assert answer(server, f"/workbench/api/runs/{name}/delete", "POST")[0] in (403, 404)
    assert rundir.find("listed")


def test_an_action_that_fails_says_why(server: Server) -> None:
    assert answer(server, "/workbench/api/runs/nobody/stop", "POST")[0] == 404
    status, content = answer(server, "/workbench/api/runs/listed/stop", "POST")
    assert status == 409 and "listed is stopped" in json.loads(content)["message"]


@pytest.mark.full
def test_a_run_that_the_server_resumed_outlives_the_server(run: Run, module_home: Path, tmp_path: Path) -> None:
    with Server(tmp_path, environment={"WORKBENCH_HOME": str(module_home), "OMP_NUM_THREADS": "1"}) as server:
        assert answer(server, "/workbench/api/runs/listed/resume", "POST")[0] == 200
        eventually(lambda: run.state == "training", what="trains again")
    frames = run.status.frames
    eventually(lambda: run.status.frames > frames, what="trains on without the server")
    assert processes_of(run.path)
    run.stop()


# --- the rows ---------------------------------------------------------------------------------------------------------


def test_an_action_goes_its_way_through_the_overview(run: Run, overview: Overview) -> None:
    assert "starting" in overview.act("run", "listed", "resume")
    eventually(lambda: row(overview, "listed")["state"] == "training", what="training again")
    assert row(overview, "listed")["actions"] == ["stop"]
    with pytest.raises(RunAlive):
        overview.act("run", "listed", "delete")
    assert "Stop it first" in row(overview, "listed")["failure"]
    assert "stopping" in overview.act("run", "listed", "stop")
    assert row(overview, "listed")["failure"] == ""
    eventually(lambda: run.state == "stopped", what="stopped")


def test_a_run_is_deleted_through_the_overview(home: Path, overview: Overview) -> None:
    recorded.new("old").write(state="stopped")
    assert row(overview, "old")["actions"] == ["resume", "delete"]
    assert "trash" in overview.act("run", "old", "delete")
    assert not overview.look()["runs"]
    assert list((home / "trash").glob("old-*"))


@pytest.mark.parametrize("name", ["../runs", "/tmp", "", "a/b", HOSTILE])
def test_an_action_refuses_what_is_no_name(home: Path, overview: Overview, name: str) -> None:
    with pytest.raises(InvalidInput):
        overview.act("run", name, "delete")
    with pytest.raises(RunNotFound):
        overview.act("sweep", "nobody", "stop")


def test_a_damaged_run_is_one_row_that_says_so(home: Path, overview: Overview) -> None:
    for name, record in (("cut", "{"), (HOSTILE, "{}"), ("empty", "{}")):
        folder = home / "runs" / name
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(record)
    rows = {listed["name"]: listed for listed in overview.look()["runs"]}
    assert set(rows) == {"cut", HOSTILE, "empty"}
    assert all(listed["state"] == "damaged" and listed["problem"] and not listed["actions"] for listed in rows.values())


def test_what_json_does_not_have_becomes_nothing(run: Run, module_home: Path, overview: Overview) -> None:
    content = overview.look()
    json.dumps(content, allow_nan=False)


def test_a_look_is_shared_until_the_next_one_is_due(run: Run, overview: Overview) -> None:
    before = overview.look()
    due = overview._due
    after = overview.look()
    assert after["runs"] == before["runs"] and overview._due == due > time.monotonic()


def test_a_look_takes_less_of_the_time_than_its_share(run: Run, overview: Overview) -> None:
    """The next look waits for a hundred times what this one cost, whatever the machine."""
    began_s = time.thread_time()
    overview.look()
    cost_s = time.thread_time() - began_s
    assert overview._due - time.monotonic() >= min(1.0, cost_s / SHARE / 2)


def test_news_of_a_run_are_its_collapses_since_the_run_began(run: Run, overview: Overview) -> None:
    writer = MetricsWriter(run.directory.metrics)
    writer.event("collapse", "mean return 9, 98 % below its best of 500")
    writer.close()
    (event,) = row(overview, "listed")["events"]
    assert event["kind"] == "collapse" and "98 %" in event["message"]


def test_a_run_that_goes_on_from_before_its_best_is_collapsed_no_more(home: Path) -> None:
    directory, overview = recorded.new("back"), Overview()
    writer = MetricsWriter(directory.metrics)
    writer.event("collapse", "mean return 9, 98 % below its best of 500")
    writer.close()
    with lock.held(lock.of_supervisor(directory), wait_s=1.0):
        for collapsed in (True, False):  # the learner goes on with few episodes behind it: no event says so
            recorded.tell(directory, best_mean=500.0, collapsed=collapsed)
            assert row(overview, "back")["collapsed"] is collapsed

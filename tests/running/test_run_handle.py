"""One small run, looked at and steered through its handle; every wrong input leaves it as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.conftest import CALM, eventually
from workbench.errors import (
    AccessDenied,
    InvalidInput,
    NotLive,
    OutOfBounds,
    RunExists,
    RunNotFound,
    UnknownName,
    WaitTimeout,
    WrongType,
)

NAME = "counting-vtrace-1"


@pytest.fixture(scope="module")
def run(module_home: Path) -> Iterator[wb.Run]:
    yield wb.launch("testing/counting-v0", seed=1, warmup_updates=0, **CALM)


def test_the_first_free_name_is_made_of_environment_and_algorithm(run: wb.Run) -> None:
    assert run.name == NAME
    assert (run.path / "token").stat().st_mode & 0o777 == 0o600
    assert run.path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("unit", ["frames", "steps", "updates"])
def test_waiting_returns_at_the_target(run: wb.Run, unit: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = getattr(run.status, unit) + 10
    status = run.wait(**{unit: target}, timeout_s=240)
    assert getattr(status, unit) >= target
    assert status.state == "training"
    assert capsys.readouterr().out == ""  # nobody looks on


def test_waiting_returns_at_the_first_of_several_targets(run: wb.Run) -> None:
    status = run.wait(frames=run.status.frames + 10, episode_return=1e9, timeout_s=240)
    assert status.episode_return is None or status.episode_return < 1e9


def test_a_progress_bar_shows_when_asked_for(run: wb.Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.wait(frames=run.status.frames + 100, timeout_s=240, progress=True)
    assert NAME in capsys.readouterr().out


def test_waiting_too_long_says_how_the_run_is_and_leaves_it_alone(run: wb.Run) -> None:
    expected = r"has not reached episode_return=1e\+09 after 0.5 s; it goes on. Now: training"
    with pytest.raises(WaitTimeout, match=expected):
        run.wait(episode_return=1e9, timeout_s=0.5)
    assert run.status.state == "training"


def test_seconds_are_a_target_as_others_are(run: wb.Run) -> None:
    began = time.monotonic()
    status = run.wait(episode_return=1e9, seconds=0.5, timeout_s=600)
    assert time.monotonic() - began >= 0.5 and status.state == "training"
    before = run.status.updates
    assert run.wait(updates=before + 1, seconds=600).updates > before
    with pytest.raises(WaitTimeout, match="has not reached seconds=600 after 0.1 s"):
        run.wait(seconds=600, timeout_s=0.1)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), "10", True])
def test_seconds_out_of_bounds_are_refused(run: wb.Run, seconds: Any) -> None:
    with pytest.raises(OutOfBounds, match="^seconds="):
        run.wait(seconds=seconds)


@pytest.mark.parametrize("target", [{"frames": -1}, {"updates": -1}, {"frames": 1.5}, {"updates": "10"}])
def test_targets_that_are_no_counts_are_refused(run: wb.Run, target: dict[str, Any]) -> None:
    with pytest.raises(OutOfBounds, match=f"^{next(iter(target))}="):
        run.wait(**target)


def test_a_change_that_would_end_the_run_at_once_is_refused(run: wb.Run) -> None:
    run.wait(frames=run.status.frames + 1, timeout_s=240)
    with pytest.raises(OutOfBounds, match=r"total_frames=1 would end .* run.stop\(\) ends it"):
        run.tune(total_frames=1)
    eventually(lambda: run.status.alive_s > 0.5)
    with pytest.raises(OutOfBounds, match=r"max_hours=0.0001 would end .*: it stands at .* of 0.0001 h. run.stop\(\)"):
        run.tune(max_hours=1e-4)
    frames = run.config.total_frames
    run.tune(total_frames=2 * frames)
    run.tune(total_frames=frames)
    assert run.status.state == "training"


@pytest.mark.parametrize(("wrong", "said"), [("5", "must be a number"), (float("nan"), "out of bounds"),
                                             (float("inf"), "out of bounds"), (-1, "out of bounds")])
def test_a_timeout_that_is_none_is_refused_before_anything_is_asked(run: wb.Run, wrong: Any, said: str) -> None:
    for call in (run.stop, run.wait, run.checkpoint):
        with pytest.raises(OutOfBounds, match=f"^timeout_s=.*{said}"):
            call(timeout_s=wrong)
    assert run.status.state == "training"


def test_numbers_of_numpy_are_sent_as_numbers(run: wb.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(run._control, "call", lambda method, timeout_s=0.0, **more: sent.append(json.dumps(more)))
    run.scale(actors=np.int64(3))
    run.restart_actor(np.int64(0))
    assert sent == ['{"actors": 3}', '{"index": 0, "kill": false}']


def test_a_bar_counts_the_seconds_where_nothing_else_is_counted(
    run: wb.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run.wait(episode_return=1e9, seconds=0.5, progress=True)
    assert "0.50/0.50 s [" in capsys.readouterr().out


def test_status_knows_every_process(run: wb.Run) -> None:
    status = eventually(lambda: (s := run.status).actors[0].steps and s.actors[1].steps and s)
    assert [actor.index for actor in status.actors] == [0, 1]
    assert all(actor.alive and actor.environments == 4 for actor in status.actors)
    assert len({status.supervisor_pid, status.learner_pid, *(actor.pid for actor in status.actors)}) == 4
    assert status.device == "cpu"
    assert status.error is None


def test_repr_costs_nothing_and_tells_the_age(run: wb.Run) -> None:
    run.status  # noqa: B018
    away = run.path.rename(run.path.with_name("away"))
    try:
        assert f"{NAME}: training" in repr(run)
        assert repr(run).endswith("s ago)")
    finally:
        away.rename(run.path)


def test_a_deleted_run_is_not_found(run: wb.Run) -> None:
    away = run.path.rename(run.path.with_name("away"))
    try:
        for look in (lambda: run.status, lambda: run.metric_names, lambda: run.checkpoints, run.pause, run.stop):
            with pytest.raises(RunNotFound, match=r"wb\.runs\(\)"):
                look()
    finally:
        away.rename(run.path)
    assert run.status.state == "training"


def test_metrics_are_tables(run: wb.Run) -> None:
    eventually(lambda: "loss" in run.metric_names and "episode_return" in run.metric_names)
    table = run.metrics("episode_return")
    assert list(table.columns) == ["frames", "steps", "updates", "time_s", "value"]
    assert len(table) > 0


def test_flights_show_where_an_observation_spends_its_life(run: wb.Run, tmp_path: Path) -> None:
    eventually(lambda: len(run.flights().flights) >= 5)
    flights = run.flights()
    stages = [stage.name for stage in flights]
    assert stages == ["step", "wait", "inference", "wire", "unroll", "queue", "training"]
    assert all(stage.mean > 0 for stage in flights if stage.name != "wire"), flights
    assert {flight.env for flight in flights.flights} <= set(range(run.config.actors * run.config.envs_per_actor))
    assert "learner 0" in flights.save_trace(tmp_path / "trace.json").read_text()
    eventually(lambda: all(f"life_{stage}_s" in run.metric_names for stage in stages))
    spent = run.metrics("life_queue_s")["value"]
    assert (spent > 0).all() and (spent < 600).all()


def test_a_misspelt_metric_gets_the_nearest_name(run: wb.Run) -> None:
    eventually(lambda: "loss" in run.metric_names)
    with pytest.raises(UnknownName, match=r"unknown metric 'los'. Did you mean 'loss'\?"):
        run.metrics("los")


def test_tune_changes_the_run_and_is_an_event(run: wb.Run) -> None:
    assert run.tune(learning_rate=2.5e-4) == {"old": {"learning_rate": 6e-4}, "new": {"learning_rate": 2.5e-4}}
    assert run.hyperparameters["learning_rate"].value == 2.5e-4
    event = run.events.query("kind == 'tune'").iloc[-1]
    assert event["message"] == "learning_rate 0.0006 → 0.00025"
    eventually(lambda: run.metrics("learning_rate")["value"].iloc[-1] == 2.5e-4, what="the learner uses it")


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"learning_rte": 1e-3}, UnknownName, "Did you mean 'learning_rate'"),
        ({"learning_rate": 7.0}, OutOfBounds, "learning_rate=7.0 is out of bounds"),
        ({"learning_rate": float("nan")}, OutOfBounds, "out of bounds"),
        ({"learning_rate": "fast"}, WrongType, "learning_rate='fast' must be a number, not text"),
        ({"batch_size": 64}, NotLive, "batch_size is fixed once a run has started"),
        ({"entropy_cost": 0.02, "unroll_length": 5}, NotLive, "unroll_length is fixed"),
        ({}, InvalidInput, "nothing to change"),
    ],
)
def test_a_wrong_change_is_one_clear_error_and_changes_nothing(run: wb.Run, changes, error, text) -> None:
    before, updates = run.config, run.status.updates
    with pytest.raises(error, match=text):
        run.tune(**changes)
    assert run.config == before
    assert run.wait(updates=updates + 1, timeout_s=240).state == "training"


def test_the_supervisor_checks_changes_by_itself(run: wb.Run) -> None:
    with pytest.raises(OutOfBounds, match="learning_rate"):
        run._control.call("tune", changes={"learning_rate": -1.0})
    with pytest.raises(InvalidInput, match="there is no actor 99"):
        run.restart_actor(99)


def test_paused_stands_still_and_goes_on(run: wb.Run) -> None:
    with run.paused() as same:
        assert same is run
        before = run.status
        assert before.state == "paused"
        with run.paused():
            pass
        assert run.status.state == "paused"  # it was paused before the inner block
    after = run.wait(updates=before.updates + 3, timeout_s=240)
    assert after.state == "training"
    assert {"pause", "resume"} <= set(run.events["kind"])


def test_scaling_up_and_down_is_live(run: wb.Run) -> None:
    pids = [actor.pid for actor in run.status.actors]
    run.scale(actors=3)
    grown = eventually(lambda: len((s := run.status).actors) == 3 and s.actors[2].steps > 0 and s)
    assert [actor.pid for actor in grown.actors[:2]] == pids
    run.scale(actors=1)
    shrunk = eventually(lambda: len((s := run.status).actors) == 1 and s)
    assert shrunk.actors[0].pid == pids[0]
    eventually(lambda: not any(_lives(actor.pid) for actor in grown.actors[1:]), what="the others have ended")
    run.wait(updates=run.status.updates + 3, timeout_s=240)
    run.scale(actors=2)
    eventually(lambda: all(actor.steps for actor in run.status.actors) and len(run.status.actors) == 2)
    assert list(run.events.query("kind == 'scale'")["message"])[:2] == ["actors 2 → 3", "actors 3 → 1"]


def _lives(pid: int | None) -> bool:
    return pid is not None and Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("actors", [0, -1, 5000])
def test_scaling_out_of_bounds_changes_nothing(run: wb.Run, actors: int) -> None:
    with pytest.raises(OutOfBounds, match=rf"actors={actors} is out of bounds: it must lie in \[1, 4096\]"):
        run.scale(actors=actors)
    assert len(run.status.actors) == 2


def test_a_checkpoint_is_on_disk_when_the_call_returns(run: wb.Run) -> None:
    made = run.checkpoint()
    made.verify()
    assert made.requested
    assert made.path in [one.path for one in run.checkpoints]


def test_a_second_request_at_the_same_update_returns_the_checkpoint_that_exists(run: wb.Run) -> None:
    with run.paused():
        first, written = run.checkpoint(), len(run.checkpoints)
        assert run.checkpoint().path == first.path and len(run.checkpoints) == written
        run.tune(entropy_cost=0.02)
        assert run.checkpoint().path != first.path, "its configuration is another"


def test_a_shorter_interval_between_checkpoints_begins_at_once(run: wb.Run) -> None:
    def written(more: int) -> None:
        newest = run.checkpoints[-1].frames if len(run.checkpoints) else -1
        for _ in range(more):
            newest = eventually(lambda: (last := run.checkpoints[-1].frames) > newest and last)  # noqa: B023

    run.tune(checkpoint_interval_s=1.0)
    written(1)
    run.tune(checkpoint_interval_s=1e6)
    run.wait(seconds=3)  # the one that was due by then is written
    run.tune(checkpoint_interval_s=1.0)
    written(2)
    run.tune(checkpoint_interval_s=600.0)


def test_hyperparameters_show_bounds_in_text_and_html(run: wb.Run) -> None:
    table = run.hyperparameters
    assert table["learning_rate"].low == 0.0
    assert "learning_rate" in repr(table)
    assert "<table>" in table._repr_html_()
    with pytest.raises(UnknownName, match="'entropy_cost'"):
        table["entropy_csot"]


def test_runs_lists_it(run: wb.Run) -> None:
    eventually(lambda: wb.runs()[NAME].frames > 0)
    assert wb.runs()[NAME].state == "training"
    assert NAME in repr(wb.runs())


def test_a_second_handle_steers_the_same_run(run: wb.Run) -> None:
    assert wb.attach(run).path == run.path
    other = wb.attach(run.path)
    other.tune(entropy_cost=0.005)
    assert run.hyperparameters["entropy_cost"].value == 0.005
    other.close()
    assert run.status.state == "training"


def test_another_process_sees_the_whole_history(run: wb.Run) -> None:
    look = "print(r.events['kind'].iloc[0], len(r.metrics('loss')), r.state)"
    code = f"import workbench as wb; r = wb.attach({NAME!r}); {look}"
    kind, points, state = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert (kind, state) == ("launch", "training")
    assert int(points) > 0


def test_a_name_is_used_once(run: wb.Run) -> None:
    with pytest.raises(RunExists, match=rf"there is a run '{NAME}' already"):
        wb.launch("CartPole-v1", name=NAME)
    assert run.status.state == "training"


def test_resuming_a_live_run_gives_its_handle(run: wb.Run) -> None:
    same = wb.resume(run, entropy_cost=0.004)
    assert same.status.supervisor_pid == run.status.supervisor_pid
    assert run.hyperparameters["entropy_cost"].value == 0.004


def test_resuming_a_run_that_trains_is_said_in_one_sentence(
    run: wb.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    eventually(lambda: run.state == "training")
    run.resume()
    assert capsys.readouterr().out == f"{NAME} is training already: it was not paused.\n"
    wb.resume(NAME)
    assert capsys.readouterr().out == f"{NAME} is training already: it was not started again.\n"
    run.pause()
    run.wait(seconds=1, progress=False)
    assert capsys.readouterr().out.startswith(f"{NAME} is paused, and the wait goes on")
    run.resume()
    assert capsys.readouterr().out == ""


def test_a_misspelt_run_gets_the_nearest_name(run: wb.Run) -> None:
    with pytest.raises(RunNotFound, match=f"Did you mean '{NAME}'"):
        wb.attach("counting-vtrace-2")


def test_a_token_that_others_can_read_is_refused(run: wb.Run) -> None:
    token = run.path / "token"
    os.chmod(token, 0o644)
    try:
        with pytest.raises(AccessDenied, match="chmod go-rwx"):
            wb.attach(NAME).pause()
    finally:
        os.chmod(token, 0o600)
    assert run.status.state == "training"


def test_a_bare_run_shows_text_in_a_cell_where_ipywidgets_is_missing(run: wb.Run) -> None:
    code = f"""
import sys
sys.modules["ipywidgets"] = None
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.instance().run_cell("import workbench as wb; run = wb.attach({NAME!r}); run")
"""
    shown = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=240)
    assert f"Run({NAME}: training" in shown.stdout, shown.stderr
    assert "pip install ipywidgets" in shown.stdout

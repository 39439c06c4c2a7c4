"""Rules that end a run while it trains: they are the supervisor's, are changed live, and hold when it is resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import SMALL, eventually, processes_of
from workbench.__main__ import main
from workbench.errors import InvalidInput, RunNotAlive
from workbench.metrics import MetricsReader

pytestmark = pytest.mark.full

FIELDS = {**SMALL, "actors": 1, "total_frames": 10**9, "progress": False}


def test_a_run_ends_at_the_return_that_is_enough_and_when_its_hours_are_over(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = wb.launch("CartPole-v1", name="ruled", target_return=1e6, target_score=1e6, max_hours=100.0,
                    price_per_hour=3600.0, **FIELDS)
    told = eventually(lambda: status if (status := run.status).eta_s is not None else None)
    assert 0 < told.eta_s <= 100 * 3600 and "left" in told.line() and told.cost > 0
    assert main(["status", "ruled"]) == 0
    assert "of 100 h, cost " in capsys.readouterr().out
    eventually(lambda: (run.status.episodes_in_mean or 0) >= 20)
    assert run.status.state == "training"
    eventually(lambda: run.events["message"].str.contains("target_score=1e\\+06 can end nothing").any())
    run.tune(target_return=1.0)
    status = run.wait(timeout_s=240)
    assert status.state == "finished" and status.reason.startswith("reached target_return=1: the mean return is ")
    assert status.best_return is not None and status.best_return >= 1.0
    assert list(run.events["kind"])[-1] == "finished" and run.events["message"].iloc[-1] == status.reason
    assert run.checkpoints[-1].frames == status.frames and run.checkpoints[-1].meta["reason"] == "finished"
    assert status.cost == pytest.approx(status.alive_s, rel=0.01) and status.eta_s is None
    eventually(lambda: not processes_of(run.path))
    assert run.wait(seconds=600).state == "finished"
    with pytest.raises(RunNotAlive, match=r"or seconds=600. wb.resume\('ruled', target_return=None\)"):
        run.wait(updates=10**9, seconds=600)
    with pytest.raises(InvalidInput, match="ruled would finish at once: it reached target_return=1: .* Give another"):
        wb.resume("ruled")
    with pytest.raises(InvalidInput, match=r"it reached max_hours=0.0003. .* wb.resume\('ruled', max_hours=None\)"):
        wb.resume("ruled", target_return=None, max_hours=0.0003)
    with pytest.raises(InvalidInput, match=r"wb.resume\('ruled', target_return=None, total_frames=2000000000\)"):
        wb.resume("ruled", total_frames=2 * 10**9)
    again = wb.resume("ruled", target_return=None, max_hours=1.0, wait_ready=False)
    # What was spent is not forgotten.
    assert again.status.alive_s >= status.alive_s and again.status.cost >= status.cost
    eventually(lambda: again.status.state == "training")
    soon = round(again.status.alive_s / 3600 + 0.002, 4)
    again.tune(max_hours=soon)
    assert again.wait(timeout_s=240).reason == f"reached max_hours={soon:g}"


@pytest.mark.full
def test_a_run_ends_when_its_money_is_spent(home: Path) -> None:
    run = wb.launch("CartPole-v1", name="paid", max_cost=4.0, price_per_hour=3600.0, wait_ready=False, **FIELDS)
    status = run.wait(timeout_s=240)
    assert status.state == "finished" and status.reason.startswith("reached max_cost=4, after ")
    assert 4.0 <= status.cost == pytest.approx(status.alive_s)


@pytest.mark.full
def test_a_run_without_progress_ends(home: Path) -> None:
    run = wb.launch("testing/counting-v0", name="stuck", patience_frames=3000, wait_ready=False, **FIELDS)
    status = run.wait(timeout_s=240)  # every episode of it has one of few returns
    assert status.state == "finished" and status.reason.startswith("reached patience_frames=3,000: no mean return ab")
    assert status.frames - status.best_return_frames >= 3000
    kept, _ = MetricsReader(run.directory.metrics).status()
    assert json.dumps(kept["best_return"]) == json.dumps(status.best_return)


@pytest.mark.full
def test_a_run_that_has_ended_says_the_mean_of_the_episodes_that_it_recorded_last(home: Path) -> None:
    run = wb.launch("CartPole-v1", name="ended", wait_ready=False, **{**FIELDS, "total_frames": 20_000})
    status = run.wait(timeout_s=240)
    recorded, last = run.metrics("episode_return")["value"], run.checkpoints[-1]
    assert status.episodes == len(recorded) and status.frames == last.frames
    assert status.episode_return == pytest.approx(recorded[-100:].mean()) == last.episode_return
    assert status.best_return >= status.episode_return

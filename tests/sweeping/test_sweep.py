"""Real sweeps of short runs: one whose process is killed and goes on, one that is stopped, one that cannot work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import workbench as wb
from tests.conftest import SMALL, eventually, private_home, processes_of
from workbench import rundir
from workbench.config import hardware
from workbench.errors import InvalidInput, RunAlive, RunFailed, RunNotAlive
from workbench.rundir import lock
from workbench.sweeping import study as sweep_study
from workbench.sweeping.sweep_folder import SweepFolder, is_at_rest

optuna = pytest.importorskip("optuna")

FEW = {**SMALL, "preset": "none", "actors": 1, "total_frames": 2000, "parallel": min(2, hardware.cores())}
SPACE = {"learning_rate": (1e-4, 1e-2), "entropy_cost": (1e-4, 0.1), "max_gradient_norm": [0.5, 40.0]}
KERNEL = f"""
import time, workbench as wb
wb.sweep("CartPole-v1", space={SPACE!r}, trials=3, name="tough", **{FEW!r})
print("swept", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    yield from private_home()


def process_of(sweep: wb.Sweep) -> psutil.Process:
    found = processes_of(sweep.path)
    assert found
    return min(found, key=lambda one: one.create_time())  # what it forks has its command line until it is a program


def has_begun(home: Path, name: str) -> bool:
    """Whether that run has a process, or is being given one."""
    return (home / "runs" / name / "run.json").exists() and wb.attach(name).state != "dead"


@pytest.fixture(scope="module")
def survivor(home: Path) -> wb.Sweep:
    """A sweep that outlived its kernel, was killed with two runs under way, and was resumed to its end."""
    with subprocess.Popen(
        [sys.executable, "-c", KERNEL], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as kernel:
        try:
            assert kernel.stdout is not None
            assert "in all of them (warmup_updates=200)" in kernel.stdout.readline()
            assert kernel.stdout.readline() == "swept\n"
        finally:
            os.killpg(kernel.pid, signal.SIGKILL)
    sweep = wb.attach_sweep("tough")
    eventually(lambda: all(has_begun(home, f"tough-{number}") for number in range(FEW["parallel"])))
    process_of(sweep).kill()
    eventually(lambda: sweep.state == "dead")
    before = {one.run: one.fields for one in sweep.trials}
    with pytest.raises(RunNotAlive, match="tough is dead.*attach_sweep\\('tough'\\).resume"):
        sweep.wait()
    assert wb.attach("tough-0").state not in ("stopped", "failed"), "the runs go on without the sweep"
    sweep.resume()
    assert sweep.wait(timeout_s=240).state == "finished"
    assert {one.run: one.fields for one in sweep.trials[: len(before)]} == before
    return sweep


def test_a_killed_sweep_goes_on_without_losing_a_trial(survivor: wb.Sweep, home: Path) -> None:
    status = survivor.status
    assert (status.state, status.over, status.failed, status.running) == ("finished", 3, 0, 0)
    assert wb.attach_sweep(survivor).path == survivor.path
    assert sorted(one.name for one in rundir.every()) == ["tough-0", "tough-1", "tough-2"]
    starts = [sum(wb.attach(one.run).events["kind"] == "launch") for one in survivor.trials]
    assert starts == [1, 1, 1], "no run was begun anew"


def test_the_table_has_what_each_trial_chose_and_came_to(survivor: wb.Sweep) -> None:
    table = survivor.table
    assert list(table.columns) == ["run", "state", "value", "frames", "minutes", *SPACE, "note"]
    assert table["run"].tolist() == ["tough-0", "tough-1", "tough-2"]
    assert table["learning_rate"].between(1e-4, 1e-2).all() and table["max_gradient_norm"].isin([0.5, 40.0]).all()
    assert set(table["state"]) <= {"finished", "pruned"} and table["value"].between(5, 500).all()
    for one in survivor.trials:
        config = wb.attach(one.run).config
        assert {name: config.value(name) for name in SPACE} == one.fields


def test_the_first_trial_has_the_defaults(survivor: wb.Sweep) -> None:
    assert survivor.trials[0].fields == {"learning_rate": 6e-4, "entropy_cost": 0.01, "max_gradient_norm": 0.5}


@pytest.mark.full
def test_a_finished_trials_value_is_the_mean_of_the_last_tenth_of_its_frames(survivor: wb.Sweep) -> None:
    whole = [one for one in survivor.trials if one.state == "finished"]
    assert whole
    for one in whole:
        rows = wb.attach(one.run).metrics("episode_return")
        late = rows[rows["frames"] > rows["frames"].max() - 0.1 * FEW["total_frames"]]
        expected = (late if len(late) >= 20 else rows.tail(20))["value"].mean()
        assert one.value == pytest.approx(expected) and one.frames >= FEW["total_frames"]


def test_the_best_run_is_a_handle(survivor: wb.Sweep) -> None:
    finished = survivor.table.query("state == 'finished'")
    assert survivor.best.name == finished.loc[finished["value"].idxmax(), "run"]
    assert survivor.best_fields == survivor.table.loc[finished["value"].idxmax(), list(SPACE)].to_dict()
    assert wb.sweeps()["tough"].best_run == survivor.best.name


@pytest.mark.full
def test_a_finished_sweep_wants_more_trials_to_go_on(survivor: wb.Sweep) -> None:
    with pytest.raises(InvalidInput, match="has done its 3 trials. Give more: .resume\\(trials=6\\)"):
        survivor.resume()


def test_the_study_is_optunas_own(survivor: wb.Sweep) -> None:
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{survivor.path}/study.sqlite")
    assert [one.number for one in study.trials] == [0, 1, 2]
    assert np.isclose(study.best_value, survivor.status.best_value or np.nan)


@pytest.mark.full
def test_a_sweep_that_ends_during_a_look_is_not_over_with_trials_under_way(
    survivor: wb.Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, read = SweepFolder(survivor.path), sweep_study.trials

    def and_then_it_ends(*asked: Any) -> list[sweep_study.Trial]:
        found = read(*asked)
        folder.write(state="finished")
        return [replace(one, state="running") for one in found]

    with lock.held(folder.lock, wait_s=1) as mine, monkeypatch.context() as patch:
        assert mine
        folder.write(state="running")
        patch.setattr(sweep_study, "trials", and_then_it_ends)
        status = survivor.status
    assert (status.state, status.running) == ("running", 3)
    assert (survivor.status.state, survivor.status.running) == ("finished", 0)


def test_a_sweep_that_has_ended_is_not_taken_for_a_live_one(survivor: wb.Sweep) -> None:
    """Its process says that it has ended a moment before it is gone."""
    folder = SweepFolder(survivor.path)
    with ThreadPoolExecutor(1) as pool:
        with lock.held(folder.lock, wait_s=1):
            rests = pool.submit(is_at_rest, folder)
            time.sleep(0.3)
            assert not rests.done()
            folder.write(state="running")
            assert not rests.result(60)
            folder.write(state="finished")
            rests = pool.submit(is_at_rest, folder)
            time.sleep(0.3)
            assert not rests.done()
        assert rests.result(60)


@pytest.mark.full
def test_a_stopped_sweep_keeps_its_runs_and_goes_on_with_them(home: Path) -> None:
    more = {**FEW, "total_frames": 10_000_000}
    sweep = wb.sweep("CartPole-v1", space=SPACE, trials=2, name="calm", **{**more, "parallel": 1})
    eventually(lambda: has_begun(home, "calm-0"))
    run = wb.attach("calm-0")
    run.wait(frames=1000, timeout_s=240)
    with pytest.raises(RunAlive, match="Stop it first, to change trials"):
        sweep.resume(trials=5)
    assert sweep.stop().state == "stopped"
    assert not processes_of(sweep.path) and not processes_of(run.path)
    assert run.status.reason == "stopped by its sweep"
    assert run.state == "stopped" and run.checkpoints and sweep.table["state"].tolist() == ["open"]
    frames = run.status.frames
    assert sweep.resume(trials=1).state in ("starting", "running")
    eventually(lambda: run.state in ("starting", "training"))
    run.wait(frames=frames + 1000, timeout_s=240)
    run.stop()
    assert sweep.wait(timeout_s=240).pruned == 1
    assert sweep.trials[0].note.startswith("stopped by hand") and run.checkpoints


@pytest.mark.full
@pytest.mark.parametrize("resumed", [False, True])
def test_runs_of_a_dead_sweep_can_be_stopped_through_it_also_while_it_begins_again(home: Path, resumed: bool) -> None:
    name = f"gone-{resumed}".lower()
    sweep = wb.sweep("CartPole-v1", space=SPACE, trials=2, name=name, **{**FEW, "total_frames": 10**7, "parallel": 1})
    eventually(lambda: has_begun(home, f"{name}-0"))
    run = wb.attach(f"{name}-0")
    run.wait(frames=1, timeout_s=240)
    process_of(sweep).kill()
    eventually(lambda: sweep.state == "dead")
    with ThreadPoolExecutor(1) as pool:
        if resumed:
            resuming = pool.submit(sweep.resume)
            eventually(lambda: sweep.state == "starting")
        assert sweep.stop().state == "stopped" and run.state == "stopped"
        assert not processes_of(run.path)
        if resumed:
            resuming.result(60)


class Broken:
    """An environment that cannot be made."""

    def __init__(self) -> None:
        raise ValueError("no engine")


@pytest.mark.full
def test_a_sweep_whose_runs_all_fail_says_why(home: Path) -> None:
    sweep = wb.sweep(Broken, space=SPACE, trials=20, name="broken", **{**FEW, "parallel": 1})
    with pytest.raises(RunFailed, match="broken failed: the first 3 trials all failed. broken-2: .*no engine"):
        sweep.wait(timeout_s=240)
    assert [one.state for one in sweep.trials] == ["failed"] * 3

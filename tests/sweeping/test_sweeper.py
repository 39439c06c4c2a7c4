"""What a sweep's process does where a disk refuses something, a run was deleted, or a run of its name is not its own.

No run has a process here: what would start one writes down at once that it has trained to its end.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import workbench as wb
from tests.played import checkpoint_in
from tests.sweeping.test_sweep_study import folder
from tests.widgets import recorded
from workbench import checkpoints, rundir
from workbench.errors import HomeNotWritable, InvalidInput, StorageFailed
from workbench.launchers.local import LocalLauncher
from workbench.metrics import MetricsReader, MetricsWriter, Progress
from workbench.rundir import RunDirectory, lock
from workbench.running.connection import stored_status
from workbench.running.handle import Run
from workbench.running.starts import starting
from workbench.sweeping import kept_run, population, process, sweeper
from workbench.sweeping import study as sweep_study
from workbench.sweeping import trial as sweep_trial
from workbench.sweeping.population import Population
from workbench.sweeping.space import Span, to_json
from workbench.sweeping.sweep_folder import SweepFolder, runs_of
from workbench.sweeping.sweep_handle import Sweep
from workbench.sweeping.sweeper import HOPELESS, Sweeper
from workbench.sweeping.trial import DELETED, WatchedTrial

optuna = pytest.importorskip("optuna")
FRAMES = 27_000
RATE = {"space": to_json({"learning_rate": Span(1e-5, 1e-1, True, False)})}
WRITES = ("_create_new_trial", "_set_trial_param", "set_trial_intermediate_value", "set_trial_user_attr",
          "set_trial_state_values")  # fmt: skip
PBT: dict[str, Any] = {**RATE, "sampler": "pbt", "pruner": "none", "trials": 4, "members": 4, "generations": 3}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module, name in ((sweeper, "PERIOD_S"), (population, "PERIOD_S"), (sweeper, "AGAIN_S"),
                         (process, "AGAIN_S")):
        monkeypatch.setattr(module, name, 0.0)
    monkeypatch.setattr(kept_run, "go_on", trained)
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def not_to_be_called(*given: Any, **more: Any) -> None:
    raise AssertionError((given, more))


def swept(**more: Any) -> SweepFolder:
    """A sweep that has not begun."""
    return folder(**{"parent": None, "preset": None, "parallel": 1, "trials": 1, **more})


def trained(run: RunDirectory, place: Any = None, total_frames: int = FRAMES) -> None:
    """Let a run have trained to its end."""
    commit(run, total_frames, state="finished", rows=range(100, total_frames + 1, 100))
    run.write(state="finished")


def commit(run: RunDirectory, frames: int, *, state: str = "training", rows: range) -> None:
    """Write what a learner does: episodes, a row that covers them, and the status."""
    writer = MetricsWriter(run.metrics)
    for at in rows:
        writer.episode(Progress(at, at, at, at), env_id=0, episode_return=float(at), length_steps=1)
    writer.scalars(Progress(rows[-1], rows[-1], rows[-1], rows[-1]), {"frames_per_second": 1.0})
    writer.status({**recorded.STATUS, "state": state, "frames": frames})
    writer.close()


def states(sweep: SweepFolder) -> list[tuple[str, str]]:
    return [(one.state, one.note) for one in sweep_study.trials(sweep, sweep_study.opened(sweep))]


def test_who_resumes_a_hopeless_sweep_may_have_mended_the_cause() -> None:
    sweep = swept(trials=20)

    def fail(one: Sweeper) -> None:
        for _ in range(HOPELESS):
            assert one._hopeless() is None
            one._study.tell(one._study.ask(one._ranges), state=optuna.trial.TrialState.FAIL)

    first = Sweeper(sweep)
    fail(first)
    assert "the first 3 trials all failed. sweep-2" in (first._hopeless() or "")
    second = Sweeper(sweep)
    fail(second)
    assert "the first 6 trials all failed. sweep-5" in (second._hopeless() or "")


def test_while_the_first_run_trains_well_the_failures_of_others_are_no_reason_to_end() -> None:
    one = Sweeper(swept(trials=20, parallel=2))
    healthy = one._study.ask(one._ranges)
    for _ in range(HOPELESS + 1):
        one._study.tell(one._study.ask(one._ranges), state=optuna.trial.TrialState.FAIL)
    assert one._hopeless() is None
    one._study.tell(healthy, state=optuna.trial.TrialState.FAIL)
    later = sweep_study.under_way(one._study, one._study.ask(one._ranges).number, one._ranges)
    one._watched = [one._watch(later, recorded.new("sweep-5"))]
    assert one._hopeless() is not None
    commit(one._watched[0].run, 200, rows=range(100, 201, 100))
    assert one._hopeless() is None


def test_weights_that_all_runs_begin_with_stay_when_they_are_pruned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = checkpoint_in(tmp_path / "played", "CartPole-v1")
    monkeypatch.setattr("workbench.sweeping.sweep.begin", str)
    made = wb.sweep("CartPole-v1", space={"learning_rate": (1e-4, 1e-2)}, trials=1, checkpoint=weights, name="sweep",
                    total_frames=FRAMES)
    shutil.rmtree(weights.path)
    assert Sweeper(SweepFolder(made.path)).run() == {"state": "finished"}
    parent = RunDirectory(rundir.home() / "runs" / "sweep-0").parent()
    assert parent is not None and parent["take"] == "weights"
    assert "model" in checkpoints.at(Path(parent["checkpoint"])).groups


# --- runs that are gone, or not the sweep's ---------------------------------------------------------------------------


def test_a_run_of_the_name_of_a_trial_that_is_not_the_sweeps_is_left_alone() -> None:
    sweep = swept()
    run = recorded.new("sweep-0")
    before = run.record.read_bytes()
    assert Sweeper(sweep).run()["state"] == "failed"
    assert states(sweep) == [("failed", "there is a run 'sweep-0' that is not the sweep's; rename or delete it")]
    assert run.record.read_bytes() == before


def test_a_run_of_another_is_not_stopped_with_a_dead_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = swept(state="running")
    sweep_study.opened(sweep, sampling=True).ask()
    recorded.new("sweep-0")
    monkeypatch.setattr(Run, "stop", not_to_be_called)
    assert Sweep(sweep).stop().state == "stopped"


def test_a_run_is_a_sweeps_own_only_if_it_says_so() -> None:
    sweep, run = swept(), recorded.new("sweep-0")
    assert not sweep.owns(run) and runs_of(sweep) == []
    run.write(sweep="another")
    assert not sweep.owns(run)
    run.write(sweep=sweep.name)
    assert runs_of(sweep) == [run]


def test_a_fork_that_was_just_made_when_its_sweep_was_killed_is_the_sweeps() -> None:
    sweep, run = swept(), recorded.new("sweep-7")
    run.write(parent=rundir.parent_of(sweep.run(3).checkpoints / "1", take="all"))
    assert sweep.owns(run, of=3) and not sweep.owns(run, of=2) and not sweep.owns(run)


def test_a_run_that_was_deleted_while_its_sweep_was_stopped_is_not_made_anew() -> None:
    sweep = swept()
    Sweeper(sweep)._fill()
    run = sweep.run(0)
    assert run.read()["sweep"] == "sweep"
    shutil.rmtree(run.path)
    Sweeper(sweep).run()
    assert states(sweep) == [("failed", DELETED)] and not run.path.exists()


def test_what_is_left_of_a_run_without_its_record_stays() -> None:
    sweep = swept()
    Sweeper(sweep)._fill()
    run = sweep.run(0)
    checkpoint = checkpoint_in(run.path, "CartPole-v1")
    run.record.unlink()  # by a damaged disk, for example
    Sweeper(sweep).run()
    assert states(sweep) == [("failed", DELETED)]
    checkpoint.verify()


@pytest.mark.parametrize("state", ["stopped", "training"])
@pytest.mark.parametrize("more", [{}, PBT])
def test_a_run_that_was_stopped_or_whose_supervisor_died_as_it_reached_its_end_has_finished(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], state: str
) -> None:
    sweep = swept(**more)

    def stopped_at_the_end(run: RunDirectory, place: Any = None, **changes: int) -> None:
        config = run.config().replaced(**changes)
        total = config.total_frames
        assert not run.metrics.exists() or stored_status(run).frames < total, "it would finish at once"
        commit(run, total, state=state, rows=range(100, total + 1, 100))
        meta = {"steps": total, "updates": total, "time_s": 1.0}
        checkpoints.write(run.checkpoints, frames=total, groups={"model": {}}, meta=meta, requested=False)
        run.write(state=state, supervisor_pid=1, config=config.to_json())

    monkeypatch.setattr(kept_run, "go_on", stopped_at_the_end)
    monkeypatch.setattr(population, "forked", forked)
    monkeypatch.setattr(checkpoints, "every", every)
    for _ in range(2):  # the second finds the run of the first
        (Population if more else Sweeper)(sweep).run()
    found = states(sweep)
    assert [state for state, _ in found].count("finished") == more.get("members", 1)
    assert not any("by hand" in note or state == "failed" for state, note in found), "others were replaced"


def test_a_run_that_is_deleted_while_it_is_to_stop_counts_as_deleted() -> None:
    sweep = swept()
    one = Sweeper(sweep)
    one._fill()
    shutil.rmtree(sweep.run(0).path)
    one.stop()
    assert states(sweep) == [("failed", DELETED)]


def test_a_population_goes_on_without_members_that_were_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, decide, train = swept(**PBT), Population._decide, Population._train

    def decided(self: Population, members: Any, generation: int) -> None:
        decide(self, members, generation)
        shutil.rmtree(sweep.run(2).path, ignore_errors=True)

    def trained_without_one(self: Population, members: Any, waiting: Any, generation: int) -> Any:
        if generation == 1:
            shutil.rmtree(sweep.run(1).path)
        return train(self, members, waiting, generation)

    monkeypatch.setattr(Population, "_decide", decided)
    monkeypatch.setattr(Population, "_train", trained_without_one)
    monkeypatch.setattr(population, "forked", forked)
    monkeypatch.setattr(population.checkpoints, "every", every)
    assert Population(sweep).run() == {"state": "finished"}
    found = states(sweep)
    assert found[1] == found[2] == ("failed", DELETED) and not sweep.run(2).path.exists()
    counts = [state for state, _ in found]
    assert (counts.count("finished"), counts.count("failed")) == (4, 2)


def test_a_member_that_was_deleted_while_its_population_was_stopped_is_not_made_anew() -> None:
    sweep = swept(**PBT)
    assert [one.trial.number for one in Population(sweep)._members()] == [0, 1, 2, 3]
    shutil.rmtree(sweep.run(1).path)
    assert [one.trial.number for one in Population(sweep)._members()] == [0, 2, 3]
    assert states(sweep)[1] == ("failed", DELETED) and not sweep.run(1).path.exists()


def test_a_fork_whose_source_is_gone_fails_and_who_was_to_be_replaced_goes_on() -> None:
    sweep = swept(**PBT)
    one = Population(sweep)
    one._members()
    shutil.rmtree(sweep.run(1).path)
    one._study.set_user_attr("population", {"generation": 1, "born": [
        {"instead": 0, "of": 1, "fields": {"learning_rate": 1e-3}}]})
    assert [each.trial.number for each in one._members()] == [0, 2, 3]
    assert states(sweep)[4] == (
        "failed", "sweep-1, the parent of this fork, has no checkpoint at 9,000 frames")


def forked(source: Run, *_: Any, name: str, changes: dict[str, Any], **__: Any) -> RunDirectory:
    """A fork as it is before it says whose it is."""
    parent = rundir.parent_of(source.directory.checkpoints / "1", take="all")
    return rundir.create(name, starting.new_record(source.config.replaced(**changes), parent=parent, code={}))


def every(checkpoints: Path) -> list[Any]:
    return [SimpleNamespace(frames=FRAMES, steps=FRAMES, updates=1, time_s=1.0)] if checkpoints.exists() else []


@pytest.mark.parametrize(("state", "remedy"), [
    ("FAIL", "A population keeps its size: begin a new sweep\\.$"),
    ("COMPLETE", "or go on with its best run: wb.resume\\('sweep-0', total_frames=54000\\)"),
])  # fmt: skip
def test_a_population_that_is_done_says_what_can_be_done(state: str, remedy: str) -> None:
    sweep = swept(**{**PBT, "trials": 1})
    study = sweep_study.opened(sweep, sampling=True)
    value = None if state == "FAIL" else 1.0
    study.tell(study.ask(), value, state=optuna.trial.TrialState[state])
    recorded.new("sweep-0")
    with pytest.raises(InvalidInput, match=f"sweep has done its 1 trial. .*{remedy}"):
        Sweep(sweep).resume()


# --- disks ------------------------------------------------------------------------------------------------------------


def refusing(write: Callable[..., Any], error: Exception, times: int) -> Callable[..., Any]:
    """A function that raises so many times before it does what `write` does."""
    left = [error] * times

    def written(*given: Any, **more: Any) -> Any:
        if left:
            raise left.pop()
        return write(*given, **more)

    return written


def test_a_disk_that_is_full_for_moments_ends_no_sweep(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep, storage = swept(trials=2), optuna.storages.RDBStorage
    one = Sweeper(sweep)
    full = optuna.exceptions.StorageInternalError("database or disk is full")
    for name in WRITES:
        monkeypatch.setattr(storage, name, refusing(getattr(storage, name), full, 2))
    assert one.run() == {"state": "finished"}
    assert states(sweep) == [("finished", "")] * 2
    assert capsys.readouterr().err.count("waiting for the disk, to go on by itself: database or disk is full") == 1


def test_a_disk_that_takes_no_new_run_for_moments_fails_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = swept()
    monkeypatch.setattr(rundir, "create", refusing(rundir.create, HomeNotWritable("no space"), 3))
    assert Sweeper(sweep).run() == {"state": "finished"}


def test_a_disk_that_is_full_for_moments_ends_no_population(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, storage = swept(**PBT), optuna.storages.RDBStorage
    one = Population(sweep)
    full = optuna.exceptions.StorageInternalError("full")
    for name in ("set_study_user_attr", *WRITES):
        monkeypatch.setattr(storage, name, refusing(getattr(storage, name), full, 2))
    monkeypatch.setattr(kept_run, "go_on", refusing(trained, StorageFailed("full"), 2))
    monkeypatch.setattr(population, "forked", forked)
    monkeypatch.setattr(population.checkpoints, "every", every)
    assert one.run() == {"state": "finished"}
    assert sorted(state for state, _ in states(sweep)) == ["finished"] * 4 + ["pruned"] * 2
    assert Population(sweep).run() == {"state": "finished"}, "one that ended before it could write that down"


def test_a_sweep_that_waits_for_a_disk_stops_the_runs_that_it_knew(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, stopped = swept(), list[str]()
    one = Sweeper(sweep)
    one._fill()

    def refused(*_: Any) -> None:
        sweep.order_to_stop.touch()
        raise StorageFailed("full")

    monkeypatch.setattr(Sweeper, "_adopt", refused)
    monkeypatch.setattr(WatchedTrial, "stop", lambda self: not stopped.append(self.run.name))
    assert one.run() == {"state": "stopped", "reason": ""} and stopped == ["sweep-0"]


def test_files_that_cannot_be_read_for_a_moment_are_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = swept()
    one = Sweeper(sweep)
    one._fill()
    (watched,) = one._watched
    with monkeypatch.context() as patch:
        patch.setattr(sweep_trial, "stored_status", refusing(sweep_trial.stored_status, StorageFailed("I/O error"), 2))
        assert not watched.look() and not watched.look() and watched.verdict == ""
    with monkeypatch.context() as patch:
        patch.setattr(MetricsReader, "status", refusing(MetricsReader.status, StorageFailed("I/O error"), 1))
        assert not watched.look() and watched.verdict == "", "a status without frames is none"
    with monkeypatch.context() as patch:
        patch.setattr(sweep_trial, "UNREADABLE_S", -1.0)
        patch.setattr(sweep_trial, "stored_status", refusing(sweep_trial.stored_status, StorageFailed("damaged"), 1))
        assert watched.look(), "not waited for for ever"
    assert states(sweep) == [("failed", "damaged")]


def test_a_disk_that_refuses_the_state_does_not_hide_what_happened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep, stopped = swept(), list[bool]()
    monkeypatch.setattr(Sweeper, "run", refusing(Sweeper.run, ValueError("broken within"), 1))
    monkeypatch.setattr(Sweeper, "stop", lambda self: stopped.append(True))
    write = SweepFolder.write

    def refused_if_failed(self: SweepFolder, **changes: Any) -> None:
        if changes["state"] == "failed" and len(stopped) < 1:
            raise StorageFailed("full")
        write(self, **changes)

    monkeypatch.setattr(SweepFolder, "write", refused_if_failed)
    assert process._run(sweep) == 1 and stopped
    assert sweep.read()["error"] == {"type": "ValueError", "message": "broken within"}
    assert "ValueError: broken within" in capsys.readouterr().err


# --- marks ------------------------------------------------------------------------------------------------------------


def test_a_mark_is_told_once_all_rows_up_to_it_are_on_disk() -> None:
    sweep = swept(pruner="none")
    study = sweep_study.opened(sweep, sampling=True)
    trial, run = study.ask(), recorded.new("sweep-0")
    watched = WatchedTrial(study, trial, run, LocalLauncher(), "episode_return", FRAMES)

    def marks() -> list[int]:
        watched.look()
        return sorted(study.get_trials()[0].intermediate_values)

    with lock.held(lock.of_supervisor(run), wait_s=1) as alive:
        assert alive
        commit(run, 5500, rows=range(100, 3600, 100))
        assert marks() == [1, 2, 3]
        commit(run, 5600, rows=range(3600, 5600, 100))
        assert marks() == [1, 2, 3, 4, 5]
    run.write(state="finished")
    watched.end = 7000
    commit(run, 7000, state="finished", rows=range(5600, 6901, 100))
    assert marks()[-1] == 7, "no process is left, and no row comes any more"

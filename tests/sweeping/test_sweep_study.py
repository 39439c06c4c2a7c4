"""What a trial is worth, and what a study says, on recorded runs and studies written by hand."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from tests.widgets import recorded
from workbench.config import RunConfig
from workbench.errors import StorageFailed
from workbench.launchers.local import LocalLauncher
from workbench.learner.training.loop import TrainingLoop
from workbench.learner.training.trainer import MAX_BAD_UPDATES
from workbench.metrics import MetricsWriter, Progress
from workbench.rundir import BY_HAND, lock
from workbench.sweeping import study as sweep_study
from workbench.sweeping import sweep_folder
from workbench.sweeping.objective import MARKS, MetricCurve, passed
from workbench.sweeping.space import Choice, Space, Span, to_json
from workbench.sweeping.study import Trial, best, importance
from workbench.sweeping.sweep_folder import SweepFolder
from workbench.sweeping.trial import WatchedTrial

optuna = pytest.importorskip("optuna")
SPACE: Space = {"learning_rate": Span(1e-5, 1e-1, True, False), "network": Choice(("mlp", "mlp-lstm"))}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def folder(name: str = "sweep", **more: Any) -> SweepFolder:
    config = RunConfig.build("CartPole-v1", total_frames=27_000)
    record = {"created": 1.0, "state": "stopped", "error": None, "config": config.to_json(), "space": to_json(SPACE),
              "trials": 20, "parallel": 2, "metric": "episode_return", "goal": "max", "sampler": "tpe",
              "pruner": "asha", "seed": 0, "lives": 1, **more}  # fmt: skip
    return sweep_folder.create(name, record, {}, lambda new: sweep_study.create(
        new, goal=str(record["goal"]), first=[{"learning_rate": 1e-3}]))


def test_the_first_trial_that_is_asked_for_has_what_was_given() -> None:
    sweep = folder()
    study = sweep_study.opened(sweep, sampling=True)
    assert sweep_study.trials(sweep, study) == []
    trial = study.ask(sweep_study.distributions(SPACE))
    assert trial.params["learning_rate"] == 1e-3 and trial.params["network"] in ("mlp", "mlp-lstm")
    (one,) = sweep_study.trials(sweep, study)
    assert (one.number, one.run, one.state, one.value, one.frames) == (0, "sweep-0", "running", None, 0)


@pytest.mark.parametrize("sampler", sweep_study.SAMPLERS)
def test_another_life_of_a_sweep_does_not_draw_the_same_again(sampler: str) -> None:
    drawn = []
    for lives in (1, 2):
        sweep = folder(f"sweep{lives}", sampler=sampler, lives=lives)
        study = sweep_study.opened(sweep, sampling=True)
        asked = [study.ask(sweep_study.distributions(SPACE)) for _ in range(2)]
        drawn.append(asked[1].params["learning_rate"])
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize(("goal", "first_pruned"), [("max", True), ("min", False)])
def test_successive_halving_stops_the_worse_of_two_in_the_direction_of_the_goal(goal: str, first_pruned: bool) -> None:
    study = sweep_study.opened(folder(goal=goal), sampling=True)
    good, bad = (study.ask(sweep_study.distributions(SPACE)) for _ in range(2))
    for mark in (1, 2, 3):
        good.report(10.0, mark)
        bad.report(1.0, mark)
    assert not good.should_prune() or goal == "min"
    assert bad.should_prune() is first_pruned


def test_the_value_at_a_mark_does_not_depend_on_when_somebody_looked() -> None:
    directory = recorded.new("one")
    writer = MetricsWriter(directory.metrics)
    early, late = MetricCurve(directory, "episode_return", 27_000), MetricCurve(directory, "episode_return", 27_000)
    seen = {}
    for at in range(1, 541):  # 20 rows per mark
        progress = Progress(frames=at * 50, steps=at, updates=at, time_s=at)
        writer.episode(progress, env_id=0, episode_return=float(at), length_steps=1)
        if at % 60 == 0:
            writer.commit()
            early.follow()
            seen[at // 20] = early.value(at // 20)
    writer.close()
    late.follow()
    assert seen == {mark: late.value(mark) for mark in seen}
    assert late.value(9) == pytest.approx(np.mean(np.arange(180 - 54 + 1, 181)))  # a tenth of the frames: 54 rows
    assert late.value(1) == pytest.approx(np.mean(np.arange(1, 21)))
    assert late.value() == late.value(MARKS)


def test_rows_that_a_learner_left_behind_when_it_began_again_do_not_count() -> None:
    directory = recorded.new("one")
    early, late = MetricCurve(directory, "loss", 27_000), MetricCurve(directory, "loss", 27_000)
    for value, first, restored in ((100.0, 1, False), (1.0, 51, True)):
        with closing(MetricsWriter(directory.metrics)) as writer:
            if restored:
                writer.event("restore", "continues", progress=Progress(5000, 50, 50, 50.0),
                             data={"rows": {"loss": 100}})
            for at in range(first, first + 50 + 50 * (not restored)):
                writer.scalars(Progress(frames=at * 100, steps=at, updates=at, time_s=at), {"loss": value})
        early.follow()
    late.follow()
    assert early.value() == late.value() == 1.0


@pytest.mark.parametrize("every", [50, 1000])
def test_a_run_and_its_fork_with_the_same_curve_have_the_same_value(every: int) -> None:
    """A fork has no rows from before it, so those of its parent's generation do not count."""
    whole, fork, generation = recorded.new("one"), recorded.new("two"), 26
    begins = generation * 1000
    for directory, first in ((whole, 0), (fork, begins)):
        writer = MetricsWriter(directory.metrics)
        for frames in range(first + every, 27_001, every):
            writer.scalars(Progress(frames=frames, steps=frames, updates=frames, time_s=frames),
                           {"episode_return_mean": frames / 100})
        writer.close()
    values = []
    for directory in (whole, fork):
        curve = MetricCurve(directory, "episode_return_mean", 27_000)
        curve.follow()
        values.append(curve.value(MARKS, since=begins))
    assert values[0] == values[1] and values[0] > begins / 100


def test_a_metric_without_rows_has_no_value() -> None:
    curve = MetricCurve(recorded.vtrace("one"), "no_such_metric", 27_000)
    curve.follow()
    assert curve.value(3) is None and curve.value() is None


def paused_by_the_learner() -> str:
    """What it says when it pauses itself."""
    loop = MagicMock()
    loop._parts.trainer.bad_updates = MAX_BAD_UPDATES
    TrainingLoop._on_bad_update(loop, "the loss")
    return str(loop._state.pause.call_args.args[0])


@pytest.mark.parametrize(("reason", "verdict"), [(paused_by_the_learner(), "pruned"), (BY_HAND, "")])
def test_a_run_that_diverged_is_pruned_and_one_that_somebody_paused_is_waited_for(reason: str, verdict: str) -> None:
    sweep = folder()
    study = sweep_study.opened(sweep, sampling=True)
    trial = study.ask(sweep_study.distributions(SPACE))
    run = recorded.vtrace("sweep-0")
    recorded.tell(run, state="paused")
    run.write(paused=reason)
    with lock.held(lock.of_supervisor(run), wait_s=0) as alive:
        assert alive
        watched = WatchedTrial(study, trial, run, LocalLauncher(), "episode_return", 27_000)
        assert watched.look() is False and watched.verdict == verdict
    assert study.get_trials()[0].user_attrs.get("verdict", "") == verdict, "before it is told to stop"


@pytest.mark.parametrize(("rule", "verdict", "note"), [
    ({"target_return": 1.0}, "finished", "reached target_return=1: the mean return is"),
    ({"max_hours": 1e-3}, "pruned", "reached max_hours=0.001, at "),
])  # fmt: skip
def test_a_run_that_a_rule_of_its_own_has_ended_is_judged(rule: dict[str, float], verdict: str, note: str) -> None:
    sweep = folder()
    study = sweep_study.opened(sweep, sampling=True)
    trial = study.ask(sweep_study.distributions(SPACE))
    run = recorded.vtrace("sweep-0")
    recorded.tell(run, episode_return=7.0, episodes_in_mean=100, alive_s=60.0)
    run.write(state="finished", config=run.config().replaced(**rule).to_json())
    watched = WatchedTrial(study, trial, run, LocalLauncher(), "episode_return", 10**9)
    assert watched.look() and watched.verdict == verdict and note in watched.note
    (one,) = sweep_study.trials(sweep, study)
    assert (one.state, one.frames) == (verdict, recorded.STATUS["frames"])
    assert one.value == (-20.0 if verdict == "finished" else None)


def test_a_verdict_outlives_the_process_that_reached_it() -> None:
    sweep = folder()
    study = sweep_study.opened(sweep, sampling=True)
    trial = study.ask(sweep_study.distributions(SPACE))
    trial.report(3.0, 1)
    trial.set_user_attr("verdict", "pruned")
    run = recorded.vtrace("sweep-0")
    run.write(state="stopped")
    again = sweep_study.opened(sweep, sampling=True)
    same = optuna.trial.Trial(again, again.get_trials()[0]._trial_id)
    watched = WatchedTrial(again, same, run, LocalLauncher(), "episode_return", 10**6)
    watched.take_over()  # resumes nothing
    assert watched.look()
    (one,) = sweep_study.trials(sweep, again)
    assert (one.state, one.value, one.frames) == ("pruned", 3.0, recorded.STATUS["frames"])


def test_a_trial_that_is_through_before_it_can_be_pruned_has_finished() -> None:
    """A run of a few seconds ends between two looks: its value at an early mark is old by then."""
    sweep = folder()
    study = sweep_study.opened(sweep, sampling=True)
    trial = study.ask(sweep_study.distributions(SPACE))
    trial.report(-25.0, 3)
    run = recorded.vtrace("sweep-0")
    watched = WatchedTrial(study, trial, run, LocalLauncher(), "episode_return", recorded.STATUS["frames"])
    watched._decide("pruned", "worse than others at 1,000 frames")
    recorded.tell(run, state="finished")
    run.write(state="finished")
    assert watched.look()
    (one,) = sweep_study.trials(sweep, study)
    assert (one.state, one.value, one.note) == ("finished", -20.0, "")


def test_a_trial_whose_run_was_deleted_has_failed() -> None:
    sweep = folder()
    study = sweep_study.opened(sweep, sampling=True)
    trial = study.ask(sweep_study.distributions(SPACE))
    run = recorded.vtrace("sweep-0")
    watched = WatchedTrial(study, trial, run, LocalLauncher(), "episode_return", 27_000)
    shutil.rmtree(run.path)
    assert watched.look()
    (one,) = sweep_study.trials(sweep, study)
    assert (one.state, one.note) == ("failed", "its run was deleted")


def test_marks_are_passed_at_equal_frames() -> None:
    assert [passed(frames, 27_000) for frames in (0, 999, 1000, 26_999, 27_000, 30_000)] == [0, 0, 1, 26, 27, 27]


def trial(number: int, state: Any, value: float | None, fields: Mapping[str, Any] | None = None) -> Trial:
    return Trial(number, f"s-{number}", state, value, 0, 1.0, dict(fields or {}))


def test_the_best_is_one_that_finished_if_any_did() -> None:
    found = [trial(0, "finished", 3.0), trial(1, "pruned", 9.0), trial(2, "finished", 5.0), trial(3, "failed", None)]
    assert best(found, "max") == found[2] and best(found, "min") == found[0]
    assert best(found[1:2], "max") == found[1] and best(found[3:], "max") is None and best([], "max") is None


def test_the_field_that_decides_is_the_important_one() -> None:
    random = np.random.default_rng(0)
    found = []
    for at in range(40):
        rate, network = 10 ** random.uniform(-5, -1), str(random.choice(["mlp", "mlp-lstm"]))
        value = -abs(np.log10(rate) + 3) + random.normal() * 0.05
        found.append(trial(at, "finished" if at % 2 else "pruned", value, {"learning_rate": rate, "network": network}))
    shares = importance(found, SPACE, "max")
    assert list(shares) == ["learning_rate", "network"] and shares["learning_rate"] > 0.8
    assert sum(shares.values()) == pytest.approx(1)
    assert importance(found[:3], SPACE, "max") == {}


def test_equal_values_say_nothing_of_importance_and_raise_nothing() -> None:
    same = [trial(at, "finished", 1.0, {"learning_rate": 1e-3, "network": "mlp"}) for at in range(6)]
    assert sum(importance(same, SPACE, "max").values()) in (0, pytest.approx(1))


def test_a_study_that_is_gone_or_damaged_is_said_so() -> None:
    sweep = folder()
    sweep.study.write_bytes(b"nonsense" * 1000)
    with pytest.raises(StorageFailed, match="study.sqlite.*Its runs are not affected"):
        sweep_study.trials(sweep, sweep_study.opened(sweep))
    sweep.study.unlink()
    with pytest.raises(StorageFailed, match="study.sqlite is gone"):
        sweep_study.opened(sweep)
    assert not sweep.study.exists()


def test_empty_files_of_a_sweep_are_said_to_be_that() -> None:
    sweep = folder()
    sweep.study.write_bytes(b"")
    with pytest.raises(StorageFailed, match=r"study.sqlite is empty\. The sweep's runs are not affected: wb.runs"):
        sweep_study.opened(sweep)
    sweep.record.write_bytes(b"")
    with pytest.raises(StorageFailed, match=r"sweep.json: .* Put a copy of it back, or move .* away: the sweep's runs"):
        sweep.read()

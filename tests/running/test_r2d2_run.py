"""R2D2 runs by the same handle: what V-trace runs do, and what only a replay has."""

import os
import signal
import time

import pytest

import workbench as wb
from tests.conftest import SMALL, eventually
from workbench.errors import OutOfBounds

R2D2 = {
    **SMALL, "algorithm": "r2d2", "unroll_length": 8, "burn_in": 4, "replay_size": 500, "replay_min_size": 20,
    "replay_ratio": 1.0, "lstm_size": 16, "dueling_size": 16,
}
METRICS = {
    "loss", "td_error", "q_value", "gradient_norm", "replay_fill", "replay_unrolls", "replay_gb", "replay_ratio",
    "priority_mean", "priority_max", "sample_age_steps", "batch_uses", "policy_lag_mean", "episode_return",
    "evaluation_return", "evaluation_return_mean", "frames_per_second", "steps_per_second", "learning_rate",
}


@pytest.fixture(scope="module")
def run(module_home):
    return wb.launch("CartPole-v1", name="r2d2", **R2D2)


@pytest.mark.full
def test_every_metric_of_a_replay_is_recorded(run):
    run.wait(updates=50, timeout_s=240, progress=False)
    eventually(lambda: set(run.metric_names) >= METRICS, what="all metrics of R2D2")
    for name in ("td_error", "priority", "sample_age", "policy_lag"):
        eventually(lambda name=name: run._reader.distribution(name), what=f"the histogram of {name}")
    status = run.status
    assert 20 <= status.replay_unrolls <= status.replay_capacity == 500
    assert status.evaluation_return is not None and status.evaluation_episodes > 0


@pytest.mark.full
def test_the_replay_ratio_is_what_was_asked_for_also_after_it_was_changed(run):
    run.wait(updates=run.status.updates + 50, timeout_s=240, progress=False)
    assert eventually(lambda: run.metrics("replay_ratio")["value"].iloc[-1]) == pytest.approx(1.0, rel=0.15)
    run.tune(replay_ratio=3.0)
    before = run.status.updates
    run.wait(updates=before + 300, timeout_s=240, progress=False)
    eventually(lambda: run.metrics("replay_ratio")["value"].iloc[-1] == pytest.approx(3.0, rel=0.1),
               what="the new ratio")
    assert "replay_ratio 1.0 → 3.0" in run.events["message"].to_list()


@pytest.mark.full
def test_live_fields_of_r2d2_are_tuned_and_the_others_refused(run):
    told = run.tune(exploration_base=0.2, priority_exponent=0.5, importance_exponent=0.3, learning_rate=5e-5,
                    target_update_period=50, echo_factor=2)
    assert told["new"]["priority_exponent"] == 0.5
    run.wait(updates=run.status.updates + 20, timeout_s=240, progress=False)
    with pytest.raises(wb.errors.NotLive, match="burn_in"):
        run.tune(burn_in=2)


@pytest.mark.full
def test_evaluation_and_scaling_and_pausing_work_as_for_vtrace(run):
    evaluated = wb.evaluate(run.checkpoint(), episodes=2)
    assert len(evaluated.returns) == 2
    with run.paused():
        still = run.status.updates
        time.sleep(1.0)
        assert run.checkpoint().updates == run.status.updates == still
    run.scale(actors=1)
    eventually(lambda: len(run.status.actors) == 1, what="one actor")
    run.wait(updates=run.status.updates + 20, timeout_s=240, progress=False)
    run.scale(actors=2)


@pytest.mark.full
def test_a_checkpoint_holds_the_replay_only_if_asked_and_a_resumed_run_goes_on_with_it(run):
    assert not run.checkpoint().has_replay
    run.pause()
    kept = run.status.replay_unrolls
    assert run.checkpoint(replay=True).has_replay
    run.tune(save_replay=True)
    assert run.stop().state == "stopped"
    assert run.checkpoints[-1].has_replay
    resumed = wb.resume("r2d2")
    assert "with its replay" in run.events["message"].iloc[-3:].str.cat()
    assert resumed.status.replay_unrolls >= kept
    resumed.wait(updates=resumed.status.updates + 20, timeout_s=240, progress=False)


@pytest.mark.full
def test_a_learner_that_is_killed_goes_on_with_the_replay_of_its_last_checkpoint(run):
    run.tune(save_replay=True)
    checkpoint = run.checkpoint()
    kept = run.status.replay_unrolls
    restored = len(restorations(run))
    os.kill(run.status.learner_pid, signal.SIGKILL)
    eventually(lambda: len(restorations(run)) > restored, what="another learner")
    assert restorations(run)[-1] == (
        f"continues from the checkpoint at {checkpoint.frames:,} frames, with its replay")
    after = run.wait(updates=checkpoint.updates + 20, timeout_s=240, progress=False)
    assert after.replay_unrolls >= kept


def restorations(run) -> list[str]:
    events = run.events
    return events[events["kind"] == "restore"]["message"].to_list()


@pytest.mark.full
def test_a_replay_that_does_not_fit_is_refused_in_words(home):
    with pytest.raises(OutOfBounds, match=r"needs 8.32 GiB.*smaller replay_size.*replay_storage='disk'"):
        wb.launch("CartPole-v1", **{**R2D2, "replay_size": 10_000_000, "replay_memory_gb": 0.1})


@pytest.mark.full
def test_a_replay_on_disk_lies_in_the_runs_directory_and_works(home):
    run = wb.launch("CartPole-v1", **R2D2, replay_storage="disk")
    run.wait(updates=20, timeout_s=240, progress=False)
    assert (run.path / "replay").is_dir()
    run.stop()


@pytest.mark.full
def test_the_run_says_that_it_fills_its_replay_and_counts_as_started(home):
    run = wb.launch("CartPole-v1", **{**R2D2, "replay_size": 100_000, "replay_min_size": 100_000})
    status = run.status
    assert status.state == "training" and "filling the replay" in status.reason
    assert "of 100,000 unrolls before the first update" in status.reason
    assert status.updates == 0

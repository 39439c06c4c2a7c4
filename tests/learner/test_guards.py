"""What the learner does by itself, seen from outside through real processes."""

import pytest

import workbench as wb
from tests.conftest import CALM, SMALL, eventually
from tests.rewarding import Rewarding


class Overflowing(Rewarding):
    """Rewards whose square overflows float32, so that no loss is finite."""

    length = 0

    def reward(self) -> float:
        return 1e30


@pytest.mark.full
def test_updates_that_are_not_finite_are_skipped_and_ten_of_them_pause_the_run(home):
    run = wb.launch(Overflowing, **SMALL, max_abs_reward=0.0, wait_ready=False)
    eventually(lambda: run.status.state == "paused", what="the run pauses by itself")
    status = run.status
    assert "not finite" in status.reason and "learning_rate" in status.reason
    assert status.updates == 0, "no such update was made"
    events = run.events
    assert sum(message.startswith("update skipped") for message in events["message"]) == 10
    run.tune(max_abs_reward=1.0)
    run.resume()
    run.wait(updates=3, timeout_s=240, progress=False)


@pytest.mark.full
def test_a_learning_rate_that_is_tuned_is_the_one_in_use_whatever_the_warm_up_was(home):
    run = wb.launch("testing/counting-v0", **CALM, learning_rate=1e-3, warmup_updates=1_000_000, total_frames=10**9)
    run.wait(updates=2, timeout_s=60, progress=False)
    assert eventually(lambda: run.status.learning_rate) < 1e-4, "it warms up"
    told = run.tune(learning_rate=2e-3)
    assert told == {"old": {"learning_rate": 1e-3, "warmup_updates": 1_000_000},
                    "new": {"learning_rate": 2e-3, "warmup_updates": 0}}
    eventually(lambda: run.status.learning_rate == 2e-3)
    run.undo()
    eventually(lambda: run.status.learning_rate < 1e-4, what="the warm-up goes on")
    assert run.config.value("warmup_updates") == 1_000_000
    told = run.tune(learning_rate=2e-3, warmup_updates=500_000)
    assert told["new"]["warmup_updates"] == 500_000, "by one's own wish"
    run.stop()
    run = wb.resume(run.name, learning_rate=3e-3)
    assert eventually(lambda: run.status.learning_rate) == 3e-3


@pytest.mark.full
def test_a_linear_schedule_ends_at_zero_after_a_warm_up_from_zero(home):
    run = wb.launch("CartPole-v1", **SMALL, total_frames=30_000, learning_rate=1e-3, learning_rate_schedule="linear",
                    warmup_updates=100)
    run.wait(timeout_s=240, progress=False)
    rates = run.metrics("learning_rate")
    assert rates["value"].max() < 1e-3
    assert rates["value"].iloc[-1] == pytest.approx(0.0, abs=2e-5)
    assert run.status.state == "finished"

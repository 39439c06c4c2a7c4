"""Losses and gradients that are not finite: such updates are skipped and spoil nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.conftest import eventually
from tests.faults.harm import COUNTING, messages
from tests.rewarding import Rewarding
from workbench.checkpoints import Checkpoint
from workbench.errors import RunPaused
from workbench.running import waiting

SKIPPED = "update skipped, not finite"


class SometimesHuge(Rewarding):
    """A reward in a few hundred is so large that its square is no float32."""

    def reward(self) -> float:
        return 1e30 if self.np_random.random() < 1 / 300 else 1.0


class Growing(Rewarding):
    """Rewards grow tenfold every 25 steps, to what float32 just holds.

    That takes seconds on a fast machine, too, and gradients are recorded once a second.
    """

    step_s = 0.004

    def reward(self) -> float:
        return 10.0 ** min(self.steps / 25, 38.0)


def check_finite(checkpoint: Checkpoint) -> None:
    """Weights and the optimizer's state are numbers."""
    for group in ("model", "optimizer"):
        for name, array in checkpoint.load(group).items():
            assert np.isfinite(np.asarray(array, np.float64)).all(), (group, name)


FIELDS = {
    "vtrace": {**COUNTING, "max_abs_reward": 0.0},
    "r2d2": {**COUNTING, "unroll_length": 8, "burn_in": 4, "replay_size": 200, "replay_min_size": 20,
             "value_rescaling": False, "lstm_size": 16, "dueling_size": 16},
}


@pytest.mark.full
@pytest.mark.parametrize("algorithm", FIELDS)
def test_a_bad_update_now_and_then_costs_only_itself(home: Path, algorithm: str) -> None:
    run = wb.launch(SometimesHuge, algorithm=algorithm, **FIELDS[algorithm])
    eventually(lambda: sum(one.startswith(SKIPPED) for one in messages(run, "error")) >= 3)
    status = run.wait(updates=run.status.updates + 20, timeout_s=240)
    assert status.state == "training"
    check_finite(run.checkpoint())


def test_a_gradient_that_explodes_is_seen_pauses_the_run_and_leaves_weights_to_go_on_with(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = wb.launch(Growing, algorithm="vtrace", **FIELDS["vtrace"], max_gradient_norm=0.0)
    run.pause()
    said, wait = [], {"updates": 10**9, "progress": False}
    monkeypatch.setattr(waiting, "notify", said.append)
    pool = ThreadPoolExecutor(1)
    waiter = pool.submit(run.wait, **wait)
    eventually(lambda: said, what="the wait goes on while a hand has paused the run")
    run.resume()
    eventually(lambda: run.status.state == "paused", what="the run pauses by itself")
    with pytest.raises(RunPaused):
        waiter.result(60)
    run.pause()  # by hand, too: it stays what it is
    assert "not finite" in run.status.reason and "max_abs_reward" in run.status.reason
    norms = run.metrics("gradient_norm")["value"]
    assert norms.max() > 1e6 * norms.iloc[0] > 0, "it was there to see before"
    check_finite(run.checkpoint())
    with pytest.raises(RunPaused, match=r"paused itself at .*: 10 updates in a row were not finite"):
        run.wait(**wait)
    assert run.wait(seconds=0.5, progress=False).state == "paused", "a wait that time ends goes on"
    updates = run.status.updates
    run.tune(max_abs_reward=1.0, max_gradient_norm=40.0)
    run.resume()
    run.wait(updates=updates + 20, timeout_s=240)
    check_finite(run.checkpoint())

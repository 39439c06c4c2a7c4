"""Losses and gradients that are not finite: such updates are skipped and spoil nothing."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest

import workbench as wb
from tests.conftest import eventually
from tests.faults.harm import COUNTING, messages
from workbench.checkpoints import Checkpoint

SKIPPED = "update skipped, not finite"


class SometimesHuge(gymnasium.Env):
    """A reward in a few hundred is so large that its square is no float32."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        huge = self.np_random.random() < 1 / 300
        return np.zeros(2, np.float32), 1e30 if huge else 1.0, False, bool(self.np_random.random() < 0.02), {}


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


@pytest.mark.parametrize("algorithm", FIELDS)
def test_a_bad_update_now_and_then_costs_only_itself(home: Path, algorithm: str) -> None:
    run = wb.launch(SometimesHuge, algorithm=algorithm, **FIELDS[algorithm])
    eventually(lambda: sum(one.startswith(SKIPPED) for one in messages(run, "error")) >= 3, within_s=120)
    status = run.wait(updates=run.status.updates + 20, timeout_s=60)
    assert status.state == "training"
    check_finite(run.checkpoint())

"""What every algorithm has: several learners, and the tools that show and take away what it has learnt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.played import checkpoint_in, rolled_out
from workbench.config import ALGORITHMS, DemonstrationsConfig, settings

pytestmark = pytest.mark.full

SMALL = {"actors": 2, "envs_per_actor": 4, "batch_size": 8, "unroll_length": 8, "replay_min_size": 16, "burn_in": 2,
         "lstm_size": 16, "dueling_size": 16, "critic_size": 16, "replay_ratio": 2.0}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_learners_train_it_and_all_tools_know_it(home: Path, tmp_path: Path, algorithm: str) -> None:
    fields = {name: value for name, value in SMALL.items()
              if name in settings(ALGORITHMS[algorithm]) or name in ("actors", "envs_per_actor")}
    if issubclass(ALGORITHMS[algorithm], DemonstrationsConfig):
        played = checkpoint_in(tmp_path, "testing/catch-v0")
        fields["demonstrations"] = [rolled_out(played, tmp_path / f"seed{seed}", seed=seed) for seed in range(2)]
    run = wb.launch("testing/catch-v0", algorithm=algorithm, learners=2, total_frames=2000, progress=False, **fields)
    status = run.wait(timeout_s=240, progress=False)
    assert status.state == "finished" and status.updates > 5
    assert not len(run.events.query("kind == 'error'"))
    counted = status.frames, run.checkpoints[-1].frames, int(run.metrics("loss").frames.max())
    assert counted[0] == counted[1] >= counted[2], "no counter goes on after the last checkpoint"
    lengths = run.metrics("episode_length").value
    assert lengths.sum() > status.steps - 8 * lengths.max(), "of no environment the last episodes lack"
    assert run.checkpoints[-1].meta["episodes"] == len(lengths), "before the last checkpoint was written"
    rollout = wb.rollout(run, max_steps=8, saliency="gradient")
    scores = rollout.q_values if rollout.policy is None else rollout.policy
    assert scores is not None and np.isfinite(scores).all() and np.isfinite(rollout.values).all()
    assert rollout.saliency is not None and rollout.saliency.max() > 0
    assert len(wb.evaluate(run, episodes=3).returns) == 3
    pytest.importorskip("onnx")
    assert wb.export_policy(run, target=tmp_path / "policy.onnx").stat().st_size > 1000

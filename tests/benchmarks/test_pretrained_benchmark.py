"""The script that trains what ships, at its smallest size; and what it makes of large weights."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.played import checkpoint_in
from workbench import checkpoints
from workbench.playing.pretrained import JUDGED
from workbench.policies.player import load_policy

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """benchmarks/pretrained.py."""
    monkeypatch.syspath_prepend(str(CHECKOUT / "benchmarks"))
    yield importlib.import_module("pretrained")
    for name in ("pretrained", "learning", "throughput"):
        sys.modules.pop(name, None)


@pytest.mark.full
def test_a_policy_is_trained_evaluated_and_written_with_its_card(home: Path, tmp_path: Path) -> None:
    command = [sys.executable, "benchmarks/pretrained.py", "recall", "--hours", "0", "--episodes", "20", "--folder"]
    done = subprocess.run([*command, str(tmp_path)], cwd=CHECKOUT, capture_output=True, text=True, timeout=250,
                          env={**os.environ, "PYTHONPATH": str(CHECKOUT)})
    assert done.returncode == 0, done.stderr
    assert "over 20 episodes of greedy play" in (tmp_path / "pretrained-recall.md").read_text()
    made = checkpoints.at(tmp_path / "recall")
    made.verify()
    assert sorted(file.name for file in made.path.iterdir()) == ["card.md", "meta.json", "model.safetensors"]
    assert made.meta[JUDGED]["episodes"] == 20
    assert "run = wb.launch('testing/recall-v0'" in (made.path / "card.md").read_text()


def test_large_weights_ship_in_half_precision_and_play(script: ModuleType, tmp_path: Path) -> None:
    whole = checkpoint_in(tmp_path, "ALE/Pong-v5", network="nature")
    made = script.packed(whole, tmp_path / "pong")
    assert made.files["model.safetensors"]["size_bytes"] < 0.51 * whole.files["model.safetensors"]["size_bytes"]
    for name, weight in load_policy(made).network.state_dict().items():
        expected = whole.load("model")[name]
        np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-3, atol=1e-6)
    assert "fork" not in made.meta and made.frames == whole.frames


def test_every_policy_has_fields_that_a_run_can_have(script: ModuleType) -> None:
    from workbench.config import RunConfig

    for policy in script.POLICIES.values():
        config = RunConfig.build(policy.environment, **policy.fields)
        frames = [due for due, _ in policy.tuned]
        assert frames == sorted(frames) and all(config.with_live(**changes) for _, changes in policy.tuned)


def test_a_run_from_weights_goes_on_in_the_schedule_where_they_are(script: ModuleType, tmp_path: Path) -> None:
    weights = checkpoint_in(tmp_path)  # at 1,200 frames
    policy = script.Policy("CartPole-v1", {"actors": 1}, 475, 499, 1, 1000, tuned=(
        (1000, {"entropy_cost": 0.003}), (1200, {"learning_rate": 2e-4}), (5000, {"learning_rate": 1e-4})))
    after = script.started_from(policy, weights.path)
    assert after.fields == {"actors": 1, "checkpoint": weights, "entropy_cost": 0.003, "learning_rate": 2e-4}
    assert after.tuned == ((3800, {"learning_rate": 1e-4}),)

"""A run whose frames are too few to learn from is told before it starts."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.config import RunConfig
from workbench.config.few_updates import few_updates


@pytest.mark.parametrize(("fields", "said"), [
    ({"total_frames": 12_000}, "this run makes at most 18 updates in total_frames=12,000, and its learning rate rises"),
    ({"total_frames": 639}, "waits for 640 steps (batch_size=32 x unroll_length=20)"),
    ({"total_frames": 20_000, "algorithm": "ppo", "batch_size": 4000}, "this run makes no update in total_frames=20,"),
    ({"total_frames": 399_999, "algorithm": "r2d2"},
     "waits for 400,000 steps (replay_min_size=5000 x unroll_length=80). Give more frames, or a smaller"),
    ({"total_frames": 400_000, "algorithm": "r2d2"}, ""),
    ({"total_frames": 15_999, "algorithm": "r2d2", "replay_size": 200}, "(replay_size=200 x unroll_length=80)"),
    ({"total_frames": 100, "algorithm": "bc"}, ""),
    ({}, ""),
])
def test_too_few_frames_are_said(fields: dict[str, Any], said: str) -> None:
    warning = few_updates(RunConfig.build("CartPole-v1", **fields), "this run")
    assert said in warning and bool(said) == bool(warning)

"""Inference takes over new weights after each update, or after each round where the run says so."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from workbench.algorithms.ppo.config import PPOConfig
from workbench.algorithms.vtrace.config import VTraceConfig
from workbench.config import LearningConfig
from workbench.learner.training.loop import TrainingLoop


@pytest.mark.parametrize(("config", "between", "publishes"), [
    (PPOConfig(publish="update"), False, True), (PPOConfig(publish="update"), True, True),
    (PPOConfig(publish="round"), False, False), (PPOConfig(publish="round"), True, True),
    (VTraceConfig(), True, True),
])
def test_weights_are_published_when_the_configuration_says(
    config: LearningConfig, between: bool, publishes: bool
) -> None:
    published: list[int] = []
    loop = TrainingLoop.__new__(TrainingLoop)
    loop._state = SimpleNamespace(hyperparameters=config)  # type: ignore[assignment]
    loop._parts = SimpleNamespace(  # type: ignore[assignment]
        experience=SimpleNamespace(between_rounds=between), policy=SimpleNamespace(publish=published.append),
        trainer=SimpleNamespace(updates=3))
    loop._publish()
    assert published == ([3] if publishes else [])

"""What Q-learning shares: the ladder of ε, the values of actions. Acting and targets: see test_r2d2_learner.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from workbench.algorithms import Roles
from workbench.algorithms.q_learning import QLearning, q_values_of
from workbench.config.hyperparameters import QLearningConfig
from workbench.environment_spec import EnvironmentSpec


def epsilons(ranks: torch.Tensor, **fields: Any) -> torch.Tensor:
    config = QLearningConfig(**fields)
    spec = EnvironmentSpec("x", (4,), "float32", 3)
    return QLearning(config, spec=spec).epsilons(Roles(ranks, torch.zeros(len(ranks), dtype=torch.bool)), config=config)


def test_values_of_actions_are_those_of_the_step_and_row() -> None:
    q_values = torch.arange(24.0).reshape(2, 3, 4)
    actions = torch.tensor([[0, 1, 2], [3, 0, 1]])
    assert q_values_of(q_values, actions=actions).tolist() == [[0, 5, 10], [15, 16, 21]]


@pytest.mark.parametrize("number", [2, 7, 610])
def test_epsilons_of_ranks_are_ape_x_s(number: int) -> None:
    ranks = torch.arange(number) / (number - 1)
    np.testing.assert_allclose(epsilons(ranks).numpy(), 0.4 ** np.linspace(1, 8, number), rtol=1e-5)


def test_a_base_of_zero_or_one_never_or_always_explores() -> None:
    ranks = torch.tensor([0.0, 0.5, 1.0])
    assert epsilons(ranks, exploration_base=0.0).tolist() == [0, 0, 0]
    assert epsilons(ranks, exploration_base=1.0).tolist() == [1, 1, 1]

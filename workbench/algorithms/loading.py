"""The algorithm that a run's configuration names."""

from __future__ import annotations

import importlib

from workbench.algorithms.interface import Algorithm
from workbench.config import RunConfig
from workbench.config.algorithms import only_class
from workbench.trajectory import EnvironmentSpec


def build(config: RunConfig, *, spec: EnvironmentSpec) -> Algorithm:
    """The algorithm of `config` for the environment `spec`. Raises InvalidInput for actions that it cannot choose."""
    agent = importlib.import_module(f"workbench.algorithms.{config.algorithm}.agent")
    algorithm: Algorithm = only_class(agent, Algorithm)(config.hyperparameters, spec=spec)
    return algorithm

"""Reinforcement learning algorithms: pure functions of tensors, and for each algorithm a class for the learner."""

from __future__ import annotations

from workbench.algorithms.batch import Batch, collate
from workbench.algorithms.frame_stacking import join_frames, push_frames, stack_frames
from workbench.algorithms.interface import (
    Algorithm,
    Heads,
    Loss,
    Network,
    NetworkOutput,
    PolicyValueOutput,
    QValueOutput,
    ReplayAlgorithm,
    Roles,
)
from workbench.algorithms.r2d2_agent import R2D2
from workbench.algorithms.vtrace_agent import VTrace
from workbench.config import ALGORITHMS, RunConfig
from workbench.errors import UnknownName
from workbench.trajectory import EnvironmentSpec

__all__ = [
    "Algorithm",
    "Batch",
    "Heads",
    "Loss",
    "Network",
    "NetworkOutput",
    "PolicyValueOutput",
    "QValueOutput",
    "R2D2",
    "ReplayAlgorithm",
    "Roles",
    "VTrace",
    "build",
    "collate",
    "join_frames",
    "push_frames",
    "stack_frames",
]


def build(config: RunConfig, *, spec: EnvironmentSpec) -> Algorithm:
    """The algorithm that the run's configuration names. Raises UnknownName."""
    if config.algorithm == "vtrace":
        return VTrace(config.hyperparameters, spec=spec)
    if config.algorithm == "r2d2":
        return R2D2(config.hyperparameters, spec=spec)
    raise UnknownName.among("algorithm", config.algorithm, ALGORITHMS)

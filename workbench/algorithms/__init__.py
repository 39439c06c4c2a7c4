"""Reinforcement learning algorithms: a folder for each, and what they share. Importing it loads no torch.

An algorithm's folder has its hyperparameters (config.py), its targets and losses as pure functions of tensors
(targets.py), and the class that the learner drives (agent.py). Nothing else names it: `config.algorithms` finds it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import workbench.config  # noqa: F401  # first, since each algorithm's config.py derives from its classes

if TYPE_CHECKING:
    from workbench.algorithms.batch import Batch, collate
    from workbench.algorithms.distributions import Distribution
    from workbench.algorithms.frame_stacking import join_frames, push_frames, stack_frames
    from workbench.algorithms.interface import (
        Algorithm,
        Heads,
        Loss,
        Network,
        NetworkOutput,
        Outlook,
        PolicyCriticsOutput,
        PolicyValueOutput,
        QValueOutput,
        Roles,
        inner,
    )
    from workbench.algorithms.loading import build
    from workbench.algorithms.q_learning import QLearning

__all__ = [
    "Algorithm",
    "Batch",
    "Distribution",
    "Heads",
    "Loss",
    "Network",
    "NetworkOutput",
    "Outlook",
    "PolicyCriticsOutput",
    "PolicyValueOutput",
    "QLearning",
    "QValueOutput",
    "Roles",
    "build",
    "collate",
    "inner",
    "join_frames",
    "push_frames",
    "stack_frames",
]

_HOMES = {"Batch": "batch", "collate": "batch", "Distribution": "distributions", "build": "loading",
          "QLearning": "q_learning",
          "join_frames": "frame_stacking", "push_frames": "frame_stacking", "stack_frames": "frame_stacking"}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: all of them need torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'interface')}"), name)
    globals()[name] = value
    return value

"""Which environments explore how much, and which only evaluate; by their rows in the learner's tables.

Actor a's environments are rows a·E … a·E + E-1. The last k of them evaluate, so that scaling the actors moves no
environment from one role to the other.
"""

from __future__ import annotations

import numpy as np

from workbench.config import RunConfig
from workbench.trajectory import Array


def evaluating(env_ids: Array, config: RunConfig) -> Array:
    """bool [N]: whether each environment evaluates."""
    found: Array = env_ids % config.envs_per_actor >= _training_per_actor(config)
    return found


def ranks(env_ids: Array, config: RunConfig) -> Array:
    """float32 [N]: place i/(M-1) of each environment among the run's M that train, 0 … 1."""
    per_actor = _training_per_actor(config)
    place = env_ids // config.envs_per_actor * per_actor + env_ids % config.envs_per_actor
    found: Array = np.clip(place / max(1, config.actors * per_actor - 1), 0, 1).astype(np.float32)
    return found


def _training_per_actor(config: RunConfig) -> int:
    return config.envs_per_actor - config.evaluating_per_actor

"""Configuration: frozen dataclasses whose fields carry default, unit, bounds, live-or-not and source.

The command line, sliders, validation and the docs table all read `settings(...)`; nothing repeats a bound.
A run's configuration is a `RunConfig` that holds the configuration of its algorithm. Both are flat to the user:
`RunConfig.build("CartPole-v1", actors=1, learning_rate=1e-3)`.
"""

from __future__ import annotations

from workbench.config.hyperparameters import (  # before the algorithms' own
    DemonstrationsConfig,
    EpochsConfig,
    LearningConfig,
    ReplayConfig,
)

from workbench.config.algorithms import ALGORITHMS, DEFAULT  # isort: skip
from workbench.config.run import (
    NETWORKS,
    REPLAY_S,
    WEIGHT_FIELDS,
    RunConfig,
    check_network,
    check_network_maker,
    unknown_field,
)
from workbench.config.settings import Setting, setting, settings

__all__ = [
    "ALGORITHMS",
    "DEFAULT",
    "NETWORKS",
    "REPLAY_S",
    "WEIGHT_FIELDS",
    "DemonstrationsConfig",
    "EpochsConfig",
    "LearningConfig",
    "ReplayConfig",
    "RunConfig",
    "Setting",
    "check_network",
    "check_network_maker",
    "setting",
    "settings",
    "unknown_field",
]

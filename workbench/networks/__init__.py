"""Policy and value networks: nn.Modules only. See `algorithms.base.Network` for what each must do."""

from __future__ import annotations

from workbench.algorithms.base import Network, NetworkOutput
from workbench.networks.policy_value import PolicyValueNetwork, Torso
from workbench.networks.registry import NAMES, NetworkFactory, build, check, default_name

__all__ = [
    "NAMES",
    "Network",
    "NetworkFactory",
    "NetworkOutput",
    "PolicyValueNetwork",
    "Torso",
    "build",
    "check",
    "default_name",
]

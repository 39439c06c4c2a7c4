"""Networks for policies, values and Q-values; nn.Modules only. They implement `algorithms.interface.Network`."""

from __future__ import annotations

from workbench.algorithms.interface import Network, NetworkOutput, PolicyValueOutput, QValueOutput
from workbench.algorithms.popart import PopArtValue
from workbench.networks.dueling import DuelingNetwork
from workbench.networks.policy_value import PolicyValueNetwork, Torso
from workbench.networks.registry import NAMES, NetworkFactory, build, default_name
from workbench.networks.returned_shapes import check_each_call
from workbench.networks.torsos import keep_dense_in
from workbench.networks.trying import check, initial_state

__all__ = [
    "NAMES",
    "DuelingNetwork",
    "Network",
    "NetworkFactory",
    "NetworkOutput",
    "PolicyValueNetwork",
    "PolicyValueOutput",
    "PopArtValue",
    "QValueOutput",
    "Torso",
    "build",
    "check",
    "check_each_call",
    "default_name",
    "initial_state",
    "keep_dense_in",
]

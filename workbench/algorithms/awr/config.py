"""The hyperparameters of AWR, with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from workbench.config.hyperparameters import BaselineFields, EpochsConfig, RegularizationFields
from workbench.config.settings import setting, with_default

_PAPER = "AWR, arXiv 1910.00177"


@dataclass(frozen=True)
class AWRConfig(RegularizationFields, BaselineFields, EpochsConfig):
    """Hyperparameters of AWR (Peng et al. 2019, arXiv 1910.00177), on recent unrolls as in SEED, not on a replay."""

    search: ClassVar[Mapping[str, Any]] = {"learning_rate": (3e-5, 3e-3), "temperature": (0.1, 10.0)}
    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "policy_loss": ("minus the mean of log π of the action taken, each step with its weight", ""),
        "baseline_loss": ("value loss: baseline_cost times half the squared error of V against the returns", ""),
    }

    unroll_length: int = with_default(EpochsConfig, "unroll_length", 32, source="as our PPO")
    batch_size: int = with_default(EpochsConfig, "batch_size", 8, source="as our PPO: 256 steps")
    epochs: int = with_default(EpochsConfig, "epochs", 2, source="ours")
    discount: float = with_default(EpochsConfig, "discount", 0.99, source=_PAPER)
    learning_rate: float = with_default(EpochsConfig, "learning_rate", 3e-4, source="ours")
    max_gradient_norm: float = with_default(EpochsConfig, "max_gradient_norm", 0.5, source="as our PPO")
    lambda_: float = setting(0.95, "trace decay λ of the returns", low=0.0, high=1.0, live=True, group="loss",
                             words="lambda (λ)", source=_PAPER)
    temperature: float = setting(1.0, "β: a step weighs exp(A/β), A normalised", low=1e-3, high=1e3, live=True,
                                 group="loss", scale="log", source=f"{_PAPER}, algorithm 1")
    largest_weight: float = setting(20.0, "weight that no step exceeds", low=1.0, high=1e6, live=True, group="loss",
                                    scale="log", source=_PAPER)
    entropy_cost: float = setting(0.0, "weight of the entropy bonus", low=0.0, high=10.0, live=True,
                                  group="exploration", scale="log", source="the paper has none")
    baseline_cost: float = setting(0.5, "weight of the value loss", low=0.0, high=100.0, live=True, group="loss",
                                   scale="log", source="ours: one network for policy and value")

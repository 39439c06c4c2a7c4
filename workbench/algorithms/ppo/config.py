"""The hyperparameters of PPO, with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from workbench.config.hyperparameters import BaselineFields, EpochsConfig, RegularizationFields
from workbench.config.settings import setting, with_default

_PAPER = "PPO, arXiv 1707.06347"


@dataclass(frozen=True)
class PPOConfig(RegularizationFields, BaselineFields, EpochsConfig):
    """Hyperparameters of PPO (Schulman et al. 2017, arXiv 1707.06347); a round is 1,024 steps, as there on Atari."""

    relatives: ClassVar[tuple[str, ...]] = ("appo", "trpo")
    search: ClassVar[Mapping[str, Any]] = {
        "learning_rate": (3e-5, 3e-3), "entropy_cost": (1e-4, 3e-2), "clip": [0.1, 0.2, 0.3]}
    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "policy_loss": ("minus the clipped surrogate objective", ""),
        "baseline_loss": ("value loss: baseline_cost times half the squared error of V against the returns", ""),
        "kl": ("estimate of KL(behaviour ‖ target): how far the policy has moved since it acted", "nats"),
        "clip_fraction": ("share of the steps whose importance ratio lies beyond 1 ± clip", "share"),
    }

    unroll_length: int = with_default(EpochsConfig, "unroll_length", 32, source="ours: 32 unrolls of 32 steps a round")
    batch_size: int = with_default(EpochsConfig, "batch_size", 8, source=f"{_PAPER}, table 5: 256 steps")
    discount: float = with_default(EpochsConfig, "discount", 0.99, source=f"{_PAPER}, table 5")
    learning_rate: float = with_default(EpochsConfig, "learning_rate", 2.5e-4, source=f"{_PAPER}, table 5")
    max_gradient_norm: float = with_default(EpochsConfig, "max_gradient_norm", 0.5, source="OpenAI baselines, ppo2")
    lambda_: float = setting(0.95, "trace decay λ of the generalised advantages", low=0.0, high=1.0, live=True,
                             group="loss", words="lambda (λ)", source=f"{_PAPER}, table 5")
    clip: float = setting(0.2, "ε: the importance ratio counts up to 1 ± this", low=0.0, high=10.0, live=True,
                          group="loss", source=f"{_PAPER}, eq. 7 and table 1; on Atari 0.1 (preset)")
    value_clip: float = setting(0.0, "values may move by this from those of the acting network, in deviations "
                                "where values are normalized; 0: not clipped",
                                low=0.0, high=1e6, live=True, group="loss",
                                source="OpenAI baselines, ppo2; arXiv 2006.05990, section 3.1: no gain")
    target_kl: float = setting(0.0, "KL(behaviour ‖ target) at 1.5 times which a round ends after the update; the "
                               "behaviour may be older than the round by as much as one; 0: never",
                               unit="nats", low=0.0, high=100.0, live=True, group="learning",
                               source="Spinning Up; Stable-Baselines3, which skips that update; both act with the "
                               "round's first policy")
    normalize_advantages: bool = setting(True, "advantages of a minibatch, over all learners, are brought to mean 0 "
                                         "and deviation 1", live=True, group="loss", source="OpenAI baselines, ppo2")
    entropy_cost: float = setting(0.01, "weight of the entropy bonus", low=0.0, high=10.0, live=True,
                                  group="exploration", scale="log", source=f"{_PAPER}, table 5")
    baseline_cost: float = setting(0.5, "weight of the value loss", low=0.0, high=100.0, live=True, group="loss",
                                   scale="log", source="OpenAI baselines, ppo2; the paper's 1, of an error not halved")

"""The hyperparameters of V-trace, with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from workbench.config.hyperparameters import BaselineFields, LearningConfig, RegularizationFields
from workbench.config.settings import setting, with_default


@dataclass(frozen=True)
class VTraceConfig(RegularizationFields, BaselineFields, LearningConfig):
    """Hyperparameters of V-trace (IMPALA, Espeholt et al. 2018, arXiv 1802.01561; SEED RL, arXiv 1910.06591)."""

    relatives: ClassVar[tuple[str, ...]] = ("a2c", "a3c", "impala")
    search: ClassVar[Mapping[str, Any]] = {  # IMPALA table D.1
        "learning_rate": (5e-6, 5e-3), "entropy_cost": (5e-5, 1e-2)}
    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "policy_loss": ("policy gradient: minus the mean of the V-trace advantage times log π of the action taken", ""),
        "baseline_loss": ("value loss: baseline_cost times half the squared error of V against its V-trace target", ""),
    }

    unroll_length: int = with_default(LearningConfig, "unroll_length", 20, source="IMPALA table G.1")
    batch_size: int = with_default(LearningConfig, "batch_size", 32, source="IMPALA table G.1")
    discount: float = with_default(LearningConfig, "discount", 0.99, source="IMPALA table G.1")
    max_abs_reward: float = with_default(LearningConfig, "max_abs_reward", 1.0, source="IMPALA table G.1")
    learning_rate: float = with_default(LearningConfig, "learning_rate", 6e-4, source="IMPALA table G.1")
    warmup_updates: int = with_default(LearningConfig, "warmup_updates", 200,
                                       source="arXiv 1706.02677, section 2.2; DECISIONS.md")
    adam_epsilon: float = with_default(LearningConfig, "adam_epsilon", 1e-5, source="arXiv 2006.05990, section 3.6")
    max_gradient_norm: float = with_default(LearningConfig, "max_gradient_norm", 0.5,
                                            source="A2C, PPO (means); IMPALA table G.1 has 40 for a sum over 640 steps")
    lambda_: float = setting(1.0, "trace decay λ", low=0.0, high=1.0,
                             live=True, group="loss", words="lambda (λ)", source="IMPALA remark 2; SEED flag")
    rho_clip: float = setting(1.0, "clip ρ̄ of the importance ratio in the temporal difference", low=0.0, high=1e6,
                              live=True, group="loss", scale="log", source="IMPALA eq. 1")
    c_clip: float = setting(1.0, "clip c̄ of the importance ratio in the trace", low=0.0, high=1e6,
                            live=True, group="loss", scale="log", source="IMPALA eq. 1")
    pg_rho_clip: float = setting(1.0, "clip of the importance ratio in the policy gradient", low=0.0, high=1e6,
                                 live=True, group="loss", scale="log", source="IMPALA section 4.2")
    off_policy_correction: bool = setting(True, "importance ratios correct for actions of older policies; off: all are "
                                          "taken as 1",
                                          live=True, group="loss", source="IMPALA section 5.2.2, no-correction")
    entropy_cost: float = setting(0.01, "weight of the entropy bonus", low=0.0, high=10.0,
                                  live=True, group="exploration", scale="log", source="IMPALA table G.1")
    baseline_cost: float = setting(0.5, "weight of the value loss", low=0.0, high=100.0,
                                   live=True, group="loss", scale="log", source="IMPALA table G.1")

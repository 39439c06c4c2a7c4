"""The hyperparameters of behaviour cloning, with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from workbench.config.hyperparameters import DemonstrationsConfig
from workbench.config.settings import setting, with_default


@dataclass(frozen=True)
class BCConfig(DemonstrationsConfig):
    """Hyperparameters of behaviour cloning (Pomerleau 1991, "Efficient training of artificial neural networks for
    autonomous navigation", Neural Computation 3(1), 88-97)."""

    search: ClassVar[Mapping[str, Any]] = {"learning_rate": (1e-4, 1e-2)}
    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "policy_loss": ("minus the mean of log π of the demonstrated actions", "nats"),
        "baseline_loss": ("value loss: baseline_cost times half the squared error of V against the returns", ""),
        "entropy_loss": ("minus entropy_cost times the entropy", ""),
        "entropy": ("entropy of the policy: ln A while A actions are equally likely, 0 once one is certain", "nats"),
        "accuracy": ("share of steps whose likeliest choices are the demonstrated ones; only with choices", "share"),
        "action_error": ("distance of the likeliest numbers in [-1, 1] from those demonstrated; only with numbers", ""),
        "held_out_loss": ("policy_loss of held-out episodes; only with validation_share", "nats"),
        "held_out_accuracy": ("accuracy on held-out episodes; only with choices", "share"),
        "held_out_action_error": ("action_error on held-out episodes; only with numbers", ""),
    }

    unroll_length: int = with_default(DemonstrationsConfig, "unroll_length", 32, source="as our PPO")
    batch_size: int = with_default(DemonstrationsConfig, "batch_size", 8, source="as our PPO: 256 steps")
    learning_rate: float = with_default(DemonstrationsConfig, "learning_rate", 1e-3, source="ours")
    max_gradient_norm: float = with_default(DemonstrationsConfig, "max_gradient_norm", 0.5, source="as our PPO")
    burn_in: int = setting(32, "steps before each unroll that only bring the recurrent state up to date, from zeros or "
                           "from the episode's start; a network without memory skips them", unit="steps", low=0,
                           high=10_000, source="ours; R2D2, Kapturowski et al. 2019, section 3")
    entropy_cost: float = setting(0.0, "weight of the entropy bonus", low=0.0, high=10.0, live=True, group="loss",
                                  scale="log", source="ours: none; it bounds how sure the clone becomes")
    baseline_cost: float = setting(0.01, "weight of the value loss, which gives players a value; 0: none", low=0.0,
                                   high=100.0, live=True, group="loss", scale="log",
                                   source="ours: at 0.5 it is the larger part of the clipped gradient")
    lambda_: float = setting(0.95, "trace decay λ of the returns that the value learns", low=0.0, high=1.0, live=True,
                             group="loss", words="lambda (λ)", source="as our AWR")

"""The hyperparameters of V-MPO, with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from workbench.config.hyperparameters import BaselineFields, EpochsConfig
from workbench.config.settings import setting, with_default
from workbench.errors import InvalidInput

_PAPER = "V-MPO, arXiv 1909.12238"
_SEED = "SEED policy_gradient/learner_config.py"


@dataclass(frozen=True)
class VMPOConfig(BaselineFields, EpochsConfig):
    """Hyperparameters of V-MPO (Song et al. 2020, arXiv 1909.12238).

    A round trains from one old policy: with one update a round, as by default, the policy of the loss has hardly moved
    from it, kl_bound binds nothing and the learning rate alone bounds a step. The paper's T_target updates from one old
    policy are minibatches, its actors' policy publish="round".
    """

    relatives: ClassVar[tuple[str, ...]] = ("mpo",)
    search: ClassVar[Mapping[str, Any]] = {
        "learning_rate": (3e-5, 3e-3), "epochs": [1, 3, 10], "temperature_bound": (0.01, 1.0)}
    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "policy_loss": ("minus the weighted mean of log π over the better half of the actions", ""),
        "baseline_loss": ("value loss: baseline_cost times half the squared error of V against the returns", ""),
        "temperature_loss": ("dual of the temperature η, which keeps temperature_bound", ""),
        "kl_loss": ("dual of α, which keeps kl_bound, and α times KL(behaviour ‖ target)", ""),
        "entropy": ("entropy of the policy: ln A while A actions are equally likely, 0 once one is certain", "nats"),
        "kl": ("KL(behaviour ‖ target): how far the policy has moved since it acted", "nats"),
        "temperature": ("η: the larger, the more evenly the better actions count", ""),
        "kl_cost": ("α: weight of KL(behaviour ‖ target), which kl_bound adapts", ""),
    }

    unroll_length: int = with_default(EpochsConfig, "unroll_length", 20, source="as our V-trace")
    batch_size: int = with_default(EpochsConfig, "batch_size", 32, source="as our V-trace")
    epochs: int = with_default(EpochsConfig, "epochs", 1, source=f"{_SEED}: 1")
    minibatches: int = with_default(EpochsConfig, "minibatches", 1, source=f"{_SEED}: 1")
    discount: float = with_default(EpochsConfig, "discount", 0.99, source=_PAPER)
    max_abs_reward: float = with_default(EpochsConfig, "max_abs_reward", 0.0, source=f"{_PAPER}: not clipped")
    learning_rate: float = with_default(EpochsConfig, "learning_rate", 3e-4, source="ours")
    max_gradient_norm: float = with_default(EpochsConfig, "max_gradient_norm", 0.5, source="as our V-trace")
    lambda_: float = setting(0.95, "trace decay λ of the returns", low=0.0, high=1.0, live=True, group="loss",
                             words="lambda (λ)", source="ours; the paper: 1, over a few steps")
    temperature_bound: float = setting(0.1, "ε_η: how far the better actions' weights may be from even ones",
                                       unit="nats", low=1e-6, high=100.0, live=True, group="loss", scale="log",
                                       source=_PAPER)
    kl_bound: float = setting(0.01, "ε_α: how far the policy may move from the one that acted", unit="nats", low=1e-6,
                              high=100.0, live=True, group="loss", scale="log", source=_PAPER)
    first_temperature: float = setting(1.0, "η at the start", low=1e-3, high=1e3, scale="log", source=_PAPER,
                                       initial=True)
    first_kl_cost: float = setting(5.0, "α at the start", low=1e-3, high=1e3, scale="log", source=_PAPER, initial=True)
    multiplier_rate_factor: float = setting(
        1.0, "learning rate of the parameters of η and α, as a factor of learning_rate", low=0.0, high=1000.0,
        live=True, group="learning", scale="log",
        source="SEED policy_losses.py: speed 10; Acme's MPO: 1e-2 beside the policy's 1e-4")
    baseline_cost: float = setting(0.5, "weight of the value loss", low=0.0, high=100.0, live=True, group="loss",
                                   scale="log", source="as our V-trace")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size * self.unroll_length < 2:
            raise InvalidInput("V-MPO learns from the better half of a minibatch's steps, and batch_size=1 with "
                               "unroll_length=1 has one step. Give more of either.")

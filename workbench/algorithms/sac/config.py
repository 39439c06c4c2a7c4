"""The hyperparameters of SAC, with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from workbench.config.hyperparameters import ReplayConfig
from workbench.config.settings import setting, with_default

_PAPER = "SAC, arXiv 1812.05905"


@dataclass(frozen=True)
class SACConfig(ReplayConfig):
    """Hyperparameters of SAC (Haarnoja et al. 2018, arXiv 1812.05905; choices: Christodoulou 2019, arXiv 1910.07207).

    An update trains on 256 steps, as the paper's. With a replay ratio of 256 there is one for each step, as there.
    """

    trains_on = "replay"
    relatives: ClassVar[tuple[str, ...]] = ("td3", "ddpg", "tqc")
    search: ClassVar[Mapping[str, Any]] = {
        "learning_rate": (1e-4, 3e-3), "replay_ratio": (16.0, 256.0), "target_share": (1e-3, 5e-2)}
    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "critic_loss": ("half the squared error of both critics against the soft target, weighted by importance", ""),
        "policy_loss": ("minus the soft value of the policy's own actions", ""),
        "temperature_loss": ("temperature times the distance of the entropy from target_entropy", ""),
        "entropy": ("entropy of the policy; where actions are numbers, it can be negative", "nats"),
        "temperature": ("α: weight of the entropy beside the reward", ""),
        "q_value": ("mean Q-value of the actions taken, over both critics", "reward"),
        "td_error": ("mean size |δ| of the TD errors of the smaller critic", "reward"),
    }

    unroll_length: int = with_default(ReplayConfig, "unroll_length", 8, source="ours: 32 unrolls of 8 steps")
    batch_size: int = with_default(ReplayConfig, "batch_size", 32, source=f"{_PAPER}, table 1: 256 steps")
    discount: float = with_default(ReplayConfig, "discount", 0.99, source=f"{_PAPER}, table 1")
    learning_rate: float = with_default(ReplayConfig, "learning_rate", 3e-4, source=f"{_PAPER}, table 1")
    adam_epsilon: float = with_default(ReplayConfig, "adam_epsilon", 1e-8, source="Adam, arXiv 1412.6980")
    replay_min_size: int = with_default(ReplayConfig, "replay_min_size", 128, source="ours: 1,024 steps")
    replay_ratio: float = with_default(ReplayConfig, "replay_ratio", 64.0,
                                       source="ours; the paper's is 256 here, as in the presets of MuJoCo and Pendulum")
    priority_exponent: float = with_default(ReplayConfig, "priority_exponent", 0.0, source=f"{_PAPER}: uniform")
    importance_exponent: float = with_default(ReplayConfig, "importance_exponent", 0.0, source=f"{_PAPER}: none")
    critic_rate_factor: float = setting(
        1.0, "learning rate of the critics, as a factor of learning_rate", low=0.0, high=100.0, live=True,
        group="learning", scale="log", source=f"{_PAPER}, table 1: one rate; CleanRL: 1e-3 beside the policy's 3e-4")
    temperature_rate_factor: float = setting(
        1.0, "learning rate of the temperature's logarithm, as a factor of learning_rate", low=0.0, high=100.0,
        live=True, group="learning", scale="log", source=f"{_PAPER}, table 1: one rate; CleanRL: that of its critics")
    target_share: float = setting(0.005, "τ: share of the way that the target network goes to the network at each "
                                  "update", low=1e-6, high=1.0, live=True, group="learning", scale="log",
                                  source=f"{_PAPER}, table 1")
    target_entropy: float | None = setting(
        None, "entropy that the temperature is adapted to; None: minus the number of numbers of an action, or half "
        "of the largest entropy of what is allowed, where actions are choices", unit="nats", low=-1000.0,
        high=1000.0, live=True, group="exploration",
        source=f"{_PAPER}, table 1; choices: ours, arXiv 1910.07207 has 0.98 of the largest")
    first_temperature: float = setting(1.0, "weight of the entropy at the start", low=1e-6, high=1e3, scale="log",
                                       source=_PAPER, initial=True)
    critic_size: int = setting(256, "units of the two hidden layers of each critic", unit="units", low=1, high=16_384,
                               source=f"{_PAPER}, table 1")

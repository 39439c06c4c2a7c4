"""The hyperparameters of R2D2, with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from workbench.config.hyperparameters import SEED_R2D2, SEED_SCRIPT, QLearningConfig
from workbench.config.settings import setting, with_default


@dataclass(frozen=True)
class R2D2Config(QLearningConfig):
    """Hyperparameters of R2D2 (Kapturowski et al. 2019, "Recurrent experience replay"), as SEED RL runs it."""

    relatives: ClassVar[tuple[str, ...]] = ("dqn", "rainbow", "apex", "qrdqn")
    search: ClassVar[Mapping[str, Any]] = {
        "learning_rate": (3e-5, 1e-3), "target_update_period": (100, 2500), "replay_ratio": (0.25, 4.0)}
    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "loss": ("half the squared TD errors, summed over an unroll, weighted by importance, mean over unrolls", ""),
        "td_error": ("mean size |δ| of the TD errors, of rescaled values where value_rescaling is on", ""),
        "q_value": ("mean Q-value of the actions taken, in units of return", "reward"),
    }

    unroll_length: int = with_default(QLearningConfig, "unroll_length", 80, source=SEED_SCRIPT)
    batch_size: int = with_default(QLearningConfig, "batch_size", 64, source=SEED_R2D2)
    evaluation_envs_per_actor: int = with_default(QLearningConfig, "evaluation_envs_per_actor", 1,
                                                  source="SEED gcp/train_atari.sh: 30 of 640")
    discount: float = with_default(QLearningConfig, "discount", 0.997, source=SEED_R2D2)
    max_abs_reward: float = with_default(QLearningConfig, "max_abs_reward", 0.0,
                                         source="Kapturowski et al. 2019: not clipped")
    learning_rate: float = with_default(QLearningConfig, "learning_rate", 1e-4, source=SEED_SCRIPT)
    adam_epsilon: float = with_default(QLearningConfig, "adam_epsilon", 1e-3,
                                       source=f"{SEED_R2D2}, there in Keras' form")
    max_gradient_norm: float = with_default(QLearningConfig, "max_gradient_norm", 80.0,
                                            source=f"{SEED_SCRIPT}; the loss sums over an unroll")
    burn_in: int = setting(40, "steps before each unroll that only bring the recurrent state up to date", unit="steps",
                           low=0, high=10_000, source=SEED_R2D2)
    recurrent_state: str = setting(
        "stored", "state that an unroll's first burn-in step starts from: as acted with, zeros, or as training last "
        "recomputed it", choices=("stored", "zero", "refreshed"), source="Kapturowski et al. 2019, section 3")
    n_steps: int = setting(5, "steps of reward in a target, n", unit="steps", low=1, high=1000, source=SEED_R2D2)
    value_rescaling: bool = setting(True, "learn values of returns rescaled by h", source="Pohlen et al. 2018")
    value_rescaling_epsilon: float = setting(1e-3, "ε of h(x) = sign(x)(√(|x|+1)-1) + εx", low=1e-9, high=1.0,
                                             scale="log", source=SEED_R2D2)
    priority_max_share: float = setting(0.9, "η of a sequence's priority η·max|δ| + (1-η)·mean|δ|", low=0.0, high=1.0,
                                        live=True, group="learning", source=SEED_R2D2)
    lstm_size: int = setting(512, "units of the LSTM", unit="units", low=1, high=16_384, source=SEED_R2D2)
    dueling_size: int = setting(512, "units of the hidden layer of each dueling head", unit="units", low=1, high=16_384,
                                source=SEED_R2D2)

"""Hyperparameters: those of every algorithm, then those that each one adds or overrides, with their sources."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.config.settings import setting, validate, with_default

_SEED_SCRIPT = "SEED gcp/train_atari.sh"
_SEED_R2D2 = "SEED r2d2/learner.py; Kapturowski et al. 2019"


@dataclass(frozen=True)
class LearningConfig:
    """The fields of every algorithm's configuration: unrolls, batches and the optimizer."""

    learning_rate: float = setting(1e-4, "learning rate (at the start, if it decays)", low=0.0, high=1.0,
                                   live=True, group="learning", scale="log")
    unroll_length: int = setting(20, "steps trained on per unroll, T", unit="steps", low=1, high=10_000)
    batch_size: int = setting(32, "unrolls per update, B", unit="unrolls", low=1, high=4096)
    queue_size: int = setting(0, "finished unrolls that may wait for training; 0: one batch", unit="unrolls",
                              low=0, high=100_000, source="SEED: V-trace 1, R2D2 100")
    echo_factor: int = setting(1, "updates that one batch may serve while the next is not ready", unit="updates",
                               low=1, high=100, live=True, group="learning", source="data echoing, arXiv 1907.05550")
    evaluation_envs_per_actor: int = setting(
        0, "environments of each actor, its last ones, that play without exploring and are not trained on; at least "
        "one trains", unit="environments", low=0, high=4095, source="SEED common_flags.py: num_eval_envs")
    discount: float = setting(0.99, "discount γ", low=0.0, high=1.0, live=True, group="learning", words="discount (γ)")
    normalize_observations: bool = setting(
        False, "float observations are brought to mean 0 and variance 1 by what was trained on",
        source="arXiv 2006.05990, section 3.3")
    reward_scale: float = setting(1.0, "rewards are multiplied by this in training; values are in these units too",
                                  low=1e-6, high=1e6, live=True, group="learning", scale="log")
    max_abs_reward: float = setting(0.0, "rewards, as scaled, are clipped to ± this in training; 0: not clipped",
                                    low=0.0, high=1e9, live=True, group="learning")
    optimizer: str = setting("adam", "optimizer", choices=("adam", "rmsprop"), source="SEED: Adam; IMPALA: RMSProp")
    warmup_updates: int = setting(0, "updates in which the learning rate rises from 0; Adam's first steps all "
                                  "point one way and overshoot. A learning rate that is tuned meanwhile holds at once",
                                  unit="updates", low=0, high=1_000_000, live=True, group="learning")
    learning_rate_schedule: str = setting("constant", "constant, or linear to 0 at total_frames",
                                          choices=("constant", "linear"), source="SEED dmlab: linear")
    adam_beta1: float = setting(0.9, "Adam's β1", low=0.0, high=0.9999, source="SEED football")
    adam_beta2: float = setting(0.999, "Adam's β2", low=0.0, high=0.999999, source="Adam, arXiv 1412.6980")
    adam_epsilon: float = setting(1e-5, "Adam's ε", low=1e-12, high=1.0, scale="log")
    rmsprop_decay: float = setting(0.99, "RMSProp's decay", low=0.0, high=0.9999, source="IMPALA table D.3")
    rmsprop_momentum: float = setting(0.0, "RMSProp's momentum", low=0.0, high=0.9999, source="IMPALA table D.3")
    rmsprop_epsilon: float = setting(1.6e-4, "RMSProp's ε, beside the root", low=1e-12, high=1.0, scale="log",
                                     source="IMPALA table D.3: 0.01 in the root, for sums over 640 steps: √0.01/640")
    max_gradient_norm: float = setting(0.0, "global norm that gradients are clipped to; 0: not clipped", low=0.0,
                                       high=1e6, live=True, group="learning", scale="log")

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True)
class VTraceConfig(LearningConfig):
    """Hyperparameters of V-trace (IMPALA, Espeholt et al. 2018, arXiv 1802.01561; SEED RL, arXiv 1910.06591)."""

    unroll_length: int = with_default(LearningConfig, "unroll_length", 20, source="IMPALA table D.3")
    batch_size: int = with_default(LearningConfig, "batch_size", 32, source="IMPALA table D.3")
    discount: float = with_default(LearningConfig, "discount", 0.99, source="IMPALA table D.3")
    max_abs_reward: float = with_default(LearningConfig, "max_abs_reward", 1.0, source="IMPALA table D.3")
    learning_rate: float = with_default(LearningConfig, "learning_rate", 6e-4, source="IMPALA table D.3")
    warmup_updates: int = with_default(LearningConfig, "warmup_updates", 200,
                                       source="arXiv 1706.02677, section 2.2; DECISIONS.md")
    adam_epsilon: float = with_default(LearningConfig, "adam_epsilon", 1e-5, source="arXiv 2006.05990, section 3.6")
    max_gradient_norm: float = with_default(LearningConfig, "max_gradient_norm", 0.5,
                                            source="A2C, PPO (means); IMPALA table D.3 has 40 for a sum over 640 steps")
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
                                  live=True, group="exploration", scale="log", source="IMPALA table D.3")
    target_entropy: float | None = setting(None, "entropy that the weight is adapted to, negative where actions are "
                                           "numbers; None: fixed weight", unit="nats", low=-1000.0, high=1000.0,
                                           live=True, group="exploration", source="SEED vtrace/learner.py")
    entropy_cost_speed: float = setting(10.0, "speed at which the entropy weight adapts", low=0.0, high=1000.0,
                                        source="SEED vtrace/learner.py")
    baseline_cost: float = setting(0.5, "weight of the value loss", low=0.0, high=100.0,
                                   live=True, group="loss", scale="log", source="IMPALA table D.3")
    kl_cost: float = setting(0.0, "weight of KL(behaviour ‖ target)", low=0.0, high=100.0, live=True, group="loss",
                             source="SEED vtrace/learner.py")


@dataclass(frozen=True)
class R2D2Config(LearningConfig):
    """Hyperparameters of R2D2 (Kapturowski et al. 2019, "Recurrent experience replay"), as SEED RL runs it."""

    unroll_length: int = with_default(LearningConfig, "unroll_length", 80, source=_SEED_SCRIPT)
    batch_size: int = with_default(LearningConfig, "batch_size", 64, source=_SEED_R2D2)
    evaluation_envs_per_actor: int = with_default(LearningConfig, "evaluation_envs_per_actor", 1,
                                                  source="SEED gcp/train_atari.sh: 30 of 640")
    discount: float = with_default(LearningConfig, "discount", 0.997, source=_SEED_R2D2)
    max_abs_reward: float = with_default(LearningConfig, "max_abs_reward", 0.0,
                                         source="Kapturowski et al. 2019: not clipped")
    learning_rate: float = with_default(LearningConfig, "learning_rate", 1e-4, source=_SEED_SCRIPT)
    adam_epsilon: float = with_default(LearningConfig, "adam_epsilon", 1e-3, source=_SEED_R2D2)
    max_gradient_norm: float = with_default(LearningConfig, "max_gradient_norm", 80.0,
                                            source=f"{_SEED_SCRIPT}; the loss sums over an unroll")
    burn_in: int = setting(40, "steps before each unroll that only bring the recurrent state up to date", unit="steps",
                           low=0, high=10_000, source=_SEED_R2D2)
    recurrent_state: str = setting(
        "stored", "state that an unroll's first burn-in step starts from: as acted with, zeros, or as training last "
        "recomputed it", choices=("stored", "zero", "refreshed"), source="Kapturowski et al. 2019, section 3")
    n_steps: int = setting(5, "steps of reward in a target, n", unit="steps", low=1, high=1000, source=_SEED_R2D2)
    value_rescaling: bool = setting(True, "learn values of returns rescaled by h", source="Pohlen et al. 2018")
    value_rescaling_epsilon: float = setting(1e-3, "ε of h(x) = sign(x)(√(|x|+1)-1) + εx", low=1e-9, high=1.0,
                                             scale="log", source=_SEED_R2D2)
    target_update_period: int = setting(2500, "updates between copies of the network into the target network",
                                        unit="updates", low=1, high=10_000_000,
                                        live=True, group="learning", scale="log", source=_SEED_R2D2)
    exploration_base: float = setting(0.4, "base of the environments' ε: base^x, x even from the first power to the "
                                      "last", low=0.0, high=1.0,
                                      live=True, group="exploration", source="Horgan et al. 2018; SEED")
    exploration_first_power: float = setting(1.0, "power of the environment that explores most", low=0.0, high=100.0,
                                             live=True, group="exploration", source="Horgan et al. 2018; SEED")
    exploration_last_power: float = setting(8.0, "power of the environment that explores least", low=0.0, high=100.0,
                                            live=True, group="exploration", source="Horgan et al. 2018; SEED")
    evaluation_epsilon: float = setting(1e-3, "ε of environments that evaluate", low=0.0, high=1.0,
                                        live=True, group="exploration", source=_SEED_R2D2)
    replay_size: int = setting(0, "unrolls that the replay holds; 0: as many as replay_memory_gb holds, at most "
                               "100,000, planned when the run first starts", unit="unrolls", low=0,
                               high=10_000_000, source=f"{_SEED_SCRIPT}: 100,000")
    replay_memory_gb: float = setting(0.0, "memory, or disk, that the replay may take; 0: half of what is free when "
                                      "the run starts", unit="GiB", low=0.0, high=1e6)
    replay_storage: str = setting("memory", "where unrolls are kept: in memory, or in a file of the run that is "
                                  "mapped into memory", choices=("memory", "disk"))
    replay_min_size: int = setting(5000, "unrolls in the replay before the first update (all that it holds, if that "
                                   "is less)", unit="unrolls", low=1, high=10_000_000, source=_SEED_SCRIPT)
    replay_ratio: float = setting(0.75, "unrolls trained on per unroll that comes in, echoes not counted", low=1e-3,
                                  high=1000.0, live=True, group="learning", scale="log", source=_SEED_SCRIPT)
    priority_exponent: float = setting(0.9, "power of a priority in sampling; 0: uniform", low=0.0, high=10.0,
                                       live=True, group="learning", source=_SEED_R2D2)
    importance_exponent: float = setting(0.6, "power of the weights that correct for the sampling; 0: none", low=0.0,
                                         high=10.0, live=True, group="learning", source=_SEED_R2D2)
    priority_max_share: float = setting(0.9, "η of a sequence's priority η·max|δ| + (1-η)·mean|δ|", low=0.0, high=1.0,
                                        live=True, group="learning", source=_SEED_R2D2)
    save_replay: bool = setting(False, "checkpoints hold the replay, so that a resumed run goes on with it; of the "
                                "automatic ones only the newest keeps it", live=True, group="system")
    lstm_size: int = setting(512, "units of the LSTM", unit="units", low=1, high=16_384, source=_SEED_R2D2)
    dueling_size: int = setting(512, "units of the hidden layer of each dueling head", unit="units", low=1, high=16_384,
                                source=_SEED_R2D2)


ALGORITHMS: dict[str, type[LearningConfig]] = {"vtrace": VTraceConfig, "r2d2": R2D2Config}

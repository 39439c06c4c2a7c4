"""Hyperparameters that algorithms share, with their sources; each one's own are in its folder in `algorithms`.

The class from which an algorithm's configuration derives says on what it trains: `LearningConfig`, each unroll once and
in order; `EpochsConfig`, several epochs of minibatches of each round of unrolls; `ReplayConfig`, a replay
(`QLearningConfig` has what Q-learning needs beside it); `DemonstrationsConfig`, recorded episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from workbench.config.settings import setting, validate, with_default

SEED_SCRIPT = "SEED gcp/train_atari.sh"
SEED_R2D2 = "SEED r2d2/learner.py; Kapturowski et al. 2019"
_SEED_VTRACE = "SEED vtrace/learner.py"
_SEED_CONSTRAINTS = "SEED policy_gradient/modules/constraints.py"


@dataclass(frozen=True)
class LearningConfig:
    """The fields of every algorithm's configuration: unrolls, batches and the optimizer.

    Each unroll is trained on once, in the order of completion, unless a subclass says otherwise.

    Attributes:
        trains_on: which data, in words.
        search: what a sweep searches where no space is given, as `wb.sweep` takes it.
        relatives: names of algorithms that are not here, to which this one is the nearest.
        metrics: what the metrics of the loss mean, and their units, by name. A subclass describes those it adds or
            changes.
    """

    trains_on: ClassVar[str] = "each unroll once"
    search: ClassVar[Mapping[str, Any]] = {"learning_rate": (1e-5, 1e-2)}
    relatives: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "loss": ("what the optimizer minimises: the sum of the weighted terms", ""),
        "gradient_norm": ("global norm of the gradient, before it is clipped", ""),
    }

    learning_rate: float = setting(1e-4, "learning rate (at the start, if it decays)", low=0.0, high=1.0,
                                   live=True, group="learning", scale="log")
    unroll_length: int = setting(20, "steps trained on per unroll, T", unit="steps", low=1, high=10_000)
    batch_size: int = setting(32, "unrolls per update, B", unit="unrolls", low=1, high=4096)
    queue_size: int = setting(0, "finished unrolls that may wait for training; 0: one batch", unit="unrolls",
                              low=0, high=100_000, source="SEED: V-trace 1, R2D2 100")
    echo_factor: int = setting(1, "updates that one batch may serve while the next is not ready", unit="updates",
                               low=1, high=100, live=True, group="learning", source="data echoing, arXiv 1907.05550")
    evaluation_envs_per_actor: int = setting(
        0, "environments of each actor, its last ones, that are not trained on, where R2D2 does not explore and other "
        "policies sample as in training; at least one trains", unit="environments", low=0, high=4095,
        source="SEED common_flags.py: num_eval_envs")
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
    adam_epsilon_form: str = setting("torch", "what ε is added to: the root of the corrected moment (torch), or of the "
                                     "uncorrected one (keras), where it counts more in the first 1/(1-β2) updates",
                                     choices=("torch", "keras"), source="Adam, arXiv 1412.6980, section 2: ε and ε̂")
    rmsprop_decay: float = setting(0.99, "RMSProp's decay", low=0.0, high=0.9999, source="IMPALA table G.1")
    rmsprop_momentum: float = setting(0.0, "RMSProp's momentum", low=0.0, high=0.9999, source="IMPALA table G.1")
    rmsprop_epsilon: float = setting(1.6e-4, "RMSProp's ε, beside the root", low=1e-12, high=1.0, scale="log",
                                     source="IMPALA table G.1: 0.01 in the root, for sums over 640 steps: √0.01/640")
    max_gradient_norm: float = setting(0.0, "global norm that gradients are clipped to; 0: not clipped", low=0.0,
                                       high=1e6, live=True, group="learning", scale="log")

    def __post_init__(self) -> None:
        validate(self)


@dataclass(frozen=True)
class EpochsConfig(LearningConfig):
    """Hyperparameters of training in rounds: a round's unrolls, shuffled in each of a few epochs, in minibatches."""

    trains_on = "epochs of minibatches"

    epochs: int = setting(4, "epochs that are made of each round of unrolls", unit="epochs", low=1, high=1000,
                          live=True, group="learning", source="PPO, arXiv 1707.06347, table 5: 3; CleanRL: 4")
    minibatches: int = setting(4, "minibatches of batch_size unrolls in an epoch", unit="minibatches", low=1,
                               high=4096, live=True, group="learning", source="PPO, arXiv 1707.06347, table 5; CleanRL")
    publish: str = setting("update", "when inference takes over new weights: after each update, or after each round, "
                           "so that fewer policies act in a round", choices=("update", "round"))
    echo_factor: int = with_default(LearningConfig, "echo_factor", 1, help="1: epochs take its place", high=1,
                                    live=False)


@dataclass(frozen=True)
class ReplayConfig(LearningConfig):
    """Hyperparameters of training from a replay, with or without priorities."""

    trains_on = "prioritized replay"

    replay_size: int = setting(0, "unrolls that the replay holds; 0: as many as replay_memory_gb holds, at most "
                               "100,000, planned when the run first starts", unit="unrolls", low=0,
                               high=10_000_000, source=f"{SEED_SCRIPT}: 100,000")
    replay_memory_gb: float = setting(0.0, "memory, or disk, that the replay may take; 0: half of what is free when "
                                      "the run starts", unit="GiB", low=0.0, high=1e6)
    replay_storage: str = setting("memory", "where unrolls are kept: in memory, or in a file of the run that is "
                                  "mapped into memory", choices=("memory", "disk"))
    replay_min_size: int = setting(5000, "unrolls in the replay before the first update (all that it holds, if that "
                                   "is less)", unit="unrolls", low=1, high=10_000_000, source=SEED_SCRIPT)
    replay_ratio: float = setting(0.75, "unrolls trained on per unroll that comes in, echoes not counted", low=1e-3,
                                  high=1000.0, live=True, group="learning", scale="log", source=SEED_SCRIPT)
    priority_exponent: float = setting(0.9, "power of a priority in sampling; 0: uniform", low=0.0, high=10.0,
                                       live=True, group="learning", source=SEED_R2D2)
    importance_exponent: float = setting(0.6, "power of the weights that correct for the sampling; 0: none", low=0.0,
                                         high=10.0, live=True, group="learning", source=SEED_R2D2)
    save_replay: bool = setting(False, "checkpoints hold the replay, so that a resumed run goes on with it; of the "
                                "automatic ones only the newest keeps it", live=True, group="system")


@dataclass(frozen=True)
class QLearningConfig(ReplayConfig):
    """Hyperparameters of `algorithms.q_learning.QLearning`: a replay, a target network, ε of each environment."""

    target_update_period: int = setting(2500, "updates between copies of the network into the target network",
                                        unit="updates", low=1, high=10_000_000,
                                        live=True, group="learning", scale="log", source=SEED_R2D2)
    exploration_base: float = setting(0.4, "base of the environments' ε: base^x, x even from the first power to the "
                                      "last", low=0.0, high=1.0,
                                      live=True, group="exploration", source="Horgan et al. 2018; SEED")
    exploration_first_power: float = setting(1.0, "power of the environment that explores most", low=0.0, high=100.0,
                                             live=True, group="exploration", source="Horgan et al. 2018; SEED")
    exploration_last_power: float = setting(8.0, "power of the environment that explores least", low=0.0, high=100.0,
                                            live=True, group="exploration", source="Horgan et al. 2018; SEED")
    evaluation_epsilon: float = setting(1e-3, "ε of environments that evaluate", low=0.0, high=1.0,
                                        live=True, group="exploration", source=SEED_R2D2)


@dataclass(frozen=True)
class DemonstrationsConfig(LearningConfig):
    """Hyperparameters of training on recorded episodes, which `wb.launch(demonstrations=...)` takes.

    A batch has `batch_size` unrolls of them, and then those of held-out episodes, whose `Batch.weight` is 0. The actors
    go on acting with the policy that learns, and show how good it is; their own unrolls are dropped. Frames and steps
    of a run are those of its actors; the metric `demonstration_epochs` counts what was trained on.
    """

    trains_on = "demonstrations"

    demonstration_ratio: float = setting(
        4.0, "steps of demonstrations that are trained on per step that the actors act, which shows how good the "
        "policy is; neither goes on without the other", low=1e-3, high=1e6, live=True, group="learning", scale="log",
        source="ours; as the replay ratio")
    validation_share: float = setting(0.1, "share of the demonstrations, whole episodes, that is not trained on: at "
                                      "least one, if there are two; 0: none", low=0.0, high=0.9)
    echo_factor: int = with_default(LearningConfig, "echo_factor", 1, help="1: demonstration_ratio takes its place",
                                    high=1, live=False)


@dataclass(frozen=True)
class BaselineFields:
    """Fields of an algorithm whose baseline is a state value, beside those of the class that says on what it trains."""

    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "value_mean": ("PopArt's running mean of the value targets; only with normalize_values", "reward"),
        "value_deviation": ("PopArt's running deviation of the value targets; only with normalize_values", "reward"),
        "return_deviation": ("running deviation of the discounted returns, by which rewards are divided; only with "
                             "normalize_rewards", "reward"),
    }

    normalize_values: bool = setting(
        False, "PopArt: the value head predicts returns of mean 0 and deviation 1; values that are shown or stored "
        "stay in the units of rewards", source="arXiv 1602.07714, 1809.04474; SEED policy_gradient/modules/popart.py")
    popart_step_size: float = setting(0.01, "share of the newest update in PopArt's mean and deviation", low=1e-6,
                                      high=1.0, live=True, group="loss", scale="log",
                                      source="SEED policy_gradient/modules/running_statistics.py")
    normalize_rewards: bool = setting(
        False, "rewards are divided by the running deviation of their discounted returns and clipped to ±10, before "
        "reward_scale and max_abs_reward; values are in these units too", source="OpenAI baselines, vec_normalize.py")


@dataclass(frozen=True)
class RegularizationFields:
    """Fields of an algorithm with an entropy_cost: what that and the cost of KL are adapted to."""

    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "entropy_loss": ("minus entropy_cost times the entropy, and what adapts that weight to target_entropy", ""),
        "entropy": ("entropy of the policy: ln A while A actions are equally likely, 0 once one is certain", "nats"),
        "entropy_cost": ("weight of the entropy bonus, which target_entropy adapts", ""),
        "kl_loss": ("kl_cost times KL(behaviour ‖ target); only with kl_cost or kl_cost_target", ""),
        "kl": ("KL(behaviour ‖ target) of an update; only with kl_cost_target", "nats"),
        "kl_cost": ("weight of KL(behaviour ‖ target), which kl_cost_target adapts; only with it", ""),
    }

    target_entropy: float | None = setting(None, "entropy that the weight is adapted to, negative where actions are "
                                           "numbers; None: fixed weight", unit="nats", low=-1000.0, high=1000.0,
                                           live=True, group="exploration", source=_SEED_VTRACE)
    entropy_cost_speed: float = setting(10.0, "speed at which the entropy weight adapts", low=0.0, high=1000.0,
                                        source=_SEED_VTRACE)
    kl_cost: float = setting(0.0, "weight of KL(behaviour ‖ target)", low=0.0, high=100.0, live=True, group="loss",
                             source=_SEED_VTRACE)
    kl_cost_target: float | None = setting(
        None, "KL(behaviour ‖ target) of an update that kl_cost is adapted to, from kl_cost on (from 1 if that is 0); "
        "None: fixed weight", unit="nats", low=0.0, high=100.0, live=True, group="loss", source=_SEED_CONSTRAINTS)
    kl_cost_speed: float = setting(10.0, "speed at which kl_cost adapts", low=0.0, high=1000.0,
                                   source=f"as that of entropy_cost; {_SEED_CONSTRAINTS}: 1")

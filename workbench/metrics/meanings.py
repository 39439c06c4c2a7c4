"""What each metric of a run means, its unit, and what one row of it is.

The metrics of every run are here. Those of an algorithm stand with its hyperparameters: `metrics` of its configuration
class, such as `VTraceConfig.metrics`. `docs/metrics.md` is made from both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.metrics.flights import STAGES

EPISODE = "an episode, when it ends"
SECOND = "a second"  # what happened in it, or the state at its end
UPDATES = "a second with updates: their mean"
SAMPLES = "a second with samples: their mean"
GROUPS = ("returns", "learning", "replay", "speed", "where the time goes", "an observation's life", "memory and load")


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        row: what one row of its series is.
        group: of GROUPS.
    """

    name: str
    help: str
    unit: str = ""
    row: str = SECOND
    group: str = "learning"

    @property
    def title(self) -> str:
        """The name and unit for people, such as "inference (ms)"."""
        words = self.name.replace("_", " ")
        return f"{words.removesuffix(f' {self.unit}')} ({self.unit})" if self.unit else words


def _returns() -> tuple[Metric, ...]:
    kinds = {"episode": "environments that train", "evaluation": "environments that evaluate"}
    metrics = []
    for prefix, whose in kinds.items():
        metrics += [
            Metric(f"{prefix}_return", f"sum of the rewards of one episode, {whose}; neither scaled nor clipped",
                   "reward", EPISODE, "returns"),
            Metric(f"{prefix}_return_mean", "mean return of the last 100 episodes or fewer (of one for each "
                   f"environment, if there are more), {whose}", "reward", SECOND, "returns"),
            Metric(f"{prefix}_score", f"score of one episode, {whose}; only where the environment reports a score "
                   "beside its rewards", "score", EPISODE, "returns"),
            Metric(f"{prefix}_score_mean", f"mean score of the same episodes, {whose}", "score", SECOND,
                   "returns"),
            Metric(f"{prefix}_length", f"length of one episode, {whose}", "steps", EPISODE, "returns"),
        ]
    return tuple(metrics)


_LEARNING = (
    Metric("learning_rate", "learning rate of the next update, after warm-up and schedule"),
    Metric("policy_lag_mean", "updates between the weights that chose an action and those that train on it, mean over "
           "the steps trained on", "updates", UPDATES),
    Metric("policy_lag_max", "the same, of the oldest step trained on", "updates", "a second with updates: the "
           "largest"),
    Metric("rounds_cut", "share of the rounds that ended before their last epoch, because the policy had moved by "
           "target_kl", "share", "a second in which a round ended"),
)
_DEMONSTRATIONS = (
    Metric("demonstration_epochs", "how often the demonstrations were trained on, since the run began; only with "
           "demonstrations", "epochs"),
)
_REPLAY = (
    Metric("replay_unrolls", "unrolls in the replay, of all learners together", "unrolls", SECOND, "replay"),
    Metric("replay_fill", "how full the replay is", "share", SECOND, "replay"),
    Metric("replay_gb", "memory or disk that the filled part of the replay takes", "GiB", SECOND, "replay"),
    Metric("replay_ratio", "unrolls trained on per unroll that came in, so far; echoes count",
           "uses per unroll", SECOND, "replay"),
    Metric("priority_mean", "mean priority of the unrolls in the replay", "", SECOND, "replay"),
    Metric("priority_max", "highest priority in the replay", "", SECOND, "replay"),
    Metric("sample_age_steps", "environment steps that came in between a sample's arrival and its use", "steps",
           SAMPLES, "replay"),
)
_SPEED = (
    Metric("frames_per_second", "emulator frames, action repeats counted, of all learners' actors", "frames/s",
           SECOND, "speed"),
    Metric("steps_per_second", "decisions of the agent", "steps/s", SECOND, "speed"),
    Metric("updates_per_second", "steps of the optimizer", "updates/s", SECOND, "speed"),
    Metric("batch_fill", "rows of an inference batch as a share of max_batch", "share",
           "a second with batches: their mean", "speed"),
    Metric("batch_uses", "updates that one training batch served; more than 1 only with echo_factor", "updates",
           UPDATES, "speed"),
    Metric("queue_occupancy", "finished unrolls that wait for training, as a share of the queue's places; 1: training "
           "is behind, and the actors wait", "share", SECOND, "speed"),
    Metric("batch_wait_ms", "time that a group's observations wait until their inference batch runs", "ms",
           "a second with batches: their mean", "speed"),
    Metric("inference_ms", "time of one inference batch: network, sampling, bookkeeping", "ms",
           "a second with batches: their mean", "speed"),
    Metric("update_ms", "time of one update: loss, gradients, optimizer; of an accelerator's, the host's part: it "
           "launches the update, and waits for those before it", "ms", UPDATES, "speed"),
)
_SHARES = {
    "environments": "share of the actors' time in which they step environments",
    "wire": "share of a group's time in which its messages travel, or wait while the actor steps another group",
    "batch_wait": "share of a group's time in which it waits for its inference batch to run",
    "inference": "share of the inference thread's time in which it works",
    "queue_blocked": "share of the inference thread's time in which a full queue stops it: training is the bottleneck",
    "training": "share of the training thread's time in which it computes updates, or launches those of an accelerator "
                "and waits for them",
    "training_wait": "share of the training thread's time in which it waits for unrolls",
}
_LOAD = (
    Metric("accelerator_memory_gb", "accelerator memory in use by the learners; 0 on a CPU", "GiB", SECOND,
           "memory and load"),
    Metric("learner_memory_gb", "resident memory of the learners' processes", "GiB", SECOND, "memory and load"),
    Metric("memory_gb", "memory in use on the leading learner's machine, by all programs", "GiB", SECOND,
           "memory and load"),
    Metric("cpu_percent", "load of all cores of the leading learner's machine", "%", SECOND, "memory and load"),
    Metric("xla_compilations", "graphs that XLA has compiled so far, of all learners together; only with an XLA device",
           "graphs", SECOND, "memory and load"),
    Metric("xla_recompilations", "graphs compiled after the first 10 updates of a learner's life, should be none; "
           "only with an XLA device", "graphs", SECOND, "memory and load"),
    Metric("xla_cached", "graphs that a former life of the run had compiled, and that were used; only with an XLA "
           "device", "graphs", SECOND, "memory and load"),
    Metric("xla_fallbacks", "operations so far that XLA lacks and the CPU computed; only with an XLA device",
           "operations", SECOND, "memory and load"),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in (
    *_returns(), *_LEARNING, *_DEMONSTRATIONS, *_REPLAY, *_SPEED,
    *(Metric(f"time_{name}", text, "share", SECOND, "where the time goes") for name, text in _SHARES.items()),
    *(Metric(f"life_{stage}_s", f"{kind.label}: {kind.meaning}", "s", "a second with followed observations: their mean",
             "an observation's life") for stage, kind in STAGES.items()),
    *_LOAD,
)}
HISTOGRAMS: dict[str, Metric] = {metric.name: metric for metric in (
    Metric("policy_lag", "policy lag of the steps trained on", "updates", "the newest second with updates"),
    Metric("priority", "priorities of the unrolls in the replay", "", "now", "replay"),
    Metric("sample_age", "age of the samples", "steps", "the newest second with samples", "replay"),
)}


SYNONYMS = {
    **dict.fromkeys(("reward", "return", "returns", "episodic_return", "charts/episodic_return"), "episode_return"),
    **dict.fromkeys(("ep_rew_mean", "rollout/ep_rew_mean"), "episode_return_mean"), "score": "episode_score",
    **dict.fromkeys(("fps", "time/fps"), "frames_per_second"),
    **dict.fromkeys(("sps", "charts/SPS"), "steps_per_second"),
    **dict.fromkeys(("lr", "train/learning_rate"), "learning_rate"),
    **dict.fromkeys(("value_loss", "vf_loss", "critic_loss", "train/value_loss", "losses/value_loss"), "baseline_loss"),
    **dict.fromkeys(("pg_loss", "actor_loss", "policy_gradient_loss", "losses/policy_loss"), "policy_loss"),
    **dict.fromkeys(("ep_len_mean", "rollout/ep_len_mean", "episodic_length"), "episode_length"),
    **dict.fromkeys(("approx_kl", "train/approx_kl", "losses/approx_kl"), "kl"), "clipfrac": "clip_fraction",
    **dict.fromkeys(("is_success", "success", "success_rate", "rollout/success_rate"), "episode_score_mean"),
}  # what people and other libraries call a metric


def metrics_of(config: type) -> dict[str, Metric]:
    """The metrics of an algorithm's loss by name; `config`: its configuration class, whose bases may describe some."""
    texts: dict[str, tuple[str, str]] = {}
    for each in reversed(config.__mro__):
        texts |= _declared(each)
    return {name: Metric(name, text, unit, UPDATES) for name, (text, unit) in texts.items()}


def _declared(config: type) -> Mapping[str, tuple[str, str]]:
    declared: Mapping[str, tuple[str, str]] = vars(config).get("metrics", {})
    return declared


def described(config: type) -> dict[str, Metric]:
    """All metrics that a run with that configuration class of an algorithm can have, by name."""
    return {**METRICS, **metrics_of(config)}

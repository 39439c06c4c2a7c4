"""Presets: default settings of runs by environment. Their sources stand beside the numbers.

A preset sets fields of the run and of its algorithm. Arguments of `launch` override it, and run.json records the
result. Many environments have no preset: the algorithm's own defaults apply, which are meant for Atari.

    wb.launch("football/academy_empty_goal_close")                          the environment's own, "football"
    wb.launch("football/11_vs_11_easy_stochastic", preset="seed-scoring")   a published set
    wb.launch("football/academy_empty_goal_close", preset="none")           only the algorithm's defaults
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import InvalidInput, UnknownName

NONE = "none"

_MUJOCO = ("Ant|HalfCheetah|Hopper|Humanoid|HumanoidStandup|InvertedDoublePendulum|InvertedPendulum|Pusher|Reacher|"
           "Swimmer|Walker2d")


@dataclass(frozen=True)
class Preset:
    """Fields for the environments whose names `fits` matches from their beginning.

    Attributes:
        title: its purpose, in words.
        source: where its numbers come from.
        run: fields of the run, for every algorithm.
        algorithms: more fields by algorithm.
        own: whether it is the default of its environments.
    """

    name: str
    fits: str
    title: str
    source: str
    run: Mapping[str, Any] = field(default_factory=dict)
    algorithms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    own: bool = False

    def fields(self, algorithm: str) -> dict[str, Any]:
        """Its fields for that algorithm, by flat names."""
        return {**self.run, **self.algorithms.get(algorithm, {})}


def _seed_football(name: str, title: str, **more: Any) -> Preset:
    """SEED's Adam has Keras' ε, no warm-up and no clipping; its losses are means, as ours."""
    rewards = more.pop("rewards")
    return Preset(
        name, "football/", title, "SEED RL (arXiv 1910.06591), its football scripts",
        run={"frame_stack": 4, "total_frames": 500_000_000, "environment_options": {"rewards": rewards}},
        algorithms={"vtrace": {
            "network": "football", "unroll_length": 32, "batch_size": 32, "discount": 0.997, "max_abs_reward": 0.0,
            "adam_beta1": 0.9, "adam_epsilon": 1e-7, "adam_epsilon_form": "keras", "warmup_updates": 0,
            "max_gradient_norm": 0.0, **more}},
    )


def _seed_dmlab(name: str, title: str, **more: Any) -> Preset:
    return Preset(
        name, "dmlab/", title, "SEED RL, dmlab scripts",
        run={"total_frames": 1_000_000_000},
        algorithms={"vtrace": {
            "network": "impala-deep-lstm", "unroll_length": 100, "batch_size": 32, "discount": 0.99,
            "max_abs_reward": 1.0, "adam_beta1": 0.0, "adam_epsilon_form": "keras",
            "learning_rate_schedule": "linear", "warmup_updates": 0, "max_gradient_norm": 0.0, **more}},
    )


# An environment's step takes less time than an answer: a second group would only wait, and cost a message more.
_LIGHT = {"groups_per_actor": 1}
# arXiv 1812.05905, table 1: single transitions, a batch of them for each step. An update takes longer than a step: more
# environments would only put off the end of each one's first episode.
_SAC = {"network": "mlp-256", "unroll_length": 1, "batch_size": 256, "replay_ratio": 256.0, "replay_size": 1_000_000,
        "actors": 1, "envs_per_actor": 8, **_LIGHT}

PRESETS = (
    Preset(
        "academy", "football/academy_", "a scenario of the academy in minutes on a few cores",
        "ours, measured on academy_empty_goal_close (benchmarks/results)",
        run={"total_frames": 20_000_000},
        algorithms={
            "vtrace": {"network": "nature", "unroll_length": 32, "batch_size": 16, "max_abs_reward": 0.0,
                       "lambda_": 0.95, "learning_rate": 3e-4, "entropy_cost": 3e-3},
            "r2d2": {"network": "nature-lstm"},
        },
        own=True,
    ),
    Preset(
        "football", "football/", "a whole match",
        "network and unroll: SEED RL; the rest between SEED's two sets and IMPALA's, for fewer frames",
        run={"frame_stack": 4, "total_frames": 200_000_000},
        algorithms={
            "vtrace": {"network": "football", "unroll_length": 32, "discount": 0.993, "max_abs_reward": 0.0,
                       "lambda_": 0.95, "learning_rate": 2e-4, "entropy_cost": 1e-3},
            "r2d2": {"network": "football-lstm"},
        },
        own=True,
    ),
    _seed_football("seed-scoring", "goals alone, 500 M frames", rewards="scoring", lambda_=0.9, learning_rate=5.534e-5,
                   entropy_cost=3.195e-5),
    _seed_football("seed-checkpoints", "goals and checkpoints on the way there, 500 M frames",
                   rewards="scoring,checkpoints", lambda_=1.0, learning_rate=1.254e-4, entropy_cost=7.331e-4),
    Preset(
        "vizdoom", "vizdoom/", "first-person, with memory",
        "network, rewards' clip and discount: IMPALA (arXiv 1802.01561) and SEED RL on DMLab; the rest ours",
        run={"total_frames": 20_000_000},
        algorithms={
            "vtrace": {"network": "impala-deep-lstm", "unroll_length": 32, "discount": 0.99, "max_abs_reward": 1.0,
                       "learning_rate": 2e-4, "entropy_cost": 3e-3},
            "r2d2": {"network": "impala-deep-lstm"},
        },
        own=True,
    ),
    Preset(
        "dmlab", "dmlab/", "first-person, with memory",
        "SEED RL, dmlab scripts (explore_goal_locations_small), gradients clipped as elsewhere here",
        run={"total_frames": 1_000_000_000},
        algorithms={
            "vtrace": {"network": "impala-deep-lstm", "unroll_length": 100, "discount": 0.99, "max_abs_reward": 1.0,
                       "lambda_": 0.95, "learning_rate": 2.259e-4, "entropy_cost": 9.706e-4,
                       "learning_rate_schedule": "linear"},
            "r2d2": {"network": "impala-deep-lstm"},
        },
        own=True,
    ),
    _seed_dmlab("seed-explore-goal", "explore_goal_locations_small", lambda_=0.95, learning_rate=2.259e-4,
                entropy_cost=9.706e-4, adam_epsilon=3.125e-9),
    _seed_dmlab("seed-keys-doors", "the keys and doors puzzle", lambda_=0.922, learning_rate=1e-4, entropy_cost=2e-3,
                adam_epsilon=3.125e-11),
    _seed_dmlab("seed-watermaze", "the water maze", lambda_=0.99, learning_rate=1e-4, entropy_cost=1e-5,
                adam_epsilon=3.125e-7),
    Preset(
        "atari", r"(?:ALE/|\w+NoFrameskip-v)", "Atari, where an algorithm's own defaults are not meant for it",
        "PPO: arXiv 1707.06347, table 5, whose clip is annealed as well; rewards clipped as in Mnih et al. 2015",
        algorithms={"ppo": {"clip": 0.1, "max_abs_reward": 1.0, "learning_rate_schedule": "linear"}},
        own=True,
    ),
    Preset(
        "atari-few-cores", r"(?:ALE/|\w+NoFrameskip-v)", "Atari within 30 M frames on a few cores, no sticky actions",
        "ours, measured on Pong (benchmarks/results): small batches, since frames are few; a rate that falls to 0",
        run={"environment_options": {"repeat_action_probability": 0.0}, "actors": 2, "envs_per_actor": 8,
             "total_frames": 30_000_000},
        algorithms={
            "vtrace": {"batch_size": 4, "learning_rate": 5e-4, "learning_rate_schedule": "linear",
                       "entropy_cost": 3e-3},
            # The published settings want a GPU: 64 unrolls of 120 steps an update. One of these has a sixteenth.
            "r2d2": {"unroll_length": 20, "burn_in": 10, "batch_size": 16, "learning_rate": 3e-4,
                     "adam_epsilon": 1.5e-4, "discount": 0.99, "target_update_period": 200, "replay_ratio": 4.0,
                     "replay_size": 20_000, "replay_min_size": 500, "lstm_size": 256, "dueling_size": 256},
            "ppo": {"clip": 0.1, "max_abs_reward": 1.0, "learning_rate_schedule": "linear"},
        },
    ),
    Preset(
        "mujoco", rf"(?:{_MUJOCO})-v\d+$", "locomotion with continuous actions",
        "V-trace: normalised observations, discount and λ of arXiv 2006.05990, the rest ours, measured on "
        "HalfCheetah-v5; PPO: arXiv 1707.06347, table 3, in minibatches of 256 steps; SAC: arXiv "
        "1812.05905, table 1: its network, and an update of 256 single steps for each step, from 5,000 on and the "
        "critics at 1e-3, as CleanRL's, measured on HalfCheetah-v5",
        run={"total_frames": 10_000_000},
        algorithms={
            "vtrace": {"network": "mlp", "normalize_observations": True, "reward_scale": 0.1, "unroll_length": 32,
                       "discount": 0.99, "lambda_": 0.95, "max_abs_reward": 0.0, "learning_rate": 3e-4,
                       "learning_rate_schedule": "linear", "entropy_cost": 1e-3},
            "ppo": {"network": "mlp", "normalize_observations": True, "reward_scale": 0.1, "unroll_length": 64,
                    "batch_size": 4, "minibatches": 8, "epochs": 10, "max_abs_reward": 0.0, "learning_rate": 3e-4,
                    "learning_rate_schedule": "linear", "entropy_cost": 0.0},
            "sac": {**_SAC, "replay_min_size": 5000, "critic_rate_factor": 3.33},
        },
        own=True,
    ),
    Preset(
        "classic", r"(?:Acrobot|CartPole|MountainCar)-v\d+$", "classic control with choices, in 50,000 steps",
        "ours, measured on CartPole-v1 in 50,000 steps (benchmarks/results/algorithms.md)",
        algorithms={
            "vtrace": {"batch_size": 8, "warmup_updates": 0, "learning_rate": 2e-3, **_LIGHT},
            "ppo": {"learning_rate": 1e-3, "epochs": 10, **_LIGHT},
            "vmpo": {"unroll_length": 32, "batch_size": 8, "epochs": 10, "minibatches": 4, "learning_rate": 1e-3,
                     "multiplier_rate_factor": 30.0, **_LIGHT},
            "awr": {"learning_rate": 1e-3, **_LIGHT},
            "sac": {"learning_rate": 1e-3, **_LIGHT},
            "r2d2": {"unroll_length": 20, "burn_in": 5, "batch_size": 16, "replay_min_size": 50, "replay_ratio": 4.0,
                     "target_update_period": 100, "lstm_size": 128, "dueling_size": 128, "learning_rate": 1e-3,
                     "discount": 0.99, **_LIGHT},
        },
        own=True,
    ),
    Preset(
        "classic-continuous", r"(?:MountainCarContinuous|Pendulum)-v\d+$", "classic control with numbers as actions",
        "SAC: its network, and an update of 256 single steps for each step, arXiv 1812.05905, table 1; the rest ours, "
        "measured on Pendulum-v1 (benchmarks/results/algorithms.md)",
        algorithms={
            "ppo": {"learning_rate": 1e-3, "epochs": 10, "normalize_rewards": True, **_LIGHT},
            "sac": {**_SAC, "replay_min_size": 256},
        },
        own=True,
    ),
    Preset(
        "minigrid", "(?:MiniGrid|BabyAI)-", "a small view and few rewards, with memory",
        "V-trace: IMPALA's, but rewards are not clipped; R2D2: ours, measured on MiniGrid-MemoryS7-v0",
        run={"total_frames": 10_000_000},
        algorithms={
            "vtrace": {"network": "small-cnn-lstm", "unroll_length": 32, "discount": 0.99, "max_abs_reward": 0.0,
                       "learning_rate": 6e-4, "entropy_cost": 0.01},
            "r2d2": {"network": "small-cnn-lstm", "lstm_size": 128, "dueling_size": 128, "unroll_length": 40,
                     "burn_in": 10, "batch_size": 32, "replay_ratio": 3.0, "replay_min_size": 500,
                     "target_update_period": 400, "learning_rate": 5e-4, "discount": 0.97, "value_rescaling": False},
        },
        own=True,
    ),
)


def presets_of(environment: str) -> tuple[Preset, ...]:
    """The presets for an environment of that name, its default first; () if there are none."""
    bare = environment.rpartition(":")[2]
    fitting = (preset for preset in PRESETS if re.match(preset.fits, bare))
    return tuple(sorted(fitting, key=lambda preset: not preset.own))


def preset_of(environment: str, name: str | None, *, algorithm: str) -> Preset | None:
    """The preset of that name, or the environment's default; None if that has nothing for it, or if `name` is "none".

    Raises UnknownName for a preset of other environments, and InvalidInput for one of another algorithm.
    """
    fitting = presets_of(environment)
    if name is None:
        return next((preset for preset in fitting if preset.own and preset.fields(algorithm)), None)
    if name == NONE:
        return None
    by_name = {preset.name: preset for preset in fitting}
    if name not in by_name:
        raise UnknownName.among(f"preset of {environment}", str(name), [*by_name, NONE])
    if algorithm not in by_name[name].algorithms:
        other = repr(algorithm) if algorithm else "one of your own that derives from none of them. Give the fields"
        raise InvalidInput(f"preset={name!r} is for {', '.join(by_name[name].algorithms)}, not for {other}.")
    return by_name[name]


def with_preset(
    preset: Preset | None, fields: Mapping[str, Any], *, algorithm: str, wrapped: bool = False
) -> dict[str, Any]:
    """The preset's fields, overridden by `fields`; options of the environment are merged one by one.

    A preset's network is for the environment's own observations. Where wrappers or football's `representation` change
    those, the preset's network is left out, and the observations decide which network is used.
    """
    if preset is None:
        return dict(fields)
    defaults = preset.fields(algorithm)
    options = {**defaults.get("environment_options", {}), **(fields.get("environment_options") or {})}
    if wrapped or options.get("representation", "extracted") != "extracted":
        defaults.pop("network", None)
    if type(learners := fields.get("learners")) is int and learners > defaults.get("actors", learners):
        del defaults["actors"]  # each learner needs one of its own
    return {**defaults, **fields, "environment_options": options}

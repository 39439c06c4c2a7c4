"""RLlib's IMPALA (new API stack) on Pong.

Counter: `learners/__all_modules__/num_env_steps_trained_lifetime` of `Algorithm.train`'s results, times 20 / 21: RLlib
counts the step that bootstraps an unroll's last value as well (672 for an update of 640).
Setting: runners (0: the main process steps the environments), environments (of each runner), threads (of the learner),
mode ("sync" or "async": how a runner steps its environments), aggregators, wait_s (for runners, in a training step: 0
polls) and wrappers: "rllib" (its own for Atari, which shrink every raw frame and give float32) or "gymnasium"
(AtariPreprocessing, which does the same with less work and gives bytes).
No command line: measure_one.py has it.
"""

from __future__ import annotations

import logging
import tempfile
from importlib.metadata import version
from typing import Any

import ale_py
import gymnasium
import ray
import torch
from measuring import ENVIRONMENT, UNROLL, UPDATE, Meter
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.wrappers.atari_wrappers import wrap_atari_for_new_api_stack
from ray.tune.registry import register_env
from torch import Tensor, nn

TRAINED = "num_env_steps_trained_lifetime"


def make(config: dict[str, Any]) -> gymnasium.Env:
    """Pong with four stacked frames: float32 [84, 84, 4] from RLlib's wrappers, else uint8 [4, 84, 84]."""
    gymnasium.register_envs(ale_py)
    env = gymnasium.make(ENVIRONMENT, frameskip=1)  # the wrappers skip
    if config["wrappers"] == "rllib":
        return wrap_atari_for_new_api_stack(env, dim=84, framestack=4)
    return gymnasium.wrappers.FrameStackObservation(gymnasium.wrappers.AtariPreprocessing(env, frame_skip=4), 4)


class Network(TorchRLModule, ValueFunctionAPI):
    """Mnih et al.'s network (2015), whose dense layer policy and value share; RLlib's default gives each its own."""

    def setup(self) -> None:
        self.torso = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU())
        self.policy, self.value = nn.Linear(512, self.action_space.n), nn.Linear(512, 1)

    def features(self, observation: Tensor) -> Tensor:
        whole = observation.dtype == torch.uint8
        return self.torso(observation / 255.0 if whole else observation.permute(0, 3, 1, 2))

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Tensor]:
        features = self.features(batch[Columns.OBS])
        return {Columns.EMBEDDINGS: features, Columns.ACTION_DIST_INPUTS: self.policy(features)}

    def _forward_inference(self, batch: dict[str, Any], **_: Any) -> dict[str, Tensor]:
        return {Columns.ACTION_DIST_INPUTS: self.policy(self.features(batch[Columns.OBS]))}

    _forward_exploration = _forward_inference

    def compute_values(self, batch: dict[str, Any], embeddings: Tensor | None = None) -> Tensor:
        return self.value(self.features(batch[Columns.OBS]) if embeddings is None else embeddings).squeeze(-1)


def configured(setting: dict[str, Any]) -> IMPALAConfig:
    return (
        IMPALAConfig()
        .environment("pong", env_config={"wrappers": setting["wrappers"]}, clip_rewards=True)
        .env_runners(num_env_runners=setting["runners"], num_envs_per_env_runner=setting["environments"],
                     rollout_fragment_length=UNROLL, gym_env_vectorize_mode=setting["mode"])
        .learners(num_learners=0, num_aggregator_actors_per_learner=setting["aggregators"])
        .training(train_batch_size_per_learner=UPDATE, lr=6e-4, entropy_coeff=0.01, grad_clip=0.5,
                  timeout_s_sampler_manager=setting["wait_s"])
        .rl_module(rl_module_spec=RLModuleSpec(module_class=Network))
        .reporting(min_time_s_per_iteration=0, min_train_timesteps_per_iteration=0)
    )


def measure(meter: Meter, setting: dict[str, Any]) -> dict[str, Any]:
    register_env("pong", make)
    torch.set_num_threads(setting["threads"])
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        ray.init(num_cpus=8, object_store_memory=10**9, include_dashboard=False, _temp_dir=folder,
                 logging_level=logging.ERROR, log_to_driver=False)
        try:
            algorithm = configured(setting).build_algo()
            while not meter.see(trained_steps(algorithm.train())):
                pass
        finally:
            ray.shutdown()
    return {"counter": f"learners/__all_modules__/{TRAINED} x 20 / 21 (it counts bootstraps as well)",
            "version": version("ray")}


def trained_steps(result: dict[str, Any]) -> int:
    counted = result.get("learners", {}).get("__all_modules__", {}).get(TRAINED, 0)
    return round(counted * UNROLL / (UNROLL + 1))

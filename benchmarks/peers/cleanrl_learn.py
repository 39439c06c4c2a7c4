"""Learning runs of CleanRL's scripts, in their own environment. No command line: ../algorithms.py calls `main` there.

Reads what is asked as JSON from the first argument, and prints a line of JSON, as stable_baselines_learn.py does. The
package on PyPI is of 2021 and wants the gym of then: a module of that name gives it Gymnasium's environments, of the
version that all others have. Its scripts are run as they are, with their defaults.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
import tempfile
import time
import types
from collections.abc import Callable
from typing import Any

from greedy_episodes import greedy_returns

SCRIPTS = {("PPO", False): "ppo", ("PPO", True): "ppo_continuous_action", ("SAC", True): "sac_continuous_action"}


def main() -> None:
    asked = json.loads(sys.argv[1])
    import gymnasium
    import torch
    from stable_baselines3.common import vec_env

    torch.set_num_threads(asked["threads"])
    continuous = isinstance(gymnasium.make(asked["environment"]).action_space, gymnasium.spaces.Box)
    script = SCRIPTS[asked["algorithm"], continuous]
    returns: list[float] = []
    curve: list[list[float]] = []
    steps = 0

    class Wrapper(gymnasium.Wrapper):
        """The wrapper of then, which scripts derive from."""

        def seed(self, seed: int) -> None:
            self.env.seed(seed)

    class Counted(gymnasium.Wrapper):
        """Records the curve; with `seed`, and with the four values of then, which scripts for numbers expect."""

        def seed(self, seed: int) -> None:
            super().reset(seed=seed)

        def reset(self, **given: Any) -> Any:
            self.sum = 0.0
            observation, info = super().reset(**given)
            return observation if continuous else (observation, info)

        def step(self, action: Any) -> Any:
            nonlocal steps
            observation, reward, terminated, truncated, info = super().step(action)
            self.sum, steps = self.sum + float(reward), steps + 1
            if terminated or truncated:
                returns.append(self.sum)
            if returns and steps % 1000 == 0:
                curve.append([steps, sum(returns[-100:]) / len(returns[-100:])])
            if continuous:
                return observation, reward, terminated or truncated, info
            return observation, reward, terminated, truncated, info

    class Statistics(Wrapper, gymnasium.wrappers.RecordEpisodeStatistics):
        pass

    class OfNow(gymnasium.Wrapper):
        """Has five values again, for Stable-Baselines3's vector of environments."""

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return self.env.reset(), {}

        def step(self, action: Any) -> Any:
            observation, reward, ended, info = self.env.step(action)
            return observation, reward.item(), ended, False, info  # normalised, it is an array of one

    class Vector(vec_env.DummyVecEnv):
        def __init__(self, makers: list[Callable[[], Any]]) -> None:
            super().__init__([lambda make=make: OfNow(make()) for make in makers])

    gym = types.ModuleType("gym")
    gym.make = lambda name: Counted(gymnasium.make(name))
    gym.core, gym.Wrapper = types.SimpleNamespace(Wrapper=Wrapper), Wrapper
    gym.spaces, gym.wrappers = gymnasium.spaces, types.ModuleType("gym.wrappers")
    gym.wrappers.TimeLimit, gym.wrappers.Monitor = gymnasium.wrappers.TimeLimit, None  # the latter films
    gym.wrappers.RecordEpisodeStatistics = Wrapper if continuous else Statistics
    if continuous:
        vec_env.DummyVecEnv = Vector  # type: ignore[misc]
    sys.modules.update({"gym": gym, "gym.spaces": gym.spaces, "gym.wrappers": gym.wrappers,
                        "pybullet_envs": types.ModuleType("pybullet_envs")})
    sys.argv = [script, "--gym-id", asked["environment"], "--seed", str(asked["seed"] + 1),  # its seed 0 is the clock
                "--total-timesteps", str(asked["frames"]), "--cuda", "False", "--capture-video", "False"]
    began, before = time.perf_counter(), os.getcwd()
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        os.chdir(folder)
        made = runpy.run_module(f"cleanrl.{script}", run_name="__main__")
        os.chdir(before)
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "curve": curve, "returns": greedy_returns(asked, policy_of(made))}))


def policy_of(made: dict[str, Any]) -> Callable[[Any], Any]:
    """The policy that a script left behind: its likeliest choice, or its mean."""
    import numpy as np
    import torch

    @torch.no_grad()
    def act(observation: Any) -> Any:
        if "RunningMeanStd" in made:
            space, normalized = made["envs"].action_space, made["envs"].venv.envs[0].env
            moments = normalized.ob_rms
            scaled = np.clip((observation - moments.mean) / np.sqrt(moments.var + normalized.epsilon),
                             -normalized.clipob, normalized.clipob)
            mean = made["agent"].actor_mean(torch.from_numpy(scaled).float()[None])[0].numpy()
            return np.clip(mean, space.low, space.high)
        if "agent" in made:
            return made["agent"].actor(torch.from_numpy(observation).float()[None]).argmax(-1).item()
        return made["pg"].get_action(np.array([observation]), "cpu")[2][0].numpy()

    return act

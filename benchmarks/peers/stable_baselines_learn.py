"""Learning runs of Stable-Baselines3, in its own environment. No command line: ../algorithms.py calls `main` there.

Reads what is asked as JSON from the first argument. Prints a line of JSON: seconds of training, the curve [[frames,
mean return of the last 100 episodes], ...], and the returns of greedy episodes.
"""

from __future__ import annotations

import json
import sys
import time

from greedy_episodes import greedy_returns


def main() -> None:
    asked = json.loads(sys.argv[1])
    import stable_baselines3
    import torch
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(asked["threads"])

    class Curve(BaseCallback):
        """The mean return of the last 100 episodes, each thousand frames."""

        rows: list[list[float]]

        def _on_training_start(self) -> None:
            self.rows = []

        def _on_step(self) -> bool:
            last = self.rows[-1][0] if self.rows else 0
            if self.num_timesteps // 1000 > last // 1000 and self.model.ep_info_buffer:
                returns = [one["r"] for one in self.model.ep_info_buffer]
                self.rows.append([self.num_timesteps, sum(returns) / len(returns)])
            return True

    environments = make_vec_env(asked["environment"], n_envs=asked["environments"], seed=asked["seed"])
    kind = getattr(stable_baselines3, asked["algorithm"])
    model = kind("MlpPolicy", environments, seed=asked["seed"], device="cpu")
    curve, began = Curve(), time.perf_counter()
    model.learn(asked["frames"], callback=curve)
    seconds = time.perf_counter() - began
    returns = greedy_returns(asked, lambda observation: model.predict(observation, deterministic=True)[0])
    print(json.dumps({"seconds": seconds, "curve": curve.rows, "returns": returns}))

"""An environment that is nothing but its rewards."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import gymnasium
import numpy as np


class Rewarding(gymnasium.Env):
    """Nothing to see and nothing to decide; `reward` of each step, and an end after `length` of them (0: never)."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    length: ClassVar[int] = 50
    step_s: ClassVar[float] = 0.001  # of waiting: the processor is for others, too

    def __init__(self) -> None:
        self.steps = 0  # of all episodes

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> Any:
        self.steps += 1
        time.sleep(self.step_s)
        over = self.length > 0 and self.steps % self.length == 0
        return np.zeros(2, np.float32), self.reward(), False, over, {}

    def reward(self) -> float:
        raise NotImplementedError

"""A single-process loop in plain PyTorch, as CleanRL's files have it: act for an unroll, then learn from it, in turn.

A2C with GAE on ale-py's vector environment, one update for each unroll of all environments.
Counter: steps of the updates that the loop has done.
Setting: threads (of torch), environment_threads (of ale-py), precision ("fp32" or "bf16": autocast, channels last).
No command line: measure_one.py has it.
"""

from __future__ import annotations

from contextlib import nullcontext
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from ale_py.vector_env import AtariVectorEnv
from measuring import ENVIRONMENTS, GAME, STICKY, UNROLL, UPDATE, Meter
from torch import Tensor, nn

DISCOUNT, GAE_LAMBDA = 0.99, 0.95
VALUE_COST, ENTROPY_COST, GRADIENT_NORM = 0.5, 0.01, 0.5


class Agent(nn.Module):
    """Mnih et al.'s network (2015) with a policy and a value."""

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.torso = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU())
        self.policy, self.value = nn.Linear(512, actions), nn.Linear(512, 1)

    def forward(self, observation: Tensor) -> tuple[torch.distributions.Categorical, Tensor]:
        """Policy and values [N] of uint8 observations [N, 4, 84, 84]."""
        features = self.torso(observation / 255.0).float()
        return torch.distributions.Categorical(logits=self.policy(features).float()), self.value(features)[:, 0].float()


def advantages(rewards: Tensor, values: Tensor, ended: Tensor, last_value: Tensor) -> Tensor:
    """GAE (arXiv 1506.02438, equation 16) [T, B]; `ended` [T, B] is 1 where the step ended its episode."""
    result, following, next_value = torch.zeros_like(rewards), torch.zeros_like(last_value), last_value
    for t in reversed(range(len(rewards))):
        goes_on = DISCOUNT * (1 - ended[t])
        delta = rewards[t] + goes_on * next_value - values[t]
        result[t] = following = delta + goes_on * GAE_LAMBDA * following
        next_value = values[t]
    return result


def measure(meter: Meter, setting: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(setting["threads"])
    torch.manual_seed(0)
    envs = AtariVectorEnv(GAME, ENVIRONMENTS, num_threads=setting["environment_threads"], autoreset_mode="SameStep",
                          repeat_action_probability=STICKY, reward_clipping=True)
    agent, low = Agent(int(envs.single_action_space.n)), setting["precision"] == "bf16"
    if low:
        agent.torso.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(agent.parameters(), lr=6e-4, eps=1e-5)
    seen = torch.zeros(UNROLL, ENVIRONMENTS, 4, 84, 84, dtype=torch.uint8)
    actions = torch.zeros(UNROLL, ENVIRONMENTS, dtype=torch.int64)
    values, rewards, ended = (torch.zeros(UNROLL, ENVIRONMENTS) for _ in range(3))
    observation = torch.from_numpy(envs.reset(seed=np.arange(ENVIRONMENTS))[0])
    updates = 0

    def precision() -> Any:
        return torch.autocast("cpu", torch.bfloat16) if low else nullcontext()

    def prepared(images: Tensor) -> Tensor:
        return images.contiguous(memory_format=torch.channels_last) if low else images

    while not meter.see(updates * UPDATE):
        with torch.inference_mode(), precision():
            for t in range(UNROLL):
                seen[t] = observation
                policy, values[t] = agent(prepared(observation))
                actions[t] = policy.sample()
                screen, reward, terminated, truncated, _ = envs.step(actions[t].numpy())
                observation = torch.from_numpy(screen)
                rewards[t], ended[t] = torch.from_numpy(reward), torch.from_numpy(terminated | truncated)
            _, last_value = agent(prepared(observation))
        advantage = advantages(rewards, values, ended, last_value.clone())
        targets = (advantage + values).flatten()
        with precision():
            policy, value = agent(prepared(seen.flatten(0, 1)))
        normal = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy_loss = -(normal.flatten() * policy.log_prob(actions.flatten())).mean()
        value_loss = 0.5 * (value - targets).square().mean()
        loss = policy_loss + VALUE_COST * value_loss - ENTROPY_COST * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), GRADIENT_NORM)
        optimizer.step()
        updates += 1
    return {"counter": "steps of the updates that the loop has done", "version": version("torch")}

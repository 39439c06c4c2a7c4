"""R2D2 transcribed from the papers into Python's floats, one row and one step at a time, and networks for it to run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from workbench.algorithms import Batch, QValueOutput
from workbench.algorithms.r2d2.config import R2D2Config
from workbench.environment_spec import EnvironmentSpec
from workbench.trajectory import Flags

ACTIONS = 3
SIZE = 4  # units of a state
SPEC = EnvironmentSpec("test", (2,), "float32", ACTIONS, frame_stack=2)
State = tuple[Tensor, ...]


class Recurrent(nn.Module):
    """s_t = keep·s_{t-1} + x_t·W + e[a_{t-1}] + r_t·u, with no past where an episode starts; Q(x_t) = s_t·V."""

    def __init__(self, seed: int, *, memory: bool = True) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, generator=generator))

        self.memory = memory
        self.keep = nn.Parameter(torch.full((SIZE,), 0.9))
        self.observed, self.acted, self.rewarded = normal(4, SIZE), normal(ACTIONS, SIZE), normal(SIZE)
        self.values = normal(SIZE, ACTIONS)

    def initial_state(self, batch: int) -> State:
        return (torch.zeros(batch, SIZE),) if self.memory else ()

    def forward(
        self, observation: Tensor, previous_action: Tensor, reward: Tensor, start: Tensor, state: State
    ) -> tuple[QValueOutput, State]:
        states, seen = [], observation / 255 @ self.observed
        past = self.acted[previous_action] + reward.unsqueeze(-1) * self.rewarded
        inputs = seen + past.masked_fill(start.unsqueeze(-1), 0.0)
        if not self.memory:
            return QValueOutput(inputs @ self.values), ()
        (hidden,) = state
        for t in range(len(start)):
            hidden = self.keep * hidden.masked_fill(start[t].unsqueeze(-1), 0.0) + inputs[t]
            states.append(hidden)
        return QValueOutput(torch.stack(states) @ self.values), (hidden,)


class Counting(nn.Module):
    """Its state counts the observations of the episode, in steps of `gain`; every Q-value is that count."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(()))
        self.counted: list[Tensor] = []
        self.with_gradient: list[bool] = []

    def initial_state(self, batch: int) -> State:
        return (torch.zeros(batch, 1),)

    def forward(
        self, observation: Tensor, previous_action: Tensor, reward: Tensor, start: Tensor, state: State
    ) -> tuple[QValueOutput, State]:
        (count,) = state
        for t in range(len(start)):
            count = count.masked_fill(start[t].unsqueeze(-1), 0.0) + self.gain
            self.counted.append(count[:, 0])
            self.with_gradient.append(torch.is_grad_enabled())
        values = torch.stack(self.counted[-len(start) :])
        return QValueOutput(values.unsqueeze(-1).expand(*start.shape, ACTIONS)), (count,)


def slow_h(x: float, epsilon: float) -> float:
    """Pohlen et al., proposition A.2 (i)."""
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + epsilon * x


def slow_inverse(x: float, epsilon: float) -> float:
    """Pohlen et al., proposition A.2 (iii)."""
    root = (math.sqrt(1 + 4 * epsilon * (abs(x) + 1 + epsilon)) - 1) / (2 * epsilon)
    return math.copysign(root**2 - 1, x)


def slow_n_step_target(
    values: list[float], rewards: list[float], flags: list[Flags], bootstraps: list[float], *, t: int, n: int,
    discount: float,
) -> float:
    """The n-step return from x_t. Rewards, flags and bootstraps are of the transitions out of x_0, x_1, …"""
    total = 0.0
    steps = min(n, len(rewards) - t)
    for k in range(steps):
        total += discount**k * rewards[t + k]
        if flags[t + k] & (Flags.TERMINATED | Flags.LIFE_LOST):
            return total
        if flags[t + k] & Flags.TRUNCATED:
            return total + discount ** (k + 1) * bootstraps[t + k]
    return total + discount**steps * values[t + steps]


def slow_run(network: Recurrent, batch: Batch, b: int, config: R2D2Config) -> Iterator[tuple[Tensor, Tensor]]:
    """(state before step t, Q-values of x_t) of row b, in float64, t = 0 …; no gradient before the burn-in's end."""
    frames = [frame.double() for frame in batch.stack_prefix[b]]
    state = torch.zeros(SIZE, dtype=torch.float64)
    if batch.initial_state and config.recurrent_state != "zero":
        state = batch.initial_state[0][b].double()
    for t in range(len(batch.reward)):
        weights = {name: value.double() for name, value in network.named_parameters()}
        if t < config.burn_in:
            weights = {name: value.detach() for name, value in weights.items()}
        start = bool(int(batch.flags[t, b]) & Flags.START)
        before = state
        if start:
            frames, state = [torch.zeros_like(frame) for frame in frames], torch.zeros_like(state)
        frames.append(batch.observation[t, b].double())
        state = weights["keep"] * state if network.memory else torch.zeros_like(state)
        state = state + torch.cat(frames[-2:]) / 255 @ weights["observed"]
        if not start:
            state = state + weights["acted"][int(batch.previous_action[t, b])]
            state = state + float(batch.reward[t, b]) * weights["rewarded"]
        yield before, state @ weights["values"]


def slow_bootstrap(online: Recurrent, target: Recurrent, batch: Batch, t: int, b: int, config: R2D2Config) -> float:
    """What a truncated transition of row b into x_t bootstraps from, rescaled like the networks' values: the stored
    value, or where the final observation is there, both networks' values of an episode that goes on to it."""
    if batch.final_step is None or t not in batch.final_step[b].tolist():
        return float(batch.bootstrap_value[t, b])
    goes_on = batch.map(lambda tensor: tensor.clone())
    goes_on.observation[t, b] = batch.final_observation[b, batch.final_step[b].tolist().index(t)]
    goes_on.previous_action[t, b] = batch.action[t - 1, b]
    goes_on.flags[t, b] = 0
    said_online, said_target = ([q for _, q in slow_run(each, goes_on, b, config)][t] for each in (online, target))
    return said_target[int(said_online.argmax())].item()


@dataclasses.dataclass
class SlowLoss:
    total: Tensor
    errors: list[list[float]]  # |δ| by row and step
    priorities: list[float]
    mean_value: float  # of Q(x_t, a_t), in units of return


def slow_loss(online: Recurrent, target: Recurrent, batch: Batch, config: R2D2Config) -> SlowLoss:
    """R2D2's loss, term by term."""
    epsilon, rows = config.value_rescaling_epsilon, len(batch.weight)

    def h(x: float) -> float:
        return slow_h(x, epsilon) if config.value_rescaling else x

    def inverse(x: float) -> float:
        return slow_inverse(x, epsilon) if config.value_rescaling else x

    result = SlowLoss(torch.zeros((), dtype=torch.float64), [], [], 0.0)
    taken_values = []
    for b in range(rows):
        online_q = [q for _, q in slow_run(online, batch, b, config)][config.burn_in :]
        target_q = [q.tolist() for _, q in slow_run(target, batch, b, config)][config.burn_in :]
        steps = range(config.burn_in + 1, len(batch.reward))  # what belongs to the transitions out of trained steps
        values = []
        for said_online, said_target in zip(online_q, target_q, strict=True):
            best = max(range(ACTIONS), key=lambda action, q=said_online: q[action].item())
            values.append(inverse(said_target[best]))
        rewards, bound = [config.reward_scale * float(batch.reward[t, b]) for t in steps], config.max_abs_reward
        rewards = [max(-bound, min(bound, reward)) if bound else reward for reward in rewards]
        flags = [Flags(int(batch.flags[t, b])) for t in steps]
        bootstraps = [inverse(slow_bootstrap(online, target, batch, t, b, config)) for t in steps]
        errors = []
        for t in range(len(rewards)):
            expected_return = slow_n_step_target(
                values, rewards, flags, bootstraps, t=t, n=config.n_steps, discount=config.discount
            )
            taken = online_q[t][int(batch.action[config.burn_in + t, b])]
            error = h(expected_return) - taken
            result.total = result.total + float(batch.weight[b]) * 0.5 * error**2 / rows
            errors.append(abs(error.item()))
            taken_values.append(inverse(taken.item()))
        share = config.priority_max_share
        result.errors.append(errors)
        result.priorities.append(share * max(errors) + (1 - share) * sum(errors) / len(errors))
    result.mean_value = sum(taken_values) / len(taken_values)
    return result

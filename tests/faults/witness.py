"""A network that watches what it is trained on: unrolls of the counting environment, inside a run like any other.

Its recurrent state is the number of observations of the episode that it has seen, and it looks at every batch: in
inference that this number fits the observation, in training that each unroll is the steps of one life of one
environment in their order, with their own rewards, actions and state. What it finds goes to a file, one JSON object
per line: {"life": n} for each life that is trained on, {"wrong": why}, and {"checked": n} unrolls now and then.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workbench.environment_spec import EnvironmentSpec
from workbench.networks import PolicyValueOutput

ENVIRONMENT = "testing/counting-v0"
LENGTHS = [7, 3, 12]
RUN = {
    "environment_options": {"episode_length": LENGTHS, "ends": "alternate"},
    "normalize_observations": False, "device": "cpu", "unroll_length": 5, "batch_size": 4, "learner_threads": 1,
}
_TELL_EVERY = 50  # batches


def watching(path: Path, *, update_s: float = 0.0) -> Callable[[EnvironmentSpec], nn.Module]:
    """The factory of a witness that writes to `path`; see `Witness` for `update_s`."""
    return functools.partial(_made, str(path), update_s)


def _made(path: str, update_s: float, spec: EnvironmentSpec) -> nn.Module:
    return Witness(path, update_s, spec)


class Witness(nn.Module):
    """Policy and value of the step's number alone, and the look at what it is given.

    Args:
        update_s: seconds that each update lasts longer, with the file `path`.updating there meanwhile.
    """

    def __init__(self, path: str, update_s: float, spec: EnvironmentSpec) -> None:
        super().__init__()
        self._path, self._update_s = path, update_s
        self._seen: set[int] = set()
        self._checked = 0
        self.policy, self.value = nn.Linear(1, spec.num_actions), nn.Linear(1, 1)

    def initial_state(self, batch: int) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, 1),)

    def forward(
        self, observation: Tensor, previous_action: Tensor, reward: Tensor, start: Tensor, state: tuple[Tensor, ...]
    ) -> tuple[PolicyValueOutput, tuple[Tensor, ...]]:
        counted = []
        (count,) = state
        for t in range(len(start)):
            count = count.masked_fill(start[t, :, None], 0.0) + 1
            counted.append(count[:, 0])
        if observation.any() and observation.equal(observation.round()):  # the learner tries zeros and noise first
            self._look(observation.long(), previous_action, reward, start, torch.stack(counted).long())
        features = observation[..., 2:3] / 10
        return PolicyValueOutput(self.policy(features), self.value(features).squeeze(-1)), (count,)

    def _look(self, observation: Tensor, action: Tensor, reward: Tensor, start: Tensor, counted: Tensor) -> None:
        life, episode, step, acted = observation.unbind(-1)
        wrong = {"the state is of another step": counted != step + 1}
        if len(step) > 1:
            wrong |= _wrong_in_unrolls(life, episode, step, acted, action, reward, start)
            self._note_training(life)
        for why, where in wrong.items():
            if where.any():
                t, row = where.nonzero()[0].tolist()
                self._tell(wrong=f"{why}, at step {t} of {len(step)}: {observation[:, row].tolist()}")

    def _note_training(self, life: Tensor) -> None:
        for new in sorted(set(life[-1].tolist()) - self._seen):
            self._seen.add(new)
            self._tell(life=new)
        self._checked += life.shape[1]
        if self._checked // life.shape[1] % _TELL_EVERY == 0:
            self._tell(checked=self._checked, pid=os.getpid())
        if self._update_s and torch.is_grad_enabled():
            marker = Path(f"{self._path}.updating")
            marker.touch()
            time.sleep(self._update_s)
            marker.unlink(missing_ok=True)

    def _tell(self, **said: Any) -> None:
        with open(self._path, "a") as file:
            file.write(json.dumps(said) + "\n")


def _wrong_in_unrolls(
    life: Tensor, episode: Tensor, step: Tensor, acted: Tensor, action: Tensor, reward: Tensor, start: Tensor
) -> dict[str, Tensor]:
    """What an unroll must not be, with where it is so: bool [T, B], all arguments are [T, B]."""
    first = step == 0
    follows = torch.where(first[1:], (episode[1:] == episode[:-1] + 1),
                          (episode[1:] == episode[:-1]) & (step[1:] == step[:-1] + 1))
    expected = torch.where(first, 0, 1 + (13 * episode + step) % 97) / 100  # CountingEnv.expected_reward
    return {
        "an unroll mixes two lives": life != life[0],
        "an unroll misses or repeats a step": torch.cat([torch.zeros_like(first[:1]), ~follows]),
        "an episode's start is not where its first step is": start != first,
        "the reward is of another step": ~first & ((reward - expected).abs() > 1e-5),
        "the previous action is of another step": torch.where(first, 0, acted) != action,
    }


@dataclass
class Evidence:
    """What a witness has written so far."""

    lives: set[int] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    checked: int = 0

    def of_process(self, pid: int) -> int:
        """Environments of that actor's process that were trained on."""
        return sum(life >> 8 == pid % 2**16 for life in self.lives)


def evidence(path: Path) -> Evidence:
    """What is in a witness's file; of lives of the learner that were killed, too."""
    told, checked = Evidence(), dict[int, int]()
    for one in _lines(path):
        if "life" in one:
            told.lives.add(one["life"])
        elif "wrong" in one:
            told.wrong.append(one["wrong"])
        else:
            checked[one["pid"]] = one["checked"]
    told.checked = sum(checked.values())
    return told


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):  # else it is being written
                yield json.loads(line)

"""A policy and a value on top of a torso, with or without an LSTM. Implements `algorithms.interface.Network`."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from workbench.algorithms.distributions import distribution_of
from workbench.algorithms.interface import PolicyValueOutput, State
from workbench.algorithms.popart import PopArtValue
from workbench.environment_spec import ActionSpec
from workbench.errors import InvalidInput
from workbench.networks.lstm import ResettingLSTM, WithMemory
from workbench.networks.normalization import Observation
from workbench.networks.torsos import orthogonal

POLICY_GAIN = 0.01  # a nearly uniform first policy (arXiv 2006.05990, section 3.2)


class Torso(Protocol):
    """An nn.Module that maps observations [N, *stacked] to features [N, F]."""

    features: int

    def __call__(self, observation: Observation) -> Tensor: ...


def rows_of(observation: Observation) -> Observation:
    """Observations [T, B, ...] as rows [T·B, ...]."""
    if isinstance(observation, dict):
        return {name: value.flatten(0, 1) for name, value in observation.items()}
    return observation.flatten(0, 1)


class PolicyValueNetwork(WithMemory):
    """Policy and value heads on a torso's features, or on an LSTM that reads them.

    The LSTM also reads the previous action as one-hot and the reward clipped to ±1, both zero where an episode starts
    (IMPALA figure 3). LSTM and heads compute in float32 also under autocast.

    Args:
        torso: an nn.Module with `features`.
        num_actions: A, where an action is one of A choices.
        actions: the actions, where they are of another kind.
        value_torso: a separate torso for the value, or None to share `torso`; not with an LSTM.
        lstm_size: 0 for no LSTM.
        popart: whether the value's last layer normalises what it learns (`algorithms.popart`).
    """

    def __init__(
        self, torso: Torso, *, num_actions: int = 0, actions: ActionSpec | None = None,
        value_torso: Torso | None = None, lstm_size: int = 0, popart: bool = False,
    ) -> None:
        super().__init__()
        if actions is None and num_actions < 1:
            raise InvalidInput("a policy needs actions: pass num_actions, or actions=spec.actions.")
        actions = actions or ActionSpec("categorical", (num_actions,))
        self._policy = distribution_of(actions)
        self.torso = torso
        self.value_torso = value_torso
        self.memory = ResettingLSTM(torso.features + actions.encoded_size + 1, size=lstm_size) if lstm_size else None
        features = lstm_size or torso.features
        self.policy = nn.Linear(features, actions.parameters)
        self.value = PopArtValue(features) if popart else nn.Linear(features, 1)
        orthogonal(self.policy, POLICY_GAIN)
        orthogonal(self.value, 1.0)

    def forward(
        self, observation: Observation, previous_action: Tensor, reward: Tensor, start: Tensor, state: State
    ) -> tuple[PolicyValueOutput, State]:
        """Logits (the policy's parameters) [T, B, A], values [T, B], in float32; the state after the last step."""
        steps, batch = start.shape
        flat = rows_of(observation)
        features = self.torso(flat)
        value_features = features if self.value_torso is None else self.value_torso(flat)
        with torch.autocast(start.device.type, enabled=False):
            features, value_features = features.float(), value_features.float()
            if self.memory is not None:
                outputs, state = self.remembered(
                    features.view(steps, batch, -1), previous_action=previous_action, reward=reward.clamp(-1, 1),
                    start=start, state=state, policy=self._policy)
                features = value_features = outputs.flatten(0, 1)
            logits = self.policy(features).view(steps, batch, -1)
            value = self.value(value_features).view(steps, batch)
        return PolicyValueOutput(logits, value), state

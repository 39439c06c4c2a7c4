"""A policy and twin critics, with a torso each. Implements `algorithms.interface.Network`."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.algorithms.distributions import distribution_of
from workbench.algorithms.interface import PolicyCriticsOutput, State
from workbench.environment_spec import ActionSpec
from workbench.networks.lstm import ResettingLSTM, WithMemory
from workbench.networks.normalization import Observation
from workbench.networks.policy_value import POLICY_GAIN, Torso, rows_of
from workbench.networks.torsos import SQRT2, orthogonal


class Critics(nn.Module):
    """Two perceptrons of the same form side by side: two hidden layers each."""

    def __init__(self, inputs: int, *, size: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(inputs, size) for _ in range(2))
        self.second = nn.ModuleList(nn.Linear(size, size) for _ in range(2))
        self.last = nn.ModuleList(nn.Linear(size, outputs) for _ in range(2))
        for layers, gain in ((self.first, SQRT2), (self.second, SQRT2), (self.last, 1.0)):
            for layer in layers:
                orthogonal(cast(nn.Linear, layer), gain)

    def forward(self, inputs: Tensor, *, frozen: bool = False) -> Tensor:
        """[2, ..., outputs] of inputs [..., I]; `frozen`: without gradients of the weights."""
        def through(layer: nn.Module, values: Tensor) -> Tensor:
            weight, bias = cast(Tensor, layer.weight), cast(Tensor, layer.bias)
            return F.linear(values, weight.detach(), bias.detach()) if frozen else F.linear(values, weight, bias)

        return torch.stack([
            through(last, F.relu(through(second, F.relu(through(first, inputs)))))
            for first, second, last in zip(self.first, self.second, self.last, strict=True)])


class ActorCritics(WithMemory):
    """A policy on one torso; two critics on another.

    An LSTM, if any, reads both torsos' features, the previous action and the clipped reward, and feeds all heads. LSTM
    and heads compute in float32 also under autocast.

    Args:
        torso, critic_torso: nn.Modules with `features`.
        actions: one choice, or numbers, which critics take beside the features.
        critic_size: units of the critics' hidden layers.
        lstm_size: 0 for no LSTM.

    Attributes:
        leaves_out: fields of the output that a call does not compute, zeros instead: "value", which a loss has no use
            for, and "policy_logits", but not where an LSTM reads the policy's torso.
    """

    leaves_out: frozenset[str] = frozenset()

    def __init__(
        self, torso: Torso, critic_torso: Torso, *, actions: ActionSpec, critic_size: int, lstm_size: int
    ) -> None:
        super().__init__()
        self._policy, self._chooses = distribution_of(actions), actions.kind == "categorical"
        self.torso, self.critic_torso = torso, critic_torso
        both = torso.features + critic_torso.features
        self.memory = ResettingLSTM(both + actions.encoded_size + 1, size=lstm_size) if lstm_size else None
        self.policy = nn.Linear(lstm_size or torso.features, actions.parameters)
        orthogonal(self.policy, POLICY_GAIN)
        seen, choices = lstm_size or critic_torso.features, actions.encoded_size
        self.critics = Critics(seen if self._chooses else seen + choices, size=critic_size,
                               outputs=choices if self._chooses else 1)

    def forward(
        self, observation: Observation, previous_action: Tensor, reward: Tensor, start: Tensor, state: State
    ) -> tuple[PolicyCriticsOutput, State]:
        """The policy's parameters [T, B, P], the value of its mode [T, B], the critics' features [T, B, F]."""
        steps, batch = start.shape
        flat = rows_of(observation)
        asked = self.memory is not None or "policy_logits" not in self.leaves_out
        features = self.torso(flat) if asked else start.new_zeros(start.numel(), self.torso.features)
        seen = self.critic_torso(flat)
        with torch.autocast(start.device.type, enabled=False):
            features, seen = (part.float().view(steps, batch, -1) for part in (features, seen))
            if self.memory is not None:
                features, state = self.remembered(
                    torch.cat([features, seen], -1), previous_action=previous_action, reward=reward.clamp(-1, 1),
                    start=start, state=state, policy=self._policy)
                seen = features
            logits = self.policy(features)
            with torch.no_grad():
                value = logits.new_zeros(steps, batch) if "value" in self.leaves_out else self._value(seen, logits)
        return PolicyCriticsOutput(logits, value, seen), state

    def q_values(self, features: Tensor, actions: Tensor | None, *, frozen: bool = False) -> Tensor:
        """Both critics' values: [2, T, B, A] of all choices, or [2, T, B] of encoded `actions` [T, B, K].

        `frozen`: the critics' weights get no gradient; features and actions do.
        """
        with torch.autocast(features.device.type, enabled=False):
            if actions is None:
                return self.critics(features, frozen=frozen)  # type: ignore[no-any-return]
            return self.critics(torch.cat([features, actions], -1), frozen=frozen).squeeze(-1)  # type: ignore[no-any-return]

    def _value(self, features: Tensor, logits: Tensor) -> Tensor:
        if self._chooses:
            return (logits.softmax(-1) * self.q_values(features, None).amin(0)).sum(-1)
        return self.q_values(features, self._policy.encode(self._policy.mode(logits))).amin(0)

"""Q-values by dueling heads on top of a torso, with or without an LSTM. Implements `algorithms.interface.Network`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from workbench.algorithms.distributions import Categorical
from workbench.algorithms.interface import QValueOutput, State
from workbench.networks.lstm import ResettingLSTM, WithMemory
from workbench.networks.normalization import Observation
from workbench.networks.policy_value import Torso, rows_of

_INITIAL_SCALE = 0.01  # of each head's last layer, relative to SEED's


class DuelingNetwork(WithMemory):
    """Q = V + A - mean A (Wang et al. 2016, arXiv 1511.06581, eq. 9) on a torso's features, or on an LSTM's outputs.

    The LSTM reads the features, the previous action as one-hot and the reward as it is; these two are zero where an
    episode starts. LSTM and heads compute in float32 also under autocast. They are initialised as in SEED (r2d2:
    DuelingLSTMDQNNet, with Keras' defaults): uniform weights by fan-in and fan-out (Glorot & Bengio 2010), orthogonal
    recurrent ones, and biases 0, but 1 at the forget gate (Jozefowicz et al. 2015), so that the LSTM remembers at
    first. Each head's last layer starts a hundred times smaller than SEED's: training unlearns noisy first values by
    shrinking the torso's features, which then carry no information (DECISIONS.md).

    Args:
        torso: an nn.Module with `features`; value and advantage share it.
        num_actions: A.
        lstm_size: 0 for no LSTM.
        dueling_size: units of the hidden layer of each head.
    """

    def __init__(self, torso: Torso, *, num_actions: int, lstm_size: int, dueling_size: int) -> None:
        super().__init__()
        self.num_actions = num_actions
        self._choices = Categorical(num_actions)
        self.torso = torso
        self.memory = ResettingLSTM(torso.features + num_actions + 1, size=lstm_size) if lstm_size else None
        if self.memory is not None:
            nn.init.xavier_uniform_(next(self.memory.lstm.parameters()))
        features = lstm_size or torso.features
        self.value = _head(features, dueling_size, nn.Linear(dueling_size, 1))
        self.advantage = _head(features, dueling_size, nn.Linear(dueling_size, num_actions, bias=False))

    def forward(
        self, observation: Observation, previous_action: Tensor, reward: Tensor, start: Tensor, state: State
    ) -> tuple[QValueOutput, State]:
        """Q-values [T, B, A] in float32, and the state after the last step."""
        steps, batch = start.shape
        features = self.torso(rows_of(observation))
        with torch.autocast(start.device.type, enabled=False):
            features = features.float()
            if self.memory is not None:
                outputs, state = self.remembered(
                    features.view(steps, batch, -1), previous_action=previous_action, reward=reward, start=start,
                    state=state, policy=self._choices)
                features = outputs.flatten(0, 1)
            advantage = self.advantage(features)
            q_values = self.value(features) + advantage - advantage.mean(-1, keepdim=True)
        return QValueOutput(q_values.view(steps, batch, self.num_actions)), state


def _head(features: int, hidden: int, last: nn.Linear) -> nn.Sequential:
    head = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), last)
    for name, parameter in head.named_parameters():
        if name.endswith("weight"):
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.zeros_(parameter)
    with torch.no_grad():
        last.weight.mul_(_INITIAL_SCALE)
    return head

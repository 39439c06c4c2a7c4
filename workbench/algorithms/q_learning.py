"""What all Q-learning shares: ε-greedy acting by the values of actions, and a target network. A subclass has the loss.

Sources: ε of each environment (Ape-X, Horgan et al. 2018, arXiv 1803.00933), target network (DQN, Mnih et al. 2015).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from workbench.algorithms.action_masks import NEVER, as_shown, is_never
from workbench.algorithms.distributions import CATEGORICAL
from workbench.algorithms.interface import Algorithm, Heads, Outlook, QValueOutput, Roles
from workbench.algorithms.target_network import TargetNetwork
from workbench.config.hyperparameters import QLearningConfig
from workbench.environment_spec import EnvironmentSpec
from workbench.trajectory import FieldSpec


class QLearning(Algorithm):
    """An algorithm of one choice a step whose network has a value for each: see `QValueOutput`.

    Attributes:
        target: a copy of the network, as it was at the last of every `target_update_period` updates.
    """

    Config: type[QLearningConfig] = QLearningConfig
    actions = ("categorical",)
    heads = Heads(QValueOutput)

    def __init__(self, config: Any, *, spec: EnvironmentSpec) -> None:
        super().__init__(config, spec=spec)
        self._target = TargetNetwork()

    @property
    def target(self) -> Any:
        return self._target.network

    def behaviour_fields(self) -> dict[str, FieldSpec]:
        """The behaviour's Q-value of its action and its highest one, as the network has them."""
        return {"q_value": ((), "float32"), "q_max": ((), "float32")}

    def act(
        self, output: QValueOutput, *, roles: Roles, greedy: bool, generator: torch.Generator | None, config: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """ε-greedy actions int64 [B], with the ε of each row's role, and the behaviour fields, for an output of T=1."""
        q_values = output.q_values[0].float()
        q_max, actions = q_values.max(-1)
        if not greedy:
            epsilon = self.epsilons(roles, config=config).to(q_values.device)
            explores = torch.rand(epsilon.shape, generator=generator, device=epsilon.device) < epsilon
            evenly = torch.zeros_like(q_values).masked_fill(is_never(q_values), NEVER)
            random = CATEGORICAL.sample(evenly, generator=generator)
            actions = torch.where(explores, random, actions)
        return actions, {"q_value": q_values_of(q_values, actions=actions), "q_max": q_max}

    def epsilons(self, roles: Roles, *, config: Any) -> Tensor:
        """The share of random actions of each row, [B]: base^x, where x is linear in the rank."""
        first, last = config.exploration_first_power, config.exploration_last_power
        exploring = torch.pow(config.exploration_base, first + roles.rank * (last - first))
        return exploring.masked_fill(roles.evaluation, config.evaluation_epsilon)

    def as_returns(self, values: Tensor, *, config: Any) -> Tensor:
        """Values of the network, of any shape, as sums of rewards; a subclass may learn them in other units."""
        return values

    def bootstrap(self, output: QValueOutput) -> Tensor:
        """Highest Q-values [B] of final observations, as the network has them."""
        return output.q_values[0].float().amax(-1)

    def outlook(self, output: QValueOutput, *, config: Any) -> Outlook:
        """Q-values, and the highest one, as sums of rewards."""
        q_values = self.as_returns(output.q_values.float(), config=config)
        return Outlook("q_value", as_shown(q_values, of=output.q_values), q_values.amax(-1))

    def preference(self, output: QValueOutput, *, action: Tensor, config: Any) -> Tensor:
        """Q(x_t, a)."""
        return self.outlook(output, config=config).scores[..., int(action)]

    def prepare(self, network: nn.Module) -> None:
        """Copies the network into the target network."""
        self._target.prepare(network)

    def updated(self, network: nn.Module, *, updates: int, config: Any) -> None:
        """Copies the network's weights into the target network every `target_update_period` updates."""
        self._target.copy_if(updates % config.target_update_period == 0, network)

    def to(self, device: torch.device | str) -> Self:
        """Returns itself, with its `parameters` and the target network, if there is one yet, on `device`."""
        super().to(device)
        self._target.to(device)
        return self

    def state(self) -> dict[str, Tensor]:
        """The target network."""
        return self._target.state()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restores what `state` returned. Raises RuntimeError if the networks differ."""
        self._target.load_state(state)


def q_values_of(q_values: Tensor, *, actions: Tensor) -> Tensor:
    """Q(x, a), [T, B], from values [T, B, A] and actions int64 [T, B]."""
    return q_values.gather(-1, actions.unsqueeze(-1)).squeeze(-1)

"""SAC as the learner uses it: the loss of a replayed batch, whose parts each train their own weights, and a memory.

The network has a policy and twin critics with a torso each (`networks.actor_critics`). An unroll's steps are single
transitions here: x_t, a_t, r_{t+1}, x_{t+1}.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from workbench.algorithms.action_masks import is_never
from workbench.algorithms.batch import Batch
from workbench.algorithms.final_observations import with_finals
from workbench.algorithms.interface import Algorithm, Heads, Loss, Network, PolicyCriticsOutput, Roles, State, inner
from workbench.algorithms.sac import targets
from workbench.algorithms.sac.config import SACConfig
from workbench.algorithms.target_network import TargetNetwork
from workbench.environment_spec import EnvironmentSpec
from workbench.errors import NetworkFailed
from workbench.trajectory import FieldSpec


class SAC(Algorithm):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv 1812.05905), for numbers and for choices.

    A truncated episode bootstraps from the soft value of its final observation, by the target critics, as any other
    step does.
    """

    Config = SACConfig
    actions = ("categorical", "tanh_normal")
    values_finals = True
    histogram_edges = {
        "td_error": tuple(10.0 ** (power / 10) for power in range(-40, 21))
    }

    def __init__(self, config: SACConfig, *, spec: EnvironmentSpec) -> None:
        super().__init__(config, spec=spec)
        self.heads = Heads(PolicyCriticsOutput, critic_size=config.critic_size)
        self.log_temperature = nn.Parameter(torch.tensor(math.log(config.first_temperature)))
        self._target = TargetNetwork()
        self._chooses = spec.actions.kind == "categorical"

    def behaviour_fields(self) -> dict[str, FieldSpec]:
        """The behaviour's value, for display."""
        return {"value": ((), "float32")}

    def act(
        self, output: Any, *, roles: Roles, greedy: bool, generator: torch.Generator | None, config: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """As `Algorithm.act`: a sample of the policy, or its mode."""
        actions, fields = super().act(output, roles=roles, greedy=greedy, generator=generator, config=config)
        return actions, {"value": fields["value"]}

    def bootstrap(self, output: PolicyCriticsOutput) -> Tensor:
        """Soft values [B] of final observations: of what the policy does, and of its entropy."""
        temperature = self.log_temperature.detach().exp().to(output.value.device)
        return output.value[0].float() + temperature * self.distribution.entropy(output.policy_logits[0].float())

    def loss(self, network: Network, *, batch: Batch, config: SACConfig) -> Loss:
        """Losses of critics, policy and temperature, as means over the T·B transitions of a batch."""
        seen, copied = with_finals(batch), cast(Network, self._target.network)
        online, target = _with_critics(network), _with_critics(copied)
        with _leaving_out({"value"}, online), _leaving_out({"value", "policy_logits"}, target):
            output = self._trained_outputs(network, seen.batch)
            with torch.no_grad():
                later = self.outputs(copied, seen.batch).features[1:]
        logits, features = seen.of_steps(output.policy_logits)[:-1].float(), seen.of_steps(output.features)[:-1]
        temperature = self.log_temperature.exp().detach()
        with torch.no_grad():
            values, _ = self._values(target, later, output.policy_logits[1:].float().detach(), temperature)
            bootstraps = torch.cat([batch.bootstrap_value[:1], seen.bootstraps(values, first=1)])
            r_t, discount_t = self.rewards_and_discounts(replace(batch, bootstrap_value=bootstraps), config)
            returns = r_t + discount_t * seen.of_steps(values, first=1)
        q_values = online.q_values(features, self._encoded(batch.action[:-1]))
        if self._chooses:
            q_values = q_values.gather(-1, batch.action[None, :-1, :, None].expand(2, -1, -1, 1)).squeeze(-1)
        soft_values, entropy = self._values(
            online, features.detach(), logits, temperature, frozen=True)
        terms = {
            "critic_loss": targets.critic_loss(q_values, targets=returns, weights=batch.weight),
            "policy_loss": -soft_values.mean(),
            "temperature_loss": targets.temperature_loss(
                self.log_temperature, entropy=entropy, target=self._target_entropy(config, logits)),
        }
        errors = (returns - q_values.amin(0)).detach().abs()
        scalars = {"entropy": entropy, "temperature": temperature, "q_value": q_values.mean(),
                   "td_error": errors.mean()}
        return Loss.of(terms, scalars=scalars, samples={"td_error": errors}, priorities=errors.mean(0))

    def _trained_outputs(self, network: Network, batch: Batch) -> PolicyCriticsOutput:
        """As `outputs`, but the last step, whose output is a target alone, comes without gradients."""
        stacked = batch.stacked()

        def over(steps: slice, state: State) -> tuple[PolicyCriticsOutput, State]:
            return network(stacked[steps], batch.previous_action[steps], batch.reward[steps], batch.start[steps], state)

        output, state = over(slice(-1), batch.initial_state)
        with torch.no_grad():
            last, _ = over(slice(-1, None), state)
        return PolicyCriticsOutput(*(torch.cat(pair) for pair in zip(output, last, strict=True)))

    def _values(
        self, network: Any, features: Tensor, parameters: Tensor, temperature: Tensor, *, frozen: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Soft values [T, B] by `network`'s critics, for actions of the policy with these parameters, and its entropy.

        `frozen`: only the policy gets a gradient.
        """
        if self._chooses:
            log_policy = parameters.log_softmax(-1)
            q_values = network.q_values(features, None, frozen=frozen)
            values = targets.soft_value_of_choices(q_values, log_policy=log_policy, temperature=temperature)
            return values, self.distribution.entropy(parameters).mean()
        generator = self.training_generator if self.training_generator.device == parameters.device else None
        actions, log_probs = self.distribution.sample_with_gradient(parameters, generator=generator)
        q_values = network.q_values(features, self._encoded(actions), frozen=frozen)
        values = targets.soft_value(q_values, log_probs=log_probs, temperature=temperature)
        return values, -log_probs.mean()

    def _encoded(self, actions: Tensor) -> Tensor | None:
        """What critics are told of actions that are numbers."""
        return None if self._chooses else self.distribution.encode(actions)

    def _target_entropy(self, config: SACConfig, logits: Tensor) -> Tensor | float:
        if config.target_entropy is not None:
            return config.target_entropy
        if self.spec.action_mask is not None:
            return 0.5 * (~is_never(logits)).sum(-1).log().mean()
        sizes = self.spec.actions.sizes
        return 0.5 * math.log(sizes[0]) if self._chooses else -float(len(sizes))

    def prepare(self, network: nn.Module) -> None:
        """Copies the network into the target network. Raises NetworkFailed where it has no critics."""
        _with_critics(network)
        self._target.prepare(network)

    def updated(self, network: nn.Module, *, updates: int, config: SACConfig) -> None:
        """Moves the target network a little towards the network."""
        self._target.approach(network, config.target_share)

    def to(self, device: torch.device | str) -> SAC:
        """Returns itself, with the temperature and the target network on `device`."""
        super().to(device)
        self._target.to(device)
        return self

    def parameters(self) -> list[nn.Parameter]:
        """The logarithm of the temperature."""
        return [self.log_temperature]

    def rate_factors(self, network: Any, *, config: SACConfig) -> list[tuple[list[nn.Parameter], float]]:
        """The critics, and the temperature. Raises NetworkFailed where a user's network does not name its critics."""
        parts = (getattr(network, name, None) for name in ("critics", "critic_torso"))
        critics = [parameter for part in parts if isinstance(part, nn.Module) for parameter in part.parameters()]
        if not critics and config.critic_rate_factor != 1:
            raise NetworkFailed(f"critic_rate_factor={config.critic_rate_factor:g}, which the environment's preset may "
                                "have set, needs a network whose critics are a part called critics (and critic_torso, "
                                f"if they have a torso), and {type(network).__name__} has neither. Name them so, or "
                                "give critic_rate_factor=1.")
        temperature = [self.log_temperature], config.temperature_rate_factor
        return [*([(critics, config.critic_rate_factor)] if critics else []), temperature]

    def state(self) -> dict[str, Tensor]:
        return {**self._target.state(), "log_temperature": self.log_temperature.detach().clone()}

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self._target.load_state(state)
        self.log_temperature.copy_(state["log_temperature"])
        if "sampling" in state and self.training_generator.device.type == "cpu":  # of before the learner kept it
            self.training_generator.set_state(state["sampling"].cpu())


@contextmanager
def _leaving_out(fields: set[str], network: Any) -> Iterator[None]:
    """In this block the network leaves out these fields of its output if it can, see `ActorCritics`."""
    before = getattr(network, "leaves_out", None)
    if before is None:
        yield
        return
    network.leaves_out = before | fields
    try:
        yield
    finally:
        network.leaves_out = before


def _with_critics(network: Any) -> Any:
    """The network that has critics. Raises NetworkFailed where it has none."""
    found = inner(network)
    if not hasattr(found, "q_values"):
        raise NetworkFailed("SAC asks a network's critics by q_values(features, actions, frozen=False), and "
                            f"{type(found).__name__} has no such method. See workbench.networks.actor_critics.")
    return found

"""Behaviour cloning as the learner uses it: the loss of a batch of demonstrations."""

from __future__ import annotations

import torch
from torch import Tensor

from workbench.algorithms.action_masks import is_never
from workbench.algorithms.batch import Batch
from workbench.algorithms.bc import targets
from workbench.algorithms.bc.config import BCConfig
from workbench.algorithms.interface import Algorithm, Loss, Network, PolicyValueOutput
from workbench.environment_spec import EnvironmentSpec
from workbench.trajectory import NO_DISCOUNT, Flags


class BC(Algorithm):
    """Behaviour cloning: the likelihood of the demonstrated actions (Pomerleau 1991, Neural Computation 3(1))."""

    Config = BCConfig

    def __init__(self, config: BCConfig, *, spec: EnvironmentSpec) -> None:
        super().__init__(config, spec=spec)
        self.overlap = config.burn_in

    def loss(self, network: Network, *, batch: Batch, config: BCConfig) -> Loss:
        """-mean log π(a|x) of the demonstrations, value loss and entropy, as means over the T·B steps that count."""
        output, actions = self._after_burn_in(network, batch), batch.action[self.overlap : -1]
        logits, values = output.policy_logits[:-1].float(), output.value.float()
        log_probs = self.distribution.log_prob(logits, actions=actions)
        allowed = ~is_never(log_probs)  # from what a mask forbids nothing is learnt, and nothing is judged
        surprise, weights = -torch.where(allowed, log_probs, 0.0), batch.weight * allowed
        errors = 0.5 * (self._returns(values.detach(), batch, config) - values[:-1]).square()
        entropy = targets.weighted_mean(self.distribution.entropy(logits), weights=batch.weight)
        terms = {
            "policy_loss": targets.weighted_mean(surprise, weights=weights),
            "baseline_loss": config.baseline_cost * targets.weighted_mean(errors, weights=batch.weight),
            "entropy_loss": -config.entropy_cost * entropy,
        }
        judged = self._judged(logits.detach(), actions)
        scalars = {"entropy": entropy, **{kind: targets.weighted_mean(each, weights=weights)
                                          for kind, each in judged.items()}}
        if len(batch.weight) > config.batch_size:  # the last ones are held out, see `DemonstrationsConfig`
            held_out = (batch.weight == 0).float() * allowed
            scalars["held_out_loss"] = targets.weighted_mean(surprise, weights=held_out)
            for kind, each in judged.items():
                scalars[f"held_out_{kind}"] = targets.weighted_mean(each, weights=held_out)
        return Loss.of(terms, scalars=scalars)

    def _after_burn_in(self, network: Network, batch: Batch) -> PolicyValueOutput:
        """The network's output [T+1, B, ...] at the steps after the burn-in, which a network without memory skips."""
        stacked = batch.stacked()
        output: PolicyValueOutput
        state, first = batch.initial_state, self.overlap
        if state and first:
            with torch.no_grad():
                _, state = network(stacked[:first], batch.previous_action[:first], batch.reward[:first],
                                   batch.start[:first], state)
            torch.clear_autocast_cache()  # else older torch casts no weight with gradient (pytorch #158232)
        output, _ = network(stacked[first:], batch.previous_action[first:], batch.reward[first:], batch.start[first:],
                            state)
        return output

    def _returns(self, values: Tensor, batch: Batch, config: BCConfig) -> Tensor:
        """The returns [T, B] that the values of the steps after the burn-in learn."""
        r_t, discount_t = (part[self.overlap :] for part in self.rewards_and_discounts(batch, config))
        cut_t = (batch.has(Flags.TRUNCATED) & ~batch.has(NO_DISCOUNT))[self.overlap + 1 :]
        return targets.demonstrated_returns(values, r_t=r_t, discount_t=discount_t, cut_t=cut_t, lambda_=config.lambda_)

    def _judged(self, logits: Tensor, actions: Tensor) -> dict[str, Tensor]:
        """How near the likeliest actions are to the demonstrated ones, [T, B]: their choices, and their numbers."""
        chosen, spec = self.distribution.mode(logits), self.spec.actions
        if spec.kind == "categorical":
            return {"accuracy": targets.agreement(chosen, actions, parts=False)}
        choices, numbers = ([column for column, size in enumerate(spec.sizes) if bool(size) == chooses]
                            for chooses in (True, False))
        judged = {}
        if choices:
            judged["accuracy"] = targets.agreement(chosen[..., choices], actions[..., choices], parts=True)
        if numbers:
            own, demonstrated = (self.distribution.to_environment(each)[..., numbers] for each in (chosen, actions))
            judged["action_error"] = targets.distance(own, demonstrated)
        return judged

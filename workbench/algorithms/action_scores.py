"""What a network says of x_t, for people to see: a score of every action or part of one, and what it expects."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from workbench.algorithms import r2d2
from workbench.algorithms.distributions import distribution_of
from workbench.algorithms.interface import NetworkOutput, PolicyValueOutput
from workbench.trajectory import ActionSpec


class Outlook(NamedTuple):
    """Of one output [T, B, ...] of a network.

    Attributes:
        kind: what the scores are: "probability", "q_value" or "mean".
        scores: float32 [T, B, A], probabilities (that sum to 1 for each choice; of a switch, of 1), or Q-values:
            discounted sums of rewards as trained on (clipped to ±max_abs_reward where set), or, where actions are
            numbers, the middle of each in [-1, 1].
        value: float32 [T, B], V(x_t), or the highest Q-value; a sum of the same rewards.
    """

    kind: str
    scores: Tensor
    value: Tensor


def outlook(output: NetworkOutput, *, config: Any, actions: ActionSpec) -> Outlook:
    """The outlook in `output`, by the algorithm's configuration (which says whether values are rescaled)."""
    if isinstance(output, PolicyValueOutput):
        kind = "mean" if actions.kind == "tanh_normal" else "probability"
        return Outlook(kind, _scores(output.policy_logits.float(), actions), output.value.float())
    q_values = output.q_values.float()
    if config.value_rescaling:
        q_values = r2d2.unrescale(q_values, epsilon=config.value_rescaling_epsilon)
    return Outlook("q_value", q_values, q_values.amax(-1))


def _scores(parameters: Tensor, actions: ActionSpec) -> Tensor:
    if actions.kind == "tanh_normal":
        return distribution_of(actions).mode(parameters).tanh()
    if actions.kind == "bernoulli":
        return parameters.sigmoid()
    return torch.cat([part.softmax(-1) for part in torch.split(parameters, list(actions.sizes), -1)], -1)


def preference(output: NetworkOutput, *, action: Tensor, config: Any, actions: ActionSpec) -> Tensor:
    """How much the network is for `action` [*action], [T, B], to be differentiated: log π(a|x_t), or Q(x_t, a).

    Where actions are numbers, the sum of their middles: the density of a likeliest action has no slope.
    """
    if actions.kind == "tanh_normal":
        return outlook(output, config=config, actions=actions).scores.sum(-1)
    if isinstance(output, PolicyValueOutput):
        parameters = output.policy_logits.float()
        chosen = action.expand(*parameters.shape[:-1], *action.shape)
        return distribution_of(actions).log_prob(parameters, actions=chosen)
    return outlook(output, config=config, actions=actions).scores[..., int(action)]

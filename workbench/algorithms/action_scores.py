"""A network's output as people see it: a score for every action or part of an action, and the expected return."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from workbench.algorithms import r2d2
from workbench.algorithms.distributions import distribution_of
from workbench.algorithms.interface import NetworkOutput, PolicyValueOutput
from workbench.trajectory import ActionSpec


class Outlook(NamedTuple):
    """Scores and value of one output [T, B, ...] of a network.

    Attributes:
        kind: what the scores are: "probability", "q_value" or "mean".
        scores: float32 [T, B, A]. Probabilities sum to 1 for each choice; a switch has the probability of 1. Q-values
            are discounted sums of rewards as in training (clipped to ±max_abs_reward where set). Where actions are
            numbers, the score is the middle of each one's distribution, in [-1, 1].
        value: float32 [T, B], V(x_t), or the highest Q-value; a sum of the same rewards.
    """

    kind: str
    scores: Tensor
    value: Tensor


def outlook(output: NetworkOutput, *, config: Any, actions: ActionSpec) -> Outlook:
    """Scores and value of `output`; `config` is the algorithm's, for value rescaling."""
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
    """How strongly the network prefers `action` [*action], [T, B], differentiable: log π(a|x_t), or Q(x_t, a).

    Where actions are numbers, it is the sum of their middles, because the density's slope at its mode is 0.
    """
    if actions.kind == "tanh_normal":
        return outlook(output, config=config, actions=actions).scores.sum(-1)
    if isinstance(output, PolicyValueOutput):
        parameters = output.policy_logits.float()
        expanded = action.expand(*parameters.shape[:-1], *action.shape)
        return distribution_of(actions).log_prob(parameters, actions=expanded)
    return outlook(output, config=config, actions=actions).scores[..., int(action)]

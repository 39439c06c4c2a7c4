"""What a network says of x_t, for people to see: a score of every action, and what it expects."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from workbench.algorithms import r2d2
from workbench.algorithms.base import NetworkOutput, PolicyValueOutput


class Outlook(NamedTuple):
    """Of one output [T, B, ...] of a network.

    Attributes:
        kind: what the scores are: "probability" or "q_value".
        scores: float32 [T, B, A], probabilities that sum to 1, or Q-values: discounted sums of rewards as trained on
            (clipped to ±max_abs_reward where set).
        value: float32 [T, B], V(x_t), or the highest Q-value; a sum of the same rewards.
    """

    kind: str
    scores: Tensor
    value: Tensor


def outlook(output: NetworkOutput, *, config: Any) -> Outlook:
    """The outlook in `output`, by the algorithm's configuration (which says whether values are rescaled)."""
    if isinstance(output, PolicyValueOutput):
        return Outlook("probability", output.policy_logits.float().softmax(-1), output.value.float())
    q_values = output.q_values.float()
    if config.value_rescaling:
        q_values = r2d2.unrescale(q_values, epsilon=config.value_rescaling_epsilon)
    return Outlook("q_value", q_values, q_values.amax(-1))


def preferences(output: NetworkOutput, *, config: Any) -> Tensor:
    """How much the network is for each action, [T, B, A], to be differentiated: log π(a|x_t), or Q(x_t, a)."""
    if isinstance(output, PolicyValueOutput):
        return output.policy_logits.float().log_softmax(-1)
    return outlook(output, config=config).scores

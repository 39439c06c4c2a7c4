"""Choices that an environment does not allow at a step: no policy takes one, and none is learnt from.

A network's logit or Q-value of such a choice is NEVER: its probability is exactly 0, no other value is lower, and no
gradient reaches the network through it, as in Huang & Ontañón 2022, arXiv 2006.14171.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

NEVER = -1e9
FIELDS = ("policy_logits", "q_values")  # of an output, which know masks


def masked(output: Any, mask: Tensor, *, sizes: Sequence[int]) -> Any:
    """A network's output with NEVER in those of `FIELDS` that it has, for what is not allowed.

    Args:
        mask: float32 [T, B, sum(sizes)], 0 for a choice that is not allowed. Of a column that has nothing else, as of
            an agent that is out, all are.
        sizes: choices of each column of an action.
    """
    columns = [one > 0 for one in torch.split(mask, list(sizes), -1)]
    refused = torch.cat([~one & one.any(-1, keepdim=True) for one in columns], -1)
    given = {name: getattr(output, name, None) for name in FIELDS}
    allowed = {name: values.masked_fill(refused, NEVER) for name, values in given.items() if isinstance(values, Tensor)}
    return output._replace(**allowed) if allowed else output  # no output, which the network's check tells


def is_never(values: Tensor) -> Tensor:
    """Which of these logits or Q-values are NEVER, bool of their shape."""
    return values <= NEVER / 2


def as_shown(values: Tensor, *, of: Tensor) -> Tensor:
    """`values` [..., A] with the lowest of those that are allowed in place of what is NEVER in `of`."""
    lowest = values.masked_fill(is_never(of), math.inf).amin(-1, keepdim=True)
    return torch.where(is_never(of), lowest, values)

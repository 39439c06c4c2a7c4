"""The mean and the variance of all rows so far, over all learners."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

_LARGEST = 10.0  # normalised values are clipped here, as in OpenAI Baselines' VecNormalize
_SMALLEST_VARIANCE = 1e-8


class Peers(Protocol):
    """The learners that train one network together."""

    size: int

    def average(self, tensor: Tensor) -> Tensor:
        """The mean of the learners' tensors, in place."""


class RunningStatistics(nn.Module):
    """Mean and variance of all rows so far (Chan et al. 1983), and the normalisation by them."""

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @torch.no_grad()
    def add(self, rows: Tensor, peers: Peers | None = None) -> None:
        """Adds rows [N, *shape], and the N rows of each peer. A number that is not finite counts as the mean, which it
        would spoil for ever."""
        rows = torch.where(rows.isfinite(), rows.double(), self.mean)
        number = float(len(rows))
        if peers is None:
            difference, variance = rows.mean(0) - self.mean, rows.var(0, correction=0)
        else:
            deviation, number = rows - self.mean, number * peers.size
            difference, square = peers.average(torch.stack([deviation.mean(0), deviation.square().mean(0)]))
            variance = square - difference.square()
        total = self.count + number
        spread = self.variance * self.count + variance * number
        self.variance.copy_((spread + difference.square() * self.count * number / total) / total)
        self.mean.add_(difference * number / total)
        self.count.copy_(total)

    @property
    def deviation(self) -> Tensor:
        """The standard deviation, float32 [*shape], above 0; 1 before the first row."""
        return self.variance.clamp_min(_SMALLEST_VARIANCE).sqrt().float()

    def forward(self, values: Tensor) -> Tensor:
        """Values [..., *shape], normalised and clipped to ±10; before the first row, clipped only."""
        scale = self.variance.clamp_min(_SMALLEST_VARIANCE).rsqrt().float()
        return ((values - self.mean.float()) * scale).clamp(-_LARGEST, _LARGEST)

    def scaled(self, values: Tensor) -> Tensor:
        """Values [..., *shape] divided by the deviation and clipped to ±10; their sign stays."""
        return (values / self.deviation).clamp(-_LARGEST, _LARGEST)

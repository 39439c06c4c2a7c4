"""PopArt: a value head that predicts values of mean 0 and deviation 1, whatever the size of rewards.

Sources: van Hasselt et al. 2016, arXiv 1602.07714; for an actor and a critic Hessel et al. 2018, arXiv 1809.04474.
The statistics follow the targets of the values (Adaptively Rescaling Targets); at each change the head's weights are
rescaled so that the values themselves stay the same (Preserving Outputs Precisely). All who read the network see these
values; only a loss asks for the deviation.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from workbench.algorithms.running_statistics import Peers

_SMALLEST, _LARGEST = 1e-4, 1e6  # deviation; SEED's running_statistics.py has 1e-6 and 1e6, see DECISIONS.md


class Moments(NamedTuple):
    """The statistics of a value's targets, float64 scalars.

    Attributes:
        mean: μ, the first moment.
        second: ν, the second moment.
        weight: of all targets so far, from 0 (none) to 1; it removes what the moments began with, as in Adam.
    """

    mean: Tensor
    second: Tensor
    weight: Tensor

    @property
    def deviation(self) -> Tensor:
        """σ = √(ν - μ²), bounded; 1 before the first targets."""
        bounded = (self.second - self.mean.square()).clamp(_SMALLEST**2, _LARGEST**2).sqrt()
        return torch.where(self.weight > 0, bounded, torch.ones_like(bounded))


def moments_after(moments: Moments, *, mean: Tensor, second: Tensor, step_size: float) -> Moments:
    """The moments after more targets, whose own mean and second moment these are (van Hasselt et al. 2016).

        w' = (1 - β) w + β,   β' = β / w',   μ' = (1 - β') μ + β' E[G],   ν' = (1 - β') ν + β' E[G²]

    So the first targets replace what the moments began with. Targets that are not finite change nothing.

    Args:
        mean, second: E[G] and E[G²] of the targets G.
        step_size: β.
    """
    finite = (mean + second).isfinite()
    weight = torch.where(finite, (1 - step_size) * moments.weight + step_size, moments.weight)
    step = torch.where(finite, step_size / weight.clamp_min(step_size), 0.0)
    mean, second = torch.where(finite, mean, 0.0), torch.where(finite, second, 0.0)
    return Moments((1 - step) * moments.mean + step * mean, (1 - step) * moments.second + step * second, weight)


def preserved(weight: Tensor, bias: Tensor, *, old: Moments, new: Moments) -> tuple[Tensor, Tensor]:
    """Weights and bias by which σ' (W'h + b') + μ' is σ (W h + b) + μ for all h (van Hasselt et al. 2016).

        W' = W σ/σ',   b' = (σ b + μ - μ')/σ'
    """
    before, after = old.deviation, new.deviation
    return weight * (before / after), (before * bias + old.mean - new.mean) / after


class PopArtValue(nn.Linear):
    """The last layer of a value: σ (W h + b) + μ of features h [..., F], float32 [..., 1].

    The statistics are buffers: checkpoints and the acting copies have them. An optimizer's moments of W and b stay as
    they are when these are rescaled: the gradients that they average are those of a normalised loss, before and after.
    """

    mean: Tensor
    second_moment: Tensor
    targets_weight: Tensor

    def __init__(self, features: int) -> None:
        super().__init__(features, 1)
        self.register_buffer("mean", torch.zeros((), dtype=torch.float64))
        self.register_buffer("second_moment", torch.ones((), dtype=torch.float64))
        self.register_buffer("targets_weight", torch.zeros((), dtype=torch.float64))

    @property
    def moments(self) -> Moments:
        """The statistics as they are now."""
        return Moments(self.mean, self.second_moment, self.targets_weight)

    @property
    def per_deviation(self) -> Tensor:
        """1/σ, a float32 scalar; 0 before the first targets, which are only measured: nothing tells their size yet."""
        return torch.where(self.targets_weight > 0, 1 / self.moments.deviation, 0.0).float()

    def forward(self, features: Tensor) -> Tensor:
        moments = self.moments
        return super().forward(features) * moments.deviation.float() + moments.mean.float()

    @torch.no_grad()
    def follow(self, targets: Tensor, *, step_size: float, peers: Peers | None = None) -> None:
        """Moves the statistics towards those of `targets` (any shape) and of those of the other learners, if any; the
        values stay the same. All learners end with the same statistics."""
        targets = targets.double()
        both = torch.stack([targets.mean(), targets.square().mean()])
        if peers is not None:
            both = peers.average(both)
        old = Moments(*(value.clone() for value in self.moments))
        new = moments_after(old, mean=both[0], second=both[1], step_size=step_size)
        weight, bias = preserved(self.weight.double(), self.bias.double(), old=old, new=new)
        for place, value in ((self.weight, weight), (self.bias, bias), *zip(self.moments, new, strict=True)):
            place.copy_(value)


def value_head(network: nn.Module) -> PopArtValue | None:
    """The value head of a network that normalises, or None."""
    return next((module for module in network.modules() if isinstance(module, PopArtValue)), None)

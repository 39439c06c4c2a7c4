"""The distributions that policies choose actions by, over the numbers ("parameters") that a network says.

Every function takes any leading axes: parameters [..., P], actions [..., *action] (see `trajectory.ActionSpec`); what
it returns of an action is [...]. An action of several parts has independent ones: log-probabilities, entropies and
divergences are their sums.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from workbench.errors import InvalidInput
from workbench.trajectory import ActionSpec

SMALLEST_WIDTH = 1e-3  # of a normal, as in SEED's parametric_distribution.py
_NORMALS = 12  # that make up a logistic distribution
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Distribution(Protocol):
    """What V-trace asks of a distribution."""

    def sample(self, parameters: Tensor, *, generator: torch.Generator | None) -> Tensor:
        """Actions by chance, as unrolls keep them; without a gradient."""

    def mode(self, parameters: Tensor) -> Tensor:
        """The likeliest actions."""

    def log_prob(self, parameters: Tensor, *, actions: Tensor) -> Tensor:
        """log π(a)."""

    def entropy(self, parameters: Tensor) -> Tensor:
        """H[π] in nats."""

    def kl(self, behaviour: Tensor, target: Tensor) -> Tensor:
        """KL(μ ‖ π) in nats; no gradient of μ."""

    def encode(self, actions: Tensor) -> Tensor:
        """What a network is told of a previous action: float32 [..., E]."""

    def to_environment(self, actions: Tensor) -> Tensor:
        """What the environment gets."""


class Categorical:
    """One of `n` choices; parameters are logits [..., n]."""

    def __init__(self, n: int = 0) -> None:
        self.n = n

    def sample(self, parameters: Tensor, *, generator: torch.Generator | None) -> Tensor:
        """int64: the argmax of logits + Gumbel noise is a sample of the softmax; Gumbel = -log Exponential."""
        noise = torch.empty_like(parameters).exponential_(generator=generator)
        return (parameters - noise.log()).argmax(-1)

    def mode(self, parameters: Tensor) -> Tensor:
        """int64."""
        return parameters.argmax(-1)

    def log_prob(self, parameters: Tensor, *, actions: Tensor) -> Tensor:
        """log π(a)."""
        return F.log_softmax(parameters, dim=-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self, parameters: Tensor) -> Tensor:
        """-Σ π log π."""
        log_policy = F.log_softmax(parameters, dim=-1)
        return -(log_policy.exp() * log_policy).sum(-1)

    def kl(self, behaviour: Tensor, target: Tensor) -> Tensor:
        """Σ μ (log μ - log π)."""
        log_behaviour = F.log_softmax(behaviour, dim=-1).detach()
        return (log_behaviour.exp() * (log_behaviour - F.log_softmax(target, dim=-1))).sum(-1)

    def encode(self, actions: Tensor) -> Tensor:
        """One-hot, [..., n]."""
        return F.one_hot(actions, self.n).float()

    def to_environment(self, actions: Tensor) -> Tensor:
        """The same."""
        return actions


class MultiDiscrete:
    """K choices side by side, of n_1, ..., n_K; parameters are their logits one after another."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = list(sizes)
        self._parts = [Categorical(size) for size in sizes]

    def sample(self, parameters: Tensor, *, generator: torch.Generator | None) -> Tensor:
        """int64 [..., K]."""
        return torch.stack([part.sample(own, generator=generator) for part, own in self._split(parameters)], -1)

    def mode(self, parameters: Tensor) -> Tensor:
        """int64 [..., K]."""
        return torch.stack([part.mode(own) for part, own in self._split(parameters)], -1)

    def log_prob(self, parameters: Tensor, *, actions: Tensor) -> Tensor:
        """Σ log π_k(a_k)."""
        chosen = actions.unbind(-1)
        return torch.stack([part.log_prob(own, actions=one)
                            for (part, own), one in zip(self._split(parameters), chosen, strict=True)]).sum(0)

    def entropy(self, parameters: Tensor) -> Tensor:
        """Σ H[π_k]."""
        return torch.stack([part.entropy(own) for part, own in self._split(parameters)]).sum(0)

    def kl(self, behaviour: Tensor, target: Tensor) -> Tensor:
        """Σ KL(μ_k ‖ π_k)."""
        pairs = zip(self._split(behaviour), self._split(target), strict=True)
        return torch.stack([part.kl(mine, theirs) for (part, mine), (_, theirs) in pairs]).sum(0)

    def encode(self, actions: Tensor) -> Tensor:
        """One-hots one after another, [..., Σ n_k]."""
        return torch.cat([part.encode(one) for part, one in zip(self._parts, actions.unbind(-1), strict=True)], -1)

    def to_environment(self, actions: Tensor) -> Tensor:
        """The same."""
        return actions

    def _split(self, parameters: Tensor) -> list[tuple[Categorical, Tensor]]:
        return list(zip(self._parts, torch.split(parameters, self.sizes, -1), strict=True))


class Bernoulli:
    """K switches; parameters are the logits of 1, [..., K]."""

    def sample(self, parameters: Tensor, *, generator: torch.Generator | None) -> Tensor:
        """int64 [..., K]."""
        chance = torch.rand(parameters.shape, generator=generator, device=parameters.device)
        return (chance < parameters.sigmoid()).long()

    def mode(self, parameters: Tensor) -> Tensor:
        """int64 [..., K]."""
        return (parameters > 0).long()

    def log_prob(self, parameters: Tensor, *, actions: Tensor) -> Tensor:
        """Σ log π_k(a_k)."""
        return torch.where(actions > 0, F.logsigmoid(parameters), F.logsigmoid(-parameters)).sum(-1)

    def entropy(self, parameters: Tensor) -> Tensor:
        """Σ H[π_k]."""
        on, off = parameters.sigmoid(), (-parameters).sigmoid()
        return -(on * F.logsigmoid(parameters) + off * F.logsigmoid(-parameters)).sum(-1)

    def kl(self, behaviour: Tensor, target: Tensor) -> Tensor:
        """Σ KL(μ_k ‖ π_k)."""
        mine = behaviour.detach()
        on = mine.sigmoid() * (F.logsigmoid(mine) - F.logsigmoid(target))
        off = (-mine).sigmoid() * (F.logsigmoid(-mine) - F.logsigmoid(-target))
        return (on + off).sum(-1)

    def encode(self, actions: Tensor) -> Tensor:
        """0 or 1, [..., K]."""
        return actions.float()

    def to_environment(self, actions: Tensor) -> Tensor:
        """The same."""
        return actions


class TanhNormal:
    """tanh(u), u normal; parameters are K means, then K numbers whose softplus are the widths.

    Unrolls keep u. The density of u stands for that of tanh(u): their ratio is the same for every policy, so it
    leaves no trace in importance ratios, gradients and divergences. The entropy is that of tanh(u).
    """

    def sample(self, parameters: Tensor, *, generator: torch.Generator | None) -> Tensor:
        """float32 u [..., K]."""
        mean, width = self.mean_and_width(parameters.detach())
        return mean + width * torch.randn(mean.shape, generator=generator, device=mean.device)

    def mode(self, parameters: Tensor) -> Tensor:
        """float32 u [..., K]: where tanh(u) has its median."""
        return self.mean_and_width(parameters)[0]

    def log_prob(self, parameters: Tensor, *, actions: Tensor) -> Tensor:
        """Log density of u."""
        mean, width = self.mean_and_width(parameters)
        return (-0.5 * ((actions - mean) / width).square() - width.log() - _HALF_LOG_2PI).sum(-1)

    def entropy(self, parameters: Tensor) -> Tensor:
        """H[u] + E[log(1 - tanh²u)], and that is 2 (log 2 - E[log(2 cosh u)]); at most K·log 2."""
        mean, width = self.mean_and_width(parameters)
        log_slope = 2 * (math.log(2) - _mean_log_2cosh(mean, width))
        return (0.5 + _HALF_LOG_2PI + width.log() + log_slope).sum(-1)

    def kl(self, behaviour: Tensor, target: Tensor) -> Tensor:
        """KL of the normals, which is that of their tanh."""
        mean, width = self.mean_and_width(behaviour.detach())
        other_mean, other_width = self.mean_and_width(target)
        ratio = width / other_width
        return (0.5 * (ratio.square() + ((mean - other_mean) / other_width).square() - 1) - ratio.log()).sum(-1)

    def encode(self, actions: Tensor) -> Tensor:
        """tanh(u), [..., K]."""
        return actions.tanh()

    def to_environment(self, actions: Tensor) -> Tensor:
        """tanh(u), [..., K]."""
        return actions.tanh()

    def mean_and_width(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of u, [..., K] each."""
        mean, width = parameters.chunk(2, -1)
        return mean, F.softplus(width) + SMALLEST_WIDTH


def _mean_log_2cosh(mean: Tensor, width: Tensor) -> Tensor:
    """E[log(2 cosh u)] of normal u, to 1e-6, for means and widths of any size.

    log(2 cosh u) = E|u + x|, where x has the logistic density sech²(x)/2 (both have the slope tanh u). That x is normal
    with a width which is itself by chance (Andrews & Mallows 1974): so is u + x, and the mean of |normal| is known.
    """
    widths, shares = _normals_of_a_logistic(mean.device)
    mean = mean.unsqueeze(-1)
    total = (width.unsqueeze(-1).square() + widths.square()).sqrt()
    z = mean / total
    return (shares * (total * math.sqrt(2 / math.pi) * (-0.5 * z.square()).exp()
                      + mean * torch.erf(z / math.sqrt(2)))).sum(-1)


@lru_cache
@torch.inference_mode(False)
def _normals_of_a_logistic(device: torch.device) -> tuple[Tensor, Tensor]:
    """Widths and shares, float32 [12] each, of normals that make up the density sech²(x)/2; copied once to a device.

    The widths have Kolmogorov's distribution: density 8 s Σ (-1)^(n+1) n² exp(-2 n² s²), here in even steps of log s.
    """
    widths = np.geomspace(0.28, 3.1, _NORMALS)
    n = np.arange(1, 60)[:, None]
    shares = widths**2 * ((-1.0) ** (n + 1) * n**2 * np.exp(-2 * (n * widths) ** 2)).sum(0)
    one, other = torch.tensor(np.stack([widths, shares / shares.sum()]), dtype=torch.float32, device=device)
    return one, other


CATEGORICAL = Categorical()


def distribution_of(actions: ActionSpec) -> Distribution:
    """The distribution of a kind of action."""
    if actions.kind == "categorical":
        return Categorical(*actions.sizes)
    if actions.kind == "multi_discrete":
        return MultiDiscrete(actions.sizes)
    if actions.kind == "bernoulli":
        return Bernoulli()
    if actions.kind == "tanh_normal":
        return TanhNormal()
    raise InvalidInput(f"no distribution is called {actions.kind!r}.")

"""The distributions that policies choose actions by, over the numbers ("parameters") that a network says.

Every function takes any leading axes: parameters [..., P], actions [..., *action] (see `trajectory.ActionSpec`); what
it returns of an action is [...]. An action of several parts has independent ones: log-probabilities, entropies and
divergences are their sums.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from workbench.trajectory import ActionSpec

SMALLEST_WIDTH = 1e-3  # of a normal, as in SEED's parametric_distribution.py
_NODES = 16  # of the quadrature for the entropy of a squashed normal
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

    def __init__(self) -> None:
        places, weights = np.polynomial.hermite_e.hermegauss(_NODES)  # ∫ f(z) exp(-z²/2) dz
        self._places = torch.tensor(places, dtype=torch.float32)
        self._weights = torch.tensor(weights / math.sqrt(2 * math.pi), dtype=torch.float32)

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
        """H[u] + E[log(1 - tanh²u)], the mean by Gauss-Hermite quadrature; at most K·log 2."""
        mean, width = self.mean_and_width(parameters)
        u = mean.unsqueeze(-1) + width.unsqueeze(-1) * self._places.to(mean.device)
        log_slope = 2 * (math.log(2) - u - F.softplus(-2 * u))
        return (0.5 + _HALF_LOG_2PI + width.log() + (log_slope * self._weights.to(mean.device)).sum(-1)).sum(-1)

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


CATEGORICAL = Categorical()


def distribution_of(actions: ActionSpec) -> Distribution:
    """The distribution of a kind of action."""
    if actions.kind == "categorical":
        return Categorical(*actions.sizes)
    if actions.kind == "multi_discrete":
        return MultiDiscrete(actions.sizes)
    return Bernoulli() if actions.kind == "bernoulli" else TanhNormal()

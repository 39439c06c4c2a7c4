"""The distributions of policies over actions. A network's outputs are their "parameters".

Every function takes any leading axes: parameters [..., P], actions [..., *action] (see `environment_spec.ActionSpec`);
log-probabilities, entropies and divergences are [...]. The parts of an action are independent: these numbers are sums
over the parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from workbench.environment_spec import NEARLY_1, ActionSpec
from workbench.errors import InvalidInput

SMALLEST_WIDTH = 1e-3  # of a normal, as in SEED's parametric_distribution.py
_NORMALS = 12  # whose mixture is a logistic distribution
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _lacking(distribution: object, method: str) -> NotImplementedError:
    return NotImplementedError(f"{type(distribution).__name__} has no method {method}(...), see Distribution.")


class Distribution(Protocol):
    """What algorithms need of a distribution.

    An algorithm may set another `distribution`, of a subclass; but what environments get of an action, and networks of
    the last one, depends on its kind alone (`distribution_of`).
    """

    def sample(self, parameters: Tensor, *, generator: torch.Generator | None) -> Tensor:
        """Random actions, as unrolls keep them, without a gradient."""
        raise _lacking(self, "sample")

    def sample_with_gradient(self, parameters: Tensor, *, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Random actions through which the parameters get a gradient, and their log-density where the environment
        gets them, [...]. Raises InvalidInput where actions are choices."""
        raise _lacking(self, "sample_with_gradient")

    def mode(self, parameters: Tensor) -> Tensor:
        """The most likely actions, as unrolls keep them."""
        raise _lacking(self, "mode")

    def log_prob(self, parameters: Tensor, *, actions: Tensor) -> Tensor:
        """log π(a)."""
        raise _lacking(self, "log_prob")

    def entropy(self, parameters: Tensor) -> Tensor:
        """H[π] in nats."""
        raise _lacking(self, "entropy")

    def kl(self, behaviour: Tensor, target: Tensor) -> Tensor:
        """KL(μ ‖ π) in nats; μ has no gradient."""
        raise _lacking(self, "kl")

    def scores(self, parameters: Tensor) -> Tensor:
        """A score for every action or part of one, as people see it, float32 [..., A]. Here the middles of numbers."""
        return self.to_environment(self.mode(parameters))

    def preference(self, parameters: Tensor, *, action: Tensor) -> Tensor:
        """How strongly the policy prefers `action` [*action], [...], differentiable. Here log π(a)."""
        return self.log_prob(parameters, actions=action.expand(*parameters.shape[:-1], *action.shape))

    def encode(self, actions: Tensor) -> Tensor:
        """The previous action as a network's input: float32 [..., E]."""
        raise _lacking(self, "encode")

    def to_environment(self, actions: Tensor) -> Tensor:
        """The actions that the environment receives."""
        raise _lacking(self, "to_environment")

    def from_environment(self, actions: Tensor) -> Tensor:
        """The inverse of `to_environment`, as unrolls keep them."""
        raise _lacking(self, "from_environment")


class _Choices(Distribution):
    """What all distributions over choices have in common."""

    def to_environment(self, actions: Tensor) -> Tensor:
        return actions

    def from_environment(self, actions: Tensor) -> Tensor:
        return actions

    def sample_with_gradient(self, parameters: Tensor, *, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """There is none."""
        raise InvalidInput(f"{type(self).__name__} has no samples with gradients: its actions are choices.")


class Categorical(_Choices):
    """One of `n` choices; parameters are logits [..., n]."""

    def __init__(self, n: int = 0) -> None:
        self.n = n

    def sample(self, parameters: Tensor, *, generator: torch.Generator | None) -> Tensor:
        """int64: the argmax of logits + Gumbel noise is a sample of the softmax; Gumbel = -log Exponential."""
        noise = torch.empty_like(parameters).exponential_(generator=generator)
        return (parameters - noise.log()).argmax(-1)

    def mode(self, parameters: Tensor) -> Tensor:
        return parameters.argmax(-1)

    def log_prob(self, parameters: Tensor, *, actions: Tensor) -> Tensor:
        return F.log_softmax(parameters, dim=-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self, parameters: Tensor) -> Tensor:
        """-Σ π log π."""
        log_policy = F.log_softmax(parameters, dim=-1)
        return -(log_policy.exp() * log_policy).sum(-1)

    def kl(self, behaviour: Tensor, target: Tensor) -> Tensor:
        """Σ μ (log μ - log π)."""
        log_behaviour = F.log_softmax(behaviour, dim=-1).detach()
        return (log_behaviour.exp() * (log_behaviour - F.log_softmax(target, dim=-1))).sum(-1)

    def scores(self, parameters: Tensor) -> Tensor:
        """Probabilities, [..., n]."""
        return parameters.softmax(-1)

    def encode(self, actions: Tensor) -> Tensor:
        """One-hot, [..., n]."""
        return F.one_hot(actions, self.n).float()


class Bernoulli(_Choices):
    """K switches; parameters are the logits of 1, [..., K]."""

    def sample(self, parameters: Tensor, *, generator: torch.Generator | None) -> Tensor:
        """int64 [..., K]."""
        uniform = torch.rand(parameters.shape, generator=generator, device=parameters.device)
        return (uniform < parameters.sigmoid()).long()

    def mode(self, parameters: Tensor) -> Tensor:
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
        mu = behaviour.detach()
        on = mu.sigmoid() * (F.logsigmoid(mu) - F.logsigmoid(target))
        off = (-mu).sigmoid() * (F.logsigmoid(-mu) - F.logsigmoid(-target))
        return (on + off).sum(-1)

    def scores(self, parameters: Tensor) -> Tensor:
        """Probabilities of 1, [..., K]."""
        return parameters.sigmoid()

    def encode(self, actions: Tensor) -> Tensor:
        """0 or 1, [..., K]."""
        return actions.float()


class TanhNormal(Distribution):
    """tanh(u), u normal; parameters are K means, then K numbers whose softplus is the standard deviation.

    Unrolls keep u. Log-probabilities are those of u, not of tanh(u): the ratio of the two densities is the same for
    every policy, so it cancels in importance ratios, gradients and divergences. The entropy is that of tanh(u).
    """

    def sample(self, parameters: Tensor, *, generator: torch.Generator | None) -> Tensor:
        """float32 u [..., K]."""
        mean, width = self.mean_and_width(parameters.detach())
        return mean + width * torch.randn(mean.shape, generator=generator, device=mean.device)

    def sample_with_gradient(self, parameters: Tensor, *, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """float32 u [..., K] by the reparameterization trick, and log π of tanh(u), [...], its slope included."""
        mean, width = self.mean_and_width(parameters)
        u = mean + width * torch.randn(mean.shape, generator=generator, device=mean.device)
        log_slope = 2 * (math.log(2) - u - F.softplus(-2 * u))  # log(1 - tanh²u), without cancellation
        return u, self.log_prob(parameters, actions=u) - log_slope.sum(-1)

    def mode(self, parameters: Tensor) -> Tensor:
        """float32 u [..., K]: the median of tanh(u)."""
        return self.mean_and_width(parameters)[0]

    def log_prob(self, parameters: Tensor, *, actions: Tensor) -> Tensor:
        mean, width = self.mean_and_width(parameters)
        return (-0.5 * ((actions - mean) / width).square() - width.log() - _HALF_LOG_2PI).sum(-1)

    def entropy(self, parameters: Tensor) -> Tensor:
        """H[u] + E[log(1 - tanh²u)], at most K·log 2; the second term is 2 (log 2 - E[log(2 cosh u)])."""
        mean, width = self.mean_and_width(parameters)
        log_slope = 2 * (math.log(2) - _mean_log_2cosh(mean, width))
        return (0.5 + _HALF_LOG_2PI + width.log() + log_slope).sum(-1)

    def kl(self, behaviour: Tensor, target: Tensor) -> Tensor:
        """KL of the normals, which equals that of their tanh."""
        mean, width = self.mean_and_width(behaviour.detach())
        target_mean, target_width = self.mean_and_width(target)
        ratio = width / target_width
        return (0.5 * (ratio.square() + ((mean - target_mean) / target_width).square() - 1) - ratio.log()).sum(-1)

    def preference(self, parameters: Tensor, *, action: Tensor) -> Tensor:
        """The sum of the middles, because the density's slope at its mode is 0."""
        return self.scores(parameters).sum(-1)

    def encode(self, actions: Tensor) -> Tensor:
        """tanh(u), [..., K]."""
        return actions.tanh()

    def to_environment(self, actions: Tensor) -> Tensor:
        return actions.tanh()

    def from_environment(self, actions: Tensor) -> Tensor:
        return actions.clamp(-NEARLY_1, NEARLY_1).atanh()

    def mean_and_width(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of u, [..., K] each."""
        mean, width = parameters.chunk(2, -1)
        return mean, F.softplus(width) + SMALLEST_WIDTH


def _mean_log_2cosh(mean: Tensor, width: Tensor) -> Tensor:
    """E[log(2 cosh u)] of normal u, to 1e-6, for means and widths of any size.

    log(2 cosh u) = E|u + x|, where x has the logistic density sech²(x)/2 (both have the slope tanh u). Such an x is
    normal with a random width (Andrews & Mallows 1974); so is u + x, and the mean of |normal| has a closed form.
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
    """Widths and shares, float32 [12] each, of the normals whose mixture is sech²(x)/2; cached for each device.

    The widths have Kolmogorov's distribution, density 8 s Σ (-1)^(n+1) n² exp(-2 n² s²), here on a grid even in log s.
    """
    widths = np.geomspace(0.28, 3.1, _NORMALS)
    n = np.arange(1, 60)[:, None]
    shares = widths**2 * ((-1.0) ** (n + 1) * n**2 * np.exp(-2 * (n * widths) ** 2)).sum(0)
    mixture = torch.tensor(np.stack([widths, shares / shares.sum()]), dtype=torch.float32, device=device)
    return mixture[0], mixture[1]


class Mixed(Distribution):
    """Independent parts of other kinds; parameters, and columns of actions, are theirs one after another.

    Actions are float32 also where a part has choices, as in SEED's JointDistribution (`parametric_distribution.py`),
    which knows one Box and one MultiDiscrete.
    """

    def __init__(self, parts: Sequence[ActionSpec]) -> None:
        self._parts = [(part, distribution_of(part)) for part in parts]
        self._parameters = [part.parameters for part in parts]
        self._columns = [len(part.sizes) for part in parts]

    def sample(self, parameters: Tensor, *, generator: torch.Generator | None) -> Tensor:
        """float32 [..., K]."""
        return self._joined([part.sample(own, generator=generator) for part, own in self._each(parameters)])

    def sample_with_gradient(self, parameters: Tensor, *, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """There is none."""
        raise InvalidInput("Mixed has no samples with gradients: some parts of its actions are choices.")

    def mode(self, parameters: Tensor) -> Tensor:
        """float32 [..., K]."""
        return self._joined([part.mode(own) for part, own in self._each(parameters)])

    def log_prob(self, parameters: Tensor, *, actions: Tensor) -> Tensor:
        """Σ log π_k(a_k)."""
        pairs = zip(self._each(parameters), self.split(actions), strict=True)
        return torch.stack([part.log_prob(own, actions=action) for (part, own), action in pairs]).sum(0)

    def entropy(self, parameters: Tensor) -> Tensor:
        """Σ H[π_k]."""
        return torch.stack([part.entropy(own) for part, own in self._each(parameters)]).sum(0)

    def kl(self, behaviour: Tensor, target: Tensor) -> Tensor:
        """Σ KL(μ_k ‖ π_k)."""
        pairs = zip(self._each(behaviour), self._each(target), strict=True)
        return torch.stack([part.kl(mu, pi) for (part, mu), (_, pi) in pairs]).sum(0)

    def scores(self, parameters: Tensor) -> Tensor:
        """The parts' own scores, concatenated."""
        return torch.cat([part.scores(own) for part, own in self._each(parameters)], -1)

    def preference(self, parameters: Tensor, *, action: Tensor) -> Tensor:
        """The sum over the parts."""
        pairs = zip(self._each(parameters), self.split(action), strict=True)
        return torch.stack([part.preference(own, action=columns) for (part, own), columns in pairs]).sum(0)

    def encode(self, actions: Tensor) -> Tensor:
        """The parts' own encodings, concatenated."""
        pairs = zip(self._parts, self.split(actions), strict=True)
        return torch.cat([part.encode(action) for (_, part), action in pairs], -1)

    def to_environment(self, actions: Tensor) -> Tensor:
        pairs = zip(self._parts, self.split(actions), strict=True)
        return self._joined([part.to_environment(action) for (_, part), action in pairs])

    def from_environment(self, actions: Tensor) -> Tensor:
        pairs = zip(self._parts, self.split(actions), strict=True)
        return self._joined([part.from_environment(action) for (_, part), action in pairs])

    def split(self, actions: Tensor) -> list[Tensor]:
        """The action of each part, in its own shape and with choices as int64, from [..., K]."""
        return [(columns.long() if spec.dtype == "int64" else columns).reshape((*columns.shape[:-1], *spec.shape))
                for (spec, _), columns in zip(self._parts, torch.split(actions, self._columns, -1), strict=True)]

    def _joined(self, actions: list[Tensor]) -> Tensor:
        """The inverse of `split`."""
        every = [action if action.is_floating_point() else action.float() for action in actions]
        return torch.cat([action if spec.shape else action.unsqueeze(-1)
                          for (spec, _), action in zip(self._parts, every, strict=True)], -1)

    def _each(self, parameters: Tensor) -> list[tuple[Distribution, Tensor]]:
        """The parts, with their parameters."""
        every = torch.split(parameters, self._parameters, -1)
        return [(part, own) for (_, part), own in zip(self._parts, every, strict=True)]


class MultiDiscrete(_Choices, Mixed):
    """K choices side by side, of n_1, ..., n_K; parameters are their logits one after another. Actions are int64."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__([ActionSpec("categorical", (size,)) for size in sizes])

    def split(self, actions: Tensor) -> list[Tensor]:
        return list(actions.unbind(-1))

    def _joined(self, actions: list[Tensor]) -> Tensor:
        return torch.stack(actions, -1)


CATEGORICAL = Categorical()


def distribution_of(actions: ActionSpec) -> Distribution:
    """The distribution for the kind of `actions`. Raises InvalidInput for an unknown kind."""
    if actions.kind == "categorical":
        return Categorical(*actions.sizes)
    if actions.kind == "multi_discrete":
        return MultiDiscrete(actions.sizes)
    if actions.kind == "bernoulli":
        return Bernoulli()
    if actions.kind == "tanh_normal":
        return TanhNormal()
    if actions.kind == "mixed":
        return Mixed([part.actions for part in actions.parts])
    raise InvalidInput(f"no distribution is called {actions.kind!r}.")
